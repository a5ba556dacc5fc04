//! The MCP servers that files configure, in the format of Claude, Cursor and pi: `mcp.json` in the
//! user's agent folder, `.pi/mcp.json` in a trusted project, and the file of `--mcp-config`. A later
//! file counts more.
//!
//! An entry that cannot be used is reported and left out; the others count. Variables and commands
//! in values are resolved when a server starts, not here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tiller_agent::mcp::{McpServer, McpServerEntry, McpSource, McpTransport, same_name};

use crate::credentials::ConfigValue;
use crate::jsonc;
use crate::project::{Project, text_file};

/// A server, and where its entry is.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredServer {
    pub server: McpServer,
    pub source: McpSource,
}

/// An entry that may still be changed by a later file.
struct Entry {
    name: String,
    entry: McpServerEntry,
    source: McpSource,
    path: PathBuf,
}

/// Reads the servers of all files. Problems name the file and the server.
pub(crate) fn read(project: &Project, problems: &mut Vec<String>) -> Vec<ConfiguredServer> {
    let mut entries = Vec::new();
    let dirs = project.dirs();
    add_file(&mut entries, &dirs.agent_dir.join("mcp.json"), McpSource::User, problems);
    if project.is_trusted() {
        let path = dirs.project_dir().join("mcp.json");
        add_file(&mut entries, &path, McpSource::Project, problems);
    }
    if let Some(path) = project.mcp_config() {
        if !path.exists() {
            problems.push(format!("--mcp-config: {} does not exist", path.display()));
        }
        add_file(&mut entries, &path, McpSource::File, problems);
    }
    let checked = |Entry { name, entry, source, path }: Entry| match entry.check(&name) {
        Ok(server) => Some(ConfiguredServer { server, source }),
        Err(why) => {
            problems.push(skipped(&path, &name, &why));
            None
        }
    };
    entries.into_iter().filter_map(checked).collect()
}

fn skipped(path: &Path, name: &str, why: &str) -> String {
    format!("MCP server \"{name}\" in {} is skipped: {why}", path.display())
}

fn add_file(entries: &mut Vec<Entry>, path: &Path, source: McpSource, problems: &mut Vec<String>) {
    let Some(text) = text_file::read(path, problems) else { return };
    let file = path.display();
    let servers = match jsonc::parse(&text) {
        Ok(Value::Object(mut file)) => file.remove("mcpServers"),
        Ok(_) => {
            problems.push(format!("{file} is ignored: expected an object with `mcpServers`"));
            return;
        }
        Err(err) => {
            problems.push(format!("{file} is ignored: {err}"));
            return;
        }
    };
    let servers = match servers {
        Some(Value::Object(servers)) => servers,
        // A file for something else, or an empty one.
        None => Map::new(),
        Some(_) => {
            problems.push(format!("{file} is ignored: `mcpServers` must be an object"));
            return;
        }
    };
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in servers {
        if let Some(first) = seen.iter().find(|first| same_name(first, &name)) {
            let why = format!("its tools would have the names of those of \"{first}\"");
            problems.push(skipped(path, &name, &why));
            continue;
        }
        seen.push(name.clone());
        match serde_json::from_value::<McpServerEntry>(value) {
            Ok(entry) => add(entries, Entry { name, entry, source, path: path.to_owned() }),
            Err(err) => problems.push(skipped(path, &name, &err.to_string())),
        }
    }
}

/// Adds an entry, which replaces or changes one of an earlier file with the same name.
fn add(entries: &mut Vec<Entry>, new: Entry) {
    let earlier = entries.iter().position(|entry| same_name(&entry.name, &new.name));
    match earlier {
        Some(at) if new.entry.is_override() => {
            let Entry { name, entry, source, path } = entries.remove(at);
            let entry = entry.overridden_by(new.entry);
            entries.insert(at, Entry { name, entry, source, path });
        }
        Some(at) => entries[at] = new,
        None => entries.push(new),
    }
}

/// Fills in what a server's values name: `${NAME}` and `!command` in `env` and `headers`, `~/` in
/// paths. Runs the commands.
pub async fn resolve(
    mut server: McpServer,
    variables: &HashMap<String, String>,
) -> Result<McpServer, String> {
    let home = variables.get("HOME").map(String::as_str).unwrap_or_default();
    match &mut server.transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            for path in args.iter_mut().chain([command]) {
                expand_home(path, home);
            }
            if let Some(inside) = cwd.as_ref().and_then(|cwd| cwd.strip_prefix("~").ok()) {
                *cwd = Some(Path::new(home).join(inside));
            }
            fill_all("the variable", env, variables).await?;
        }
        McpTransport::Http { headers, .. } => fill_all("the header", headers, variables).await?,
    }
    Ok(server)
}

fn expand_home(path: &mut String, home: &str) {
    if let Some(inside) = path.strip_prefix("~/") {
        *path = format!("{home}/{inside}");
    }
}

async fn fill_all(
    what: &str,
    values: &mut [(String, String)],
    variables: &HashMap<String, String>,
) -> Result<(), String> {
    for (name, value) in values {
        let filled = match ConfigValue::read(value) {
            command @ ConfigValue::Command(_) => command.find(variables).await,
            ConfigValue::Text(text) => fill(&text, variables),
        };
        *value = filled.map_err(|why| format!("{what} {name}: {why}"))?;
    }
    Ok(())
}

/// Replaces `${NAME}`. Other dollar signs stay: values are copied from other programs' files.
fn fill(text: &str, variables: &HashMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, after) = after.split_once('}').ok_or("`${` without `}`")?;
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // The text may be a part of a secret.
        let shown = if is_plain { name } else { "between `${` and `}`" };
        let value = variables.get(name).filter(|value| !value.is_empty());
        filled.push_str(value.ok_or_else(|| format!("the variable {shown} is not set"))?);
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests;
