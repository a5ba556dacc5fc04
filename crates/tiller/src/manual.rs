//! `tiller completions SHELL` and `tiller man`, generated from the definitions of the command line.

use clap::{Command, CommandFactory, Parser, ValueEnum};
use clap_complete::Shell;

use crate::acp::AcpCommand;
use crate::args::Args;
use crate::auth_command::AuthCommand;
use crate::chat::ChatCommand;
use crate::conform::ConformCommand;
use crate::mcp_command::McpCommand;
use crate::sandbox_command::SandboxCommand;
use crate::schema_command::SchemaCommand;
use crate::serve::{ConnectCommand, ServeCommand};
use crate::session_command::SessionCommand;
use crate::store_command::StoreCommand;

/// Print completions for a shell
#[derive(Debug, Parser)]
#[command(
    name = "tiller completions",
    disable_version_flag = true,
    after_help = include_str!("../texts/completions-examples.md")
)]
pub struct CompletionsCommand {
    shell: Shell,
}

/// Print the manual page, for man(1)
#[derive(Debug, Parser)]
#[command(name = "tiller man", disable_version_flag = true)]
pub struct ManCommand;

impl CompletionsCommand {
    pub fn run(self) -> String {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut full_command(), "tiller", &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl ManCommand {
    pub fn run(self) -> Result<String, String> {
        let mut out = Vec::new();
        let page = clap_mangen::Man::new(full_command().version(env!("CARGO_PKG_VERSION")));
        page.render(&mut out).map_err(|err| format!("cannot write the page: {err}"))?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}

/// The command line with all subcommands.
fn full_command() -> Command {
    let shells: Vec<String> = Shell::value_variants().iter().map(ToString::to_string).collect();
    let shells = format!("Print completions for a shell: {}", shells.join(", "));
    Args::command()
        .subcommand(ChatCommand::command().name("chat"))
        .subcommand(SessionCommand::command().name("session"))
        .subcommand(StoreCommand::command().name("store"))
        .subcommand(McpCommand::command().name("mcp"))
        .subcommand(AuthCommand::command().name("auth"))
        .subcommand(ConformCommand::command().name("conform"))
        .subcommand(AcpCommand::command().name("acp"))
        .subcommand(ServeCommand::command().name("serve"))
        .subcommand(ConnectCommand::command().name("connect"))
        .subcommand(SandboxCommand::command().name("sandbox"))
        .subcommand(SchemaCommand::command().name("schema"))
        .subcommand(CompletionsCommand::command().name("completions").about(shells))
        .subcommand(ManCommand::command().name("man"))
}
