//! The command line, as typed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, ValueEnum};
use tiller_agent::model::ThinkingLevel;

use crate::rpc::server::OnEof;
use crate::rpc::wire::Level;

/// A coding agent that other programs drive.
#[derive(Debug, Parser)]
#[command(
    name = "tiller",
    disable_version_flag = true,
    after_help = include_str!("../texts/help-examples.md")
)]
pub struct Args {
    /// What to speak: rpc (JSON lines both ways), json (events of one run), text (the answer)
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Modes")]
    pub mode: Option<Mode>,
    /// Print the answer to the given message and exit
    #[arg(short, long, help_heading = "Modes")]
    pub print: bool,
    /// Shapes of the records: pi, pi-delta or xcsh [default: pi]
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "Modes")]
    wire: Option<Level>,
    /// When stdin closes: abort the run, or finish it first
    #[arg(long, value_enum, default_value_t, value_name = "WHAT", help_heading = "Modes")]
    pub on_eof: OnEof,

    /// Model to use: provider/id, or a part of it, with an optional :thinking
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub model: Option<String>,
    /// Look for the model at this provider only
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub provider: Option<String>,
    /// Models to cycle through: names or patterns, separated by commas, each with an optional :thinking
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', help_heading = "Model")]
    pub models: Option<Vec<String>>,
    /// List the models that can be asked, or those a search finds, and exit
    #[arg(long, value_name = "SEARCH", num_args = 0..=1, default_missing_value = "", help_heading = "Model")]
    pub list_models: Option<String>,
    /// Key for the model's provider, for this run only
    #[arg(long, value_name = "KEY", help_heading = "Model")]
    pub api_key: Option<String>,
    /// How hard to think: off, minimal, low, medium, high, xhigh
    #[arg(long, value_name = "LEVEL", value_parser = thinking_level, help_heading = "Model")]
    pub thinking: Option<ThinkingLevel>,
    /// Play this conversation file as the model tiller/script
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub script: Option<PathBuf>,
    /// Milliseconds between two words of tiller/demo
    #[arg(long, value_name = "MS", default_value_t = 0, help_heading = "Model")]
    pace: u64,

    /// Tools the model may use, by name, separated by commas
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tools")]
    pub tools: Option<Vec<String>>,
    /// Tools the model may not use
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tools")]
    pub exclude_tools: Vec<String>,
    /// No tools at all
    #[arg(long, help_heading = "Tools")]
    pub no_tools: bool,
    /// No tools but those a host or an extension brings
    #[arg(long, help_heading = "Tools")]
    pub no_builtin_tools: bool,

    /// Go on with this folder's newest session
    #[arg(short, long, help_heading = "Session")]
    pub r#continue: bool,
    /// Go on with a session; without an id, choose from a list
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Session")]
    pub resume: Option<String>,
    /// Go on with this session: a file, an id, or the beginning of one
    #[arg(long, value_name = "SESSION", help_heading = "Session")]
    pub session: Option<String>,
    /// Go on with the session of this id, or begin one with it
    #[arg(long, value_name = "ID", help_heading = "Session")]
    pub session_id: Option<String>,
    /// Begin with a copy of this session
    #[arg(long, value_name = "SESSION", help_heading = "Session")]
    pub fork: Option<String>,
    /// Keep sessions in this folder
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    pub session_dir: Option<PathBuf>,
    /// Open the session to look at it, also while another process writes to it
    #[arg(long, help_heading = "Session")]
    pub read_only: bool,
    /// Keep nothing on disk
    #[arg(long, help_heading = "Session")]
    pub no_session: bool,
    /// Name of the session
    #[arg(short, long, value_name = "NAME", help_heading = "Session")]
    name: Option<String>,

    /// Print the version
    #[arg(short, long)]
    pub version: bool,
    /// What to say; several messages are said one after the other
    #[arg(value_name = "MESSAGE")]
    pub messages: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Text,
    Json,
    Rpc,
}

/// What to do instead of starting.
#[derive(Debug, PartialEq)]
pub enum Instead {
    /// Help was asked for.
    Print(String),
    /// The command line makes no sense; the sentence says why.
    Complain(String),
}

impl Args {
    /// Reads the command line. `arguments` begins with the program's own name.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Args, Instead> {
        let arguments = arguments.into_iter().map(spelled_out);
        let args = Args::try_parse_from(arguments).map_err(|err| match err.kind() {
            ErrorKind::DisplayHelp => Instead::Print(err.render().to_string()),
            _ => Instead::Complain(complaint(&err)),
        })?;
        if args.mode() == Mode::Rpc && args.messages.iter().any(|message| message.starts_with('@'))
        {
            let why = "@file arguments are not supported in RPC mode";
            return Err(Instead::Complain(why.to_owned()));
        }
        Ok(args)
    }

    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Text)
    }

    /// The wire level: the flag, else `TILLER_WIRE`, else what the name we were started under says.
    pub fn level(&self, variables: &HashMap<String, String>) -> Level {
        let from_env = || {
            let name = variables.get("TILLER_WIRE")?;
            Level::from_str(name, true).ok()
        };
        self.wire.or_else(from_env).unwrap_or_else(|| level_of(&program_name()))
    }

    pub(crate) fn pace(&self) -> Duration {
        Duration::from_millis(self.pace)
    }

    pub(crate) fn session_name(&self) -> Result<Option<String>, String> {
        match self.name.as_deref().map(str::trim) {
            Some("") => Err("--name requires a non-empty value".to_owned()),
            name => Ok(name.map(str::to_owned)),
        }
    }
}

/// What `--version` prints. Under the name of another program, and for its clients, that
/// program's version: some of them check it.
pub fn version(variables: &HashMap<String, String>) -> &'static str {
    let delta = variables.get("TILLER_WIRE").is_some_and(|wire| wire == "pi-delta");
    match program_name().as_str() {
        "pi" if delta => "1.4.0",
        "pi" => "0.80.2",
        _ => env!("CARGO_PKG_VERSION"),
    }
}

fn program_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    Path::new(&path).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn level_of(program: &str) -> Level {
    match program {
        "xcsh" => Level::Xcsh,
        _ => Level::Pi,
    }
}

/// Short flags of more than one letter, which hosts of pi pass.
fn spelled_out(argument: OsString) -> OsString {
    let long = match argument.to_str() {
        Some("-nt") => "--no-tools",
        Some("-nbt") => "--no-builtin-tools",
        Some("-xt") => "--exclude-tools",
        _ => return argument,
    };
    long.into()
}

fn thinking_level(name: &str) -> Result<ThinkingLevel, String> {
    let names = ThinkingLevel::ALL.map(ThinkingLevel::name).join(", ");
    ThinkingLevel::read(name).ok_or(format!("expected one of {names}"))
}

/// The reason in one sentence, with the nearest flag when there is one.
fn complaint(err: &clap::Error) -> String {
    let context = |kind| match err.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    match err.kind() {
        ErrorKind::UnknownArgument => {
            let nearest = context(ContextKind::SuggestedArg)
                .map(|nearest| format!(" (did you mean {nearest}?)"));
            format!("Unknown option: {argument}{}", nearest.unwrap_or_default())
        }
        ErrorKind::InvalidValue if argument.starts_with("--mode") => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            format!("Invalid mode {value:?}. Valid values: text, json, rpc")
        }
        _ => {
            let text = err.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}
