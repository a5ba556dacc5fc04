//! The commands and files of the user and the project.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The data of `get_commands`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandsData {
    /// Commands of extensions, then templates, then skills, each in the order of discovery.
    pub commands: Vec<CommandInfo>,
}

/// A command, template or skill that a message can name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandInfo {
    /// Without the `/`. The name of a skill begins with `skill:`.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub source: CommandSource,
    /// Whose file it is: `user`, `project` or `path`.
    pub location: Cow<'static, str>,
    pub path: PathBuf,
    pub source_info: CommandSourceInfo,
}

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandSource {
    Extension,
    /// A template.
    Prompt,
    Skill,
}

/// Where the file of a command comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandSourceInfo {
    pub path: PathBuf,
    /// A package, `extension:NAME`, `auto` if it was discovered, or `local` if it was named.
    pub source: String,
    /// `user`, `project`, or `temporary` for a file of the command line.
    pub scope: Cow<'static, str>,
    /// `package` or `top-level`.
    pub origin: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<PathBuf>,
}

/// The data of `get_available_commands`: the same commands in the format of omp's clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AvailableCommandsData {
    pub commands: Vec<AvailableCommand>,
}

/// A command without its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AvailableCommand {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub source: AvailableCommandSource,
}

/// What a command is, in omp's terms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AvailableCommandSource {
    Extension,
    Skill,
    /// A template.
    File,
}

/// The data of `reload`: how many of each there are now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadData<'a> {
    pub skills: usize,
    pub prompt_templates: usize,
    pub context_files: usize,
    pub rules: usize,
    /// Problems with settings, skills and other files.
    pub diagnostics: Vec<Cow<'a, str>>,
}
