//! The one check of an extension's permissions.
//!
//! Every way out of an engine has a row here: an operation that is not in [`OPERATIONS`] does not
//! exist, and the matches over host requests have no wildcard. `docs/extensions.md` has the same
//! table in words.

use std::fmt;

use serde_json::Value;

use crate::config::Permissions;
use crate::host_api::{Action, ModelRead, Query, Request};

const NONE: Permissions = Permissions { fs: false, exec: false, net: false, env: false };
const FS: Permissions = Permissions { fs: true, ..NONE };
const EXEC: Permissions = Permissions { exec: true, ..NONE };
const NET: Permissions = Permissions { net: true, ..NONE };
const ENV: Permissions = Permissions { env: true, ..NONE };
const NET_AND_FS: Permissions = Permissions { net: true, ..FS };
const NET_AND_ENV: Permissions = Permissions { net: true, ..ENV };
const ALL: Permissions = Permissions::ALL;

/// Something an extension wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access<'a> {
    /// One of [`OPERATIONS`], by its name.
    Operation(&'a str),
    Query(&'a Query),
    Action(&'a Action),
    Request(&'a Request),
    /// A request to a model.
    Model {
        server: Server,
    },
    /// A connection or a listener.
    Socket(Socket),
    /// A handler for an event of this name.
    Listener(&'a str),
    /// A tool call that the model did not make in this form.
    ToolCall(&'a str),
    /// A provider with this configuration.
    Provider {
        config: &'a Value,
        streams: bool,
        has_oauth: bool,
    },
    /// A provider's stored credential, to make a key of it.
    SignIn,
    /// A source file of another extension or program.
    ForeignFile,
    /// A node or bun process.
    Sidecar,
}

/// Which server a model request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The one known for the model.
    Known,
    /// A server that the extension names, which also receives the provider's keys.
    Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    Network,
    /// A Unix socket, which is a file.
    File,
}

/// The missing permissions, as text: `fs, exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub lacking: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EACCES: this extension has no permission for {}", self.lacking)
    }
}

/// Whether these permissions allow the access.
pub(crate) fn check(permissions: Permissions, access: Access<'_>) -> Result<(), Denied> {
    let needs = needs(access);
    let Permissions { fs, exec, net, env } = permissions;
    let all = [
        (needs.fs && !fs, "fs"),
        (needs.exec && !exec, "exec"),
        (needs.net && !net, "net"),
        (needs.env && !env, "env"),
    ];
    let lacking: Vec<&str> =
        all.iter().filter(|(lacks, _)| *lacks).map(|(_, name)| *name).collect();
    if lacking.is_empty() { Ok(()) } else { Err(Denied { lacking: lacking.join(", ") }) }
}

/// The permissions an access needs.
pub(crate) fn needs(access: Access<'_>) -> Permissions {
    match access {
        Access::Operation(name) => operation(name).unwrap_or(ALL),
        Access::Query(query) => of_query(query),
        Access::Action(action) => of_action(action),
        Access::Request(request) => of_request(request),
        Access::Model { server: Server::Known } => NET,
        Access::Model { server: Server::Named } => NET_AND_ENV,
        Access::Socket(Socket::Network) => NET,
        Access::Socket(Socket::File) => NET_AND_FS,
        Access::Listener(name) => of_listener(name),
        Access::ToolCall(name) => of_tool(name),
        Access::Provider { config, streams, has_oauth } => of_provider(config, streams, has_oauth),
        Access::SignIn => ENV,
        Access::ForeignFile => FS,
        // Permissions cannot be enforced in another process.
        Access::Sidecar => ALL,
    }
}

/// The permissions an operation needs, or `None` if there is no such operation.
pub(crate) fn operation(name: &str) -> Option<Permissions> {
    let index = OPERATIONS.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    Some(OPERATIONS[index].1)
}

/// Every operation, sorted by name. Those with `BY_INPUT` are checked again when their input is
/// known.
pub(crate) const OPERATIONS: &[(&str, Permissions)] = &[
    ("act", BY_INPUT),
    ("bus.emit", NONE),
    ("bus.hasListener", NONE),
    ("bus.listen", NONE),
    ("checkArguments", NONE),
    ("child.end", EXEC),
    ("child.forget", EXEC),
    ("child.kill", EXEC),
    ("child.read", EXEC),
    ("child.spawn", EXEC),
    ("child.spawnSync", EXEC),
    ("child.write", EXEC),
    ("crypto.equal", NONE),
    ("crypto.hash", NONE),
    ("crypto.hmac", NONE),
    ("crypto.pbkdf2", NONE),
    ("crypto.random", NONE),
    ("dialog", NONE),
    ("fs.access", FS),
    ("fs.chmod", FS),
    ("fs.close", FS),
    ("fs.copyFile", FS),
    ("fs.cp", FS),
    ("fs.exists", FS),
    ("fs.fsync", FS),
    ("fs.link", FS),
    ("fs.lstat", FS),
    ("fs.mkdir", FS),
    ("fs.mkdtemp", FS),
    ("fs.open", FS),
    ("fs.read", FS),
    ("fs.readFile", FS),
    ("fs.readdir", FS),
    ("fs.readlink", FS),
    ("fs.realpath", FS),
    ("fs.rename", FS),
    ("fs.rm", FS),
    ("fs.rmdir", FS),
    ("fs.stat", FS),
    ("fs.statfs", FS),
    ("fs.symlink", FS),
    ("fs.truncate", FS),
    ("fs.unlink", FS),
    ("fs.utimes", FS),
    ("fs.write", FS),
    ("fs.writeFile", FS),
    // Without `env`, its environment is empty.
    ("hostInfo", NONE),
    ("http.close", NET),
    ("http.fetch", NET),
    ("http.read", NET),
    ("log", NONE),
    ("lostGuards", NONE),
    ("model", BY_INPUT),
    ("modelEventsHandled", NONE),
    ("net.connect", BY_INPUT),
    ("net.end", NET),
    ("net.listen", BY_INPUT),
    ("net.write", NET),
    ("notice", NONE),
    ("os.info", NONE),
    ("os.kill", EXEC),
    ("os.memory", NONE),
    ("os.user", NONE),
    ("payloadResult", NONE),
    ("query", BY_INPUT),
    ("registered", BY_INPUT),
    ("request", BY_INPUT),
    ("session.project", NONE),
    ("settings", BY_INPUT),
    ("text.decode", NONE),
    ("text.encode", NONE),
    ("text.formatSize", NONE),
    ("text.fromBase64", NONE),
    ("text.frontMatter", NONE),
    ("text.modelText", NONE),
    ("text.partialJson", NONE),
    ("text.toBase64", NONE),
    ("text.toBase64Url", NONE),
    ("text.toHex", NONE),
    ("text.truncate", NONE),
    ("url.parse", NONE),
    ("url.set", NONE),
    ("zlib.deflate", NONE),
    ("zlib.deflateRaw", NONE),
    ("zlib.gunzip", NONE),
    ("zlib.gzip", NONE),
    ("zlib.inflate", NONE),
    ("zlib.inflateRaw", NONE),
    ("zlib.unzip", NONE),
];

const BY_INPUT: Permissions = NONE;

fn of_query(query: &Query) -> Permissions {
    match query {
        Query::Cwd
        | Query::IsIdle
        | Query::HasPendingMessages
        | Query::PendingMessages
        | Query::IsProjectTrusted
        | Query::ContextUsage
        | Query::SystemPrompt
        | Query::SystemPromptOptions
        | Query::RenderedPrompt { .. }
        | Query::Model
        | Query::ScopedModels
        | Query::ThinkingLevel
        | Query::ActiveTools
        | Query::AllTools
        | Query::BuiltinTools
        | Query::Commands
        // Only the current session.
        | Query::Session(_) => NONE,
        Query::Models(read) => match read {
            ModelRead::All
            | ModelRead::Available
            | ModelRead::Find { .. }
            | ModelRead::HasAuth { .. }
            | ModelRead::IsUsingOauth { .. }
            | ModelRead::ProviderName { .. }
            | ModelRead::AuthStatus { .. }
            | ModelRead::Error
            | ModelRead::CatalogueProviders
            | ModelRead::Catalogue { .. } => NONE,
            // Most keys come from the environment, and stored ones are worth as much.
            ModelRead::Credential { .. } => ENV,
        },
    }
}

fn of_action(action: &Action) -> Permissions {
    match action {
        Action::SendMessage { .. }
        | Action::SendUserMessage { .. }
        | Action::AppendEntry { .. }
        | Action::AppendMessage { .. }
        | Action::SetSessionName { .. }
        | Action::SetLabel { .. }
        | Action::SetActiveTools { .. }
        | Action::SetThinkingLevel { .. }
        | Action::Abort
        | Action::Shutdown => NONE,
        Action::RegisterProvider { config, .. } => {
            of_provider(config, config["streams"] == true, config["hasOauth"] == true)
        }
        // Decides which server receives the conversation.
        Action::UnregisterProvider { .. } => NET,
    }
}

fn of_request(request: &Request) -> Permissions {
    match request {
        Request::Compact { .. }
        | Request::WaitForIdle
        | Request::NewSession { .. }
        | Request::Fork { .. }
        | Request::NavigateTree { .. }
        | Request::Reload
        | Request::BeforeProviderRequest { .. }
        | Request::AfterProviderResponse { .. } => NONE,
        // Decides which server receives the conversation.
        Request::SetModel { .. } | Request::RefreshModels { .. } => NET,
        // Can read any session file, and models-store.json is a file.
        Request::SwitchSession { .. }
        | Request::StoredModels { .. }
        | Request::StoreModels { .. } => FS,
        Request::ApiKeyAndHeaders { .. } | Request::ApiKey { .. } => ENV,
        Request::RunTool { name, .. } => of_tool(name),
    }
}

/// The permissions to run a tool, or to run the model's call with other arguments.
fn of_tool(name: &str) -> Permissions {
    match name {
        "bash" => EXEC,
        "read" | "write" | "edit" | "grep" | "find" | "ls" => FS,
        // What other tools do is not known.
        _ => ALL,
    }
}

fn of_listener(name: &str) -> Permissions {
    match name {
        // A trusted project runs its own extensions with every permission.
        "project_trust" => ALL,
        // The files it names become skills and templates.
        "resources_discover" => FS,
        // Headers in models.json may contain keys.
        "before_provider_headers" => ENV,
        _ => NONE,
    }
}

/// A provider's own server receives the conversation and the provider's keys, and its answers
/// contain tool calls. The same is true for a provider that streams.
fn of_provider(config: &Value, streams: bool, has_oauth: bool) -> Permissions {
    let mut needs = if streams { ALL } else { NONE };
    needs.env |= has_oauth;
    let mut unseen = vec![("", config)];
    while let Some((key, value)) = unseen.pop() {
        match value {
            Value::String(text) => {
                if key.to_ascii_lowercase().contains("url") || text.contains("://") {
                    needs = ALL;
                }
                needs.exec |= text.starts_with('!');
                needs.env |= text.contains('$');
            }
            Value::Array(items) => unseen.extend(items.iter().map(|item| (key, item))),
            Value::Object(fields) => {
                unseen.extend(fields.iter().map(|(key, value)| (key.as_str(), value)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }
    needs
}

#[cfg(test)]
mod tests;
