//! Starts the session of a chat: in a tiller of its own, or on a server.

use std::path::{Path, PathBuf};

use tiller_client::{Builder, Client, ClientError, OpenSession, Server};
use tiller_protocol::{ListSessions, ThinkingLevel};

use super::ChatCommand;
use super::actions::words;
use crate::launch::ProcessEnv;

/// Starts a session as the command line says.
pub(super) async fn start(
    command: &ChatCommand,
    env: &ProcessEnv,
    builder: Builder,
) -> Result<Client, String> {
    match &command.server {
        None => start_process(command, builder).await,
        Some(address) => open_on_server(command, address, env, builder).await,
    }
}

/// Opens a session of a server. Without an address, the server is that of the agent folder.
async fn open_on_server(
    command: &ChatCommand,
    address: &str,
    env: &ProcessEnv,
    builder: Builder,
) -> Result<Client, String> {
    let mut server = connect(command, address, env).await?;
    let folder = command.cwd.as_ref().unwrap_or(&env.cwd);
    let cwd = std::path::absolute(folder);
    let cwd = cwd.map_err(|err| format!("cannot find {} (--cwd): {err}", folder.display()))?;
    let newest = if command.r#continue { newest_session(&mut server, &cwd).await? } else { None };
    let open = session_to_open(command, newest, cwd)?;
    server.open_session(open, builder).await.map_err(|error| words(&error))
}

async fn connect(command: &ChatCommand, address: &str, env: &ProcessEnv) -> Result<Server, String> {
    let agent_dir = env.agent_dir();
    let connected = match address {
        "" => {
            let socket = agent_dir.join("tiller.sock");
            Server::connect(&format!("unix:{}", socket.display())).await
        }
        address if address.starts_with("unix:") => Server::connect(address).await,
        address if address.starts_with("ws://") => {
            let file = command.token_file.clone().unwrap_or_else(|| agent_dir.join("serve-token"));
            let token = std::fs::read_to_string(&file).map_err(|err| {
                format!("cannot read the token {}: {err} (--token-file)", file.display())
            })?;
            Server::connect_with_token(address, token.trim()).await
        }
        address => {
            return Err(format!(
                "{address:?} is not an address (--server). Expected unix:PATH or ws://HOST:PORT; \
                 a message comes before --server"
            ));
        }
    };
    connected.map_err(|error| format!("{error}. `tiller serve` starts a server"))
}

/// The file of the newest session of a folder.
async fn newest_session(server: &mut Server, cwd: &Path) -> Result<Option<PathBuf>, String> {
    let cwd = Some(cwd.to_owned());
    let selection = ListSessions { cwd, limit: Some(1), ..ListSessions::default() };
    let data = server.list_sessions(selection).await.map_err(|error| words(&error))?;
    Ok(data.sessions.into_iter().next().map(|session| session.path))
}

/// The fields of `open_session`.
fn session_to_open(
    command: &ChatCommand,
    newest: Option<PathBuf>,
    cwd: PathBuf,
) -> Result<OpenSession, String> {
    let named = command.session.as_ref().or(command.resume.as_ref()).filter(|id| !id.is_empty());
    let (file, id) = match named {
        Some(named) if named.contains('/') || named.ends_with(".jsonl") => {
            let path = std::path::absolute(named);
            (Some(path.map_err(|err| format!("cannot find {named} (--session): {err}"))?), None)
        }
        Some(named) => (None, Some(named.clone())),
        None => (newest, None),
    };
    let model = command.model.as_deref().and_then(|model| model.split_once('/'));
    let level = match command.thinking.as_deref() {
        Some(name) => Some(ThinkingLevel::read(name).ok_or_else(|| {
            let names = ThinkingLevel::ALL.map(ThinkingLevel::name).join(", ");
            format!("unknown thinking level {name:?} (--thinking). Valid values: {names}")
        })?),
        None => None,
    };
    // A stored session has its own folder, unless the command line names another.
    let is_new = file.is_none() && id.is_none();
    Ok(OpenSession {
        cwd: Some(cwd).filter(|_| is_new || command.cwd.is_some()),
        session_path: file,
        session_id: id,
        provider: model.map(|(provider, _)| provider.to_owned()),
        model_id: model.map(|(_, id)| id.to_owned()),
        thinking_level: level,
        name: command.name.clone(),
        tools: command.tools.clone(),
        in_memory: command.no_session,
        ..OpenSession::default()
    })
}

