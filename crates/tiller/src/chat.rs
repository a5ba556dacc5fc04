//! `tiller chat`: a chat in the terminal, line by line.
//!
//! It is a client of the protocol like any other: it starts a tiller of its own, or opens a session
//! of `tiller serve`. Begin reading at `chat/chat_loop.rs`, which owns the state. What a line means
//! (`input`, `commands`, `question`) and what a record shows (`view`, `diff`, `line_flow`, `paint`)
//! are pure functions beside it. It is not a full-screen program: the terminal keeps the text.

mod input;
mod commands;
mod question;
mod view;
mod diff;
mod paint;
mod line_flow;
mod chat_loop;
mod actions;
mod line_source;
mod printer;
mod terminal;
mod signals;
mod session_start;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Parser};
use tiller_client::Client;
use tiller_protocol::UiAnswer;
use tokio::sync::{mpsc, oneshot};

use crate::launch::ProcessEnv;
use crate::usage::StartError;
use chat_loop::{ChatEnds, ChatLoop, DialogRequest};
use line_source::{LineSource, SharedNames};
use paint::Paint;
use printer::Printer;
use session_start::start;
use view::ChatView;

/// Chat with a model in the terminal
#[derive(Debug, Parser)]
#[command(
    name = "tiller chat",
    disable_version_flag = true,
    args_override_self = true,
    long_about = include_str!("../texts/chat-about.md"),
    after_help = include_str!("../texts/chat-examples.md")
)]
pub struct ChatCommand {
    /// Work in this folder
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Model: provider/id or a part of it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Thinking level: off, minimal, low, medium, high, xhigh
    #[arg(long, value_name = "LEVEL")]
    thinking: Option<String>,
    /// Show the text of the model's thinking
    #[arg(long)]
    thinking_text: bool,
    /// Tools the model may use: names, separated by commas
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', action = ArgAction::Set, allow_hyphen_values = true)]
    tools: Option<Vec<String>>,
    /// Continue this folder's newest session
    #[arg(short, long, help_heading = "Session", conflicts_with_all = ["resume", "session", "no_session"])]
    r#continue: bool,
    /// Resume a session; without an id, choose from a list
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Session", conflicts_with_all = ["session", "no_session"])]
    resume: Option<String>,
    /// Resume this session: a file, an id, or the beginning of an id
    #[arg(long, value_name = "SESSION", help_heading = "Session", conflicts_with = "no_session")]
    session: Option<String>,
    /// Name of the session
    #[arg(short, long, value_name = "NAME", help_heading = "Session")]
    name: Option<String>,
    /// Store nothing on disk
    #[arg(long, help_heading = "Session")]
    no_session: bool,
    /// Open a session of `tiller serve` at this address [default: tiller.sock in the agent folder]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "", help_heading = "Server")]
    server: Option<String>,
    /// The file of the token for a ws:// address [default: serve-token in the agent folder]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// The first message
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
    /// More options for the tiller that the chat starts, as for `tiller --mode rpc`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl ChatCommand {
    /// Runs the chat to its end. Returns the exit code.
    pub fn run(self, env: &ProcessEnv) -> Result<u8, StartError> {
        if self.server.is_some() && !self.options.is_empty() {
            let why = "options behind -- are for a tiller that the chat starts; `tiller serve` \
                       has its own. Leave out --server or the options";
            return Err(StartError::Usage(why.to_owned()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| format!("cannot start the runtime: {err}"))?;
        let code = runtime.block_on(self.chat(env))?;
        // Threads may still wait for a line; they end with the process.
        runtime.shutdown_background();
        Ok(code)
    }

    async fn chat(self, env: &ProcessEnv) -> Result<u8, String> {
        let terminal = terminal::TerminalState::save();
        let signals = signals::end_signals();
        let (sender, dialogs) = mpsc::unbounded_channel();
        let builder = Client::builder()
            .name("tiller chat")
            .on_dialog(move |dialog| ask(sender.clone(), dialog));
        let client = start(&self, env, builder).await?;

        let paint = Paint { has_color: terminal::has_color(&env.variables) };
        let names = SharedNames::default();
        let mut view = ChatView::new(paint, self.thinking_text);
        let (input, printer) = if terminal::can_edit_lines(&env.variables) {
            let history = env.agent_dir().join("chat-history");
            let (input, mut printer, problem) =
                LineSource::of_terminal(history, names.clone(), paint)?;
            if let Some(problem) = problem {
                let warning = view.warning(&format!("{problem}. Lines are not remembered"));
                printer.print(warning).map_err(|err| format!("cannot print: {err}"))?;
            }
            (input, printer)
        } else {
            (LineSource::of_stdin(), Printer::stream(paint))
        };
        view.show_thinking(self.thinking_text);
        let ends = ChatEnds { input, printer, dialogs, signals, names };
        let code = ChatLoop::new(&client, view, ends).await.run(self.first_lines()).await;
        if code.is_err() {
            terminal.leave_prompt();
        }
        client.close().await;
        code
    }

    /// What the chat does before it reads a line.
    fn first_lines(&self) -> Vec<String> {
        let choose = (self.resume.as_deref() == Some("")).then(|| "/resume".to_owned());
        // A server takes the whole name of a model only.
        let model = self.model.as_deref().filter(|_| self.server.is_some());
        let model = model.filter(|model| !model.contains('/')).map(|part| format!("/model {part}"));
        choose.into_iter().chain(model).chain(self.message.clone()).collect()
    }
}

/// Passes a dialog to the loop and waits for its answer, or for its time limit.
async fn ask(
    dialogs: mpsc::UnboundedSender<DialogRequest>,
    dialog: tiller_protocol::Dialog,
) -> UiAnswer {
    let limit = dialog.timeout.map(std::time::Duration::from_millis);
    let (reply, answer) = oneshot::channel();
    if dialogs.send(DialogRequest { dialog, reply }).is_err() {
        return UiAnswer::Cancelled;
    }
    let answer = match limit {
        Some(limit) => tokio::time::timeout(limit, answer).await.ok(),
        None => Some(answer.await),
    };
    answer.and_then(Result::ok).unwrap_or(UiAnswer::Cancelled)
}
