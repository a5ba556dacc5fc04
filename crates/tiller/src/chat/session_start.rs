//! Starts the session of a chat: in a tiller of its own, or on a server.

use tiller_client::{Builder, Client, ClientError};

use super::ChatCommand;
use crate::launch::ProcessEnv;

/// Starts a session as the command line says.
pub(super) async fn start(
    command: &ChatCommand,
    _env: &ProcessEnv,
    builder: Builder,
) -> Result<Client, String> {
    start_process(command, builder).await
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
}
