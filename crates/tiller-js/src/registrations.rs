//! What extensions register, merged over all of them. Name conflicts follow pi's rules: the first
//! tool and the first flag win, commands keep both under numbered names, the last shortcut wins.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::Tool;

use crate::access::{self, Access};
use crate::config::Permissions;
use crate::engine_handle::EngineHandle;
use crate::tool;

#[derive(Clone, Debug, Default)]
pub struct Registrations {
    /// In load order.
    pub extensions: Vec<LoadedExtension>,
    pub tools: Vec<RegisteredTool>,
    pub commands: Vec<RegisteredCommand>,
    pub flags: Vec<RegisteredFlag>,
    pub shortcuts: Vec<RegisteredShortcut>,
    pub providers: Vec<Provider>,
    /// Names registered by two extensions.
    pub conflicts: Vec<LoadError>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LoadedExtension {
    pub path: String,
    /// Event names with their number of handlers, in the order of first use.
    pub handlers: Vec<(String, u64)>,
    pub message_renderers: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct RegisteredTool {
    pub tool: Tool,
    pub label: String,
    pub extension_path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredCommand {
    /// The name after the slash; with `:1`, `:2`, … if several extensions registered it.
    pub name: String,
    pub description: Option<String>,
    pub extension_path: String,
    pub(crate) own_name: String,
    pub(crate) extension: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredFlag {
    pub name: String,
    pub description: Option<String>,
    pub kind: FlagKind,
    pub default: Option<Value>,
    pub extension_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlagKind {
    Boolean,
    String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredShortcut {
    pub key: String,
    pub description: Option<String>,
    pub extension_path: String,
}

/// A model provider that an extension registered.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    pub name: String,
    /// The JSON part of its configuration: `baseUrl`, `apiKey`, `api`, `headers`, `models`, ….
    pub config: Value,
    /// Whether the extension streams the answers itself, through [`Extensions::stream`].
    ///
    /// [`Extensions::stream`]: crate::Extensions::stream
    pub streams: bool,
    /// Whether it has its own login.
    pub has_oauth: bool,
    pub extension_path: String,
    pub(crate) extension: u32,
}

/// An extension that could not be loaded, or only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    pub path: String,
    pub error: String,
    /// The position in the author's file.
    pub at: Option<String>,
}

/// What one extension registered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExtensionRegistrations {
    pub number: u32,
    pub path: String,
    handlers: Vec<(String, u64)>,
    message_renderers: Vec<String>,
    tools: Vec<ToolRegistration>,
    commands: Vec<CommandRegistration>,
    flags: Vec<FlagRegistration>,
    shortcuts: Vec<ShortcutRegistration>,
    providers: Vec<ProviderRegistration>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolRegistration {
    name: String,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    description: String,
    parameters: Value,
    #[serde(default)]
    prompt_snippet: Option<String>,
    #[serde(default)]
    prompt_guidelines: Vec<String>,
    #[serde(default)]
    sequential: bool,
    #[serde(default)]
    prepares: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct CommandRegistration {
    name: String,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct FlagRegistration {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(rename = "type")]
    kind: FlagKind,
    #[serde(default)]
    default: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct ShortcutRegistration {
    key: String,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProviderRegistration {
    name: String,
    config: Value,
    #[serde(default)]
    streams: bool,
    #[serde(default)]
    has_oauth: bool,
}

impl ExtensionRegistrations {
    /// Removes what an extension with these permissions may not register.
    pub(crate) fn restrict(&mut self, permissions: Permissions) {
        self.providers.retain(|provider| {
            let ProviderRegistration { config, streams, has_oauth, .. } = provider;
            let (streams, has_oauth) = (*streams, *has_oauth);
            let access = Access::Provider { config, streams, has_oauth };
            access::check(permissions, access).is_ok()
        });
    }

    /// Whether it handles an event that fails closed.
    pub(crate) fn is_guard(&self) -> bool {
        self.handlers.iter().any(|(name, _)| matches!(name.as_str(), "tool_call" | "user_bash"))
    }
}

impl Registrations {
    /// Merges what each extension registered, in load order.
    pub(crate) fn merge(all: &[(ExtensionRegistrations, EngineHandle)]) -> Registrations {
        let mut merged = Registrations::default();
        let mut command_names: HashMap<&str, usize> = HashMap::new();
        for (registered, _) in all {
            for command in &registered.commands {
                *command_names.entry(&command.name).or_default() += 1;
            }
        }
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (registered, engine) in all {
            merged.extensions.push(LoadedExtension {
                path: registered.path.clone(),
                handlers: registered.handlers.clone(),
                message_renderers: registered.message_renderers.clone(),
            });
            for tool in &registered.tools {
                merged.add_tool(registered, tool, engine);
            }
            for command in &registered.commands {
                let mut name = command.name.clone();
                if command_names.get(command.name.as_str()).is_some_and(|count| *count > 1) {
                    let number = numbers.entry(&command.name).or_default();
                    *number += 1;
                    name = format!("{name}:{number}");
                }
                merged.commands.push(RegisteredCommand {
                    name,
                    description: command.description.clone(),
                    extension_path: registered.path.clone(),
                    own_name: command.name.clone(),
                    extension: registered.number,
                });
            }
            for flag in &registered.flags {
                merged.add_flag(registered, flag);
            }
            for shortcut in &registered.shortcuts {
                merged.shortcuts.retain(|known| known.key != shortcut.key);
                merged.shortcuts.push(RegisteredShortcut {
                    key: shortcut.key.clone(),
                    description: shortcut.description.clone(),
                    extension_path: registered.path.clone(),
                });
            }
            for provider in &registered.providers {
                merged.providers.retain(|known| known.name != provider.name);
                merged.providers.push(Provider {
                    name: provider.name.clone(),
                    config: provider.config.clone(),
                    streams: provider.streams,
                    has_oauth: provider.has_oauth,
                    extension_path: registered.path.clone(),
                    extension: registered.number,
                });
            }
        }
        merged
    }

    fn add_tool(
        &mut self,
        registered: &ExtensionRegistrations,
        tool: &ToolRegistration,
        engine: &EngineHandle,
    ) {
        if let Some(first) = self.tools.iter().find(|known| known.tool.name() == tool.name) {
            let error = format!("Tool \"{}\" conflicts with {}", tool.name, first.extension_path);
            self.conflicts.push(LoadError { path: registered.path.clone(), error, at: None });
            return;
        }
        let spec = ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        };
        let mut built = tool::tool(spec, registered.number, engine.clone(), tool.prepares);
        built.sequential = tool.sequential;
        built.snippet = tool.prompt_snippet.clone();
        built.guidelines = tool.prompt_guidelines.clone();
        self.tools.push(RegisteredTool {
            tool: built,
            label: tool.label.clone().unwrap_or_else(|| tool.name.clone()),
            extension_path: registered.path.clone(),
        });
    }

    fn add_flag(&mut self, registered: &ExtensionRegistrations, flag: &FlagRegistration) {
        if let Some(first) = self.flags.iter().find(|known| known.name == flag.name) {
            if first.extension_path != registered.path {
                let error =
                    format!("Flag \"--{}\" conflicts with {}", flag.name, first.extension_path);
                self.conflicts.push(LoadError { path: registered.path.clone(), error, at: None });
            }
            return;
        }
        self.flags.push(RegisteredFlag {
            name: flag.name.clone(),
            description: flag.description.clone(),
            kind: flag.kind,
            default: flag.default.clone(),
            extension_path: registered.path.clone(),
        });
    }
}