/// Starts this program again, as a server of one session.
async fn start_process(command: &ChatCommand, builder: Builder) -> Result<Client, String> {
    let program = std::env::current_exe();
    let program = program.map_err(|err| format!("cannot find the program itself: {err}"))?;
    let builder = arguments(command).into_iter().fold(builder, Builder::arg);
    let client = builder.program(program).args(&command.options).start().await;
    client.map_err(|error| match error {
        // tiller has already said why it does not start.
        ClientError::ServerExited { stderr_tail, .. } if !stderr_tail.trim().is_empty() => {
            stderr_tail.trim().to_owned()
        }
        error => error.to_string(),
    })
}

/// The options of the started tiller.
fn arguments(command: &ChatCommand) -> Vec<String> {
    let ChatCommand { model, thinking, tools, session, resume, name, .. } = command;
    let resume = resume.clone().filter(|id| !id.is_empty());
    let cwd = command.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    let tools = tools.as_ref().map(|tools| tools.join(","));
    let with_values = [
        ("--cwd", cwd),
        ("--model", model.clone()),
        ("--thinking", thinking.clone()),
        ("--tools", tools),
        ("--session", session.clone()),
        ("--resume", resume),
        ("--name", name.clone()),
    ];
    let flags = [("--continue", command.r#continue), ("--no-session", command.no_session)];
    // A value may begin with a dash, as in `--tools -bash`.
    let with_values = with_values.into_iter();
    let with_values = with_values.filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.to_owned());
    with_values.chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_passed_to_the_started_tiller() {
        for (typed, expected) in [
            (&["chat"][..], &[][..]),
            (&["chat", "--resume"], &[]),
            (&["chat", "--resume", "0199"], &["--resume=0199"]),
            (&["chat", "-c", "Hello"], &["--continue"]),
            (
                &["chat", "--model", "tiller/demo", "-t", "read,-bash", "--no-session"],
                &["--model=tiller/demo", "--tools=read,-bash", "--no-session"],
            ),
        ] {
            let command = ChatCommand::try_parse_from(typed).unwrap();
            assert_eq!(arguments(&command), expected, "{typed:?}");
        }
    }

    #[test]
    fn options_become_the_fields_of_a_session() {
        let newest = || Some(PathBuf::from("/newest.jsonl"));
        for (typed, newest, expected) in [
            (&["chat"][..], None, json!({"cwd": "/here"})),
            (&["chat", "-c"], newest(), json!({"sessionPath": "/newest.jsonl"})),
            (&["chat", "-c"], None, json!({"cwd": "/here"})),
            (&["chat", "--resume", "0199"], None, json!({"sessionId": "0199"})),
            (&["chat", "--session", "/a/b.jsonl"], None, json!({"sessionPath": "/a/b.jsonl"})),
            (
                &["chat", "--model", "a/b/c", "--thinking", "high", "-t", "ls", "--no-session"],
                None,
                json!({"cwd": "/here", "provider": "a", "modelId": "b/c", "thinkingLevel": "high",
                    "tools": ["ls"], "inMemory": true}),
            ),
        ] {
            let command = ChatCommand::try_parse_from(typed).unwrap();
            let open = session_to_open(&command, newest, "/here".into()).unwrap();
            assert_eq!(serde_json::to_value(open).unwrap(), expected, "{typed:?}");
        }
        let command = ChatCommand::try_parse_from(["chat", "--thinking", "lots"]).unwrap();
        assert!(session_to_open(&command, None, "/here".into()).is_err());
    }
}
