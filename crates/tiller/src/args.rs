//! The command line, as typed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Parser, ValueEnum};
use tiller_agent::approvals::ApprovalMode;
use tiller_agent::limits::Limits;
use tiller_agent::model::ThinkingLevel;
use tiller_config::project::ResourceFlags;
use tiller_config::startup_model::ModelArgs;
use tiller_config::tool_filter::{self, ToolFlags};
use tiller_protocol::Level;
use tiller_server::OnEof;
use tiller_server::extensions::flags::{ExtensionFlag, ExtensionFlags, unknown_options};

use crate::limit_flags::LimitFlags;
use crate::print_mode::print_stderr;
use crate::sandbox_flags::SandboxFlags;
use crate::usage::usage_error;

/// A coding agent that other programs drive
#[derive(Debug, Parser)]
#[command(
    name = "tiller",
    disable_version_flag = true,
    // The last value of a repeated flag counts, as hosts of pi and xcsh expect.
    args_override_self = true,
    after_help = include_str!("../texts/help-examples.md")
)]
pub struct Args {
    /// Output: rpc (JSON lines), acp (for editors), json (events of one run) or text
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        hide_possible_values = true,
        help_heading = "Modes"
    )]
    pub mode: Option<RunMode>,
    /// Print the answer to the given message and exit
    #[arg(short, long, help_heading = "Modes")]
    pub print: bool,
    /// Record format: pi, pi-delta or xcsh [default: pi]
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        hide_possible_values = true,
        help_heading = "Modes"
    )]
    wire: Option<WireLevel>,
    /// When stdin closes: abort the run, or finish it first
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHAT",
        hide_possible_values = true,
        help_heading = "Modes"
    )]
    on_eof: EofAction,

    /// With --mode rpc: many sessions on stdin and stdout, named by `sessionId`
    #[arg(long, help_heading = "Modes")]
    pub multi_session: bool,
    /// Work in this folder
    #[arg(long, value_name = "DIR", help_heading = "Modes")]
    pub cwd: Option<PathBuf>,
    /// Model: provider/id or a part of it; may end in :LEVEL (thinking)
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub model: Option<String>,
    /// Search for the model at this provider only
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub provider: Option<String>,
    /// Models to cycle through: names or patterns, separated by commas
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', action = ArgAction::Set, help_heading = "Model")]
    pub models: Option<Vec<String>>,
    /// List the usable models, or those that match a search
    #[arg(long, value_name = "SEARCH", num_args = 0..=1, default_missing_value = "", help_heading = "Model")]
    pub list_models: Option<String>,
    /// API key for the model's provider in this run; - reads it from stdin
    #[arg(long, value_name = "KEY", help_heading = "Model")]
    pub api_key: Option<String>,
    /// The same, from the first line of a file
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub api_key_file: Option<PathBuf>,
    /// Thinking level: off, minimal, low, medium, high, xhigh
    #[arg(long, value_name = "LEVEL", help_heading = "Model")]
    thinking: Option<String>,
    /// Play this script file as the model tiller/script
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub script: Option<PathBuf>,
    /// Milliseconds between two words of tiller/demo
    #[arg(long, value_name = "MS", default_value_t = 0, help_heading = "Model")]
    pace: u64,

    /// Tools the model may use: names or patterns, or +NAME and -NAME
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', action = ArgAction::Set, allow_hyphen_values = true, help_heading = "Tools")]
    pub tools: Option<Vec<String>>,
    /// Tools the model may not use (-xt)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', action = ArgAction::Set, help_heading = "Tools")]
    pub exclude_tools: Vec<String>,
    /// No tools except those named by --tools (-nt)
    #[arg(long, help_heading = "Tools")]
    pub no_tools: bool,
    /// No built-in tools, but those of hosts and extensions (-nbt)
    #[arg(long, help_heading = "Tools")]
    pub no_builtin_tools: bool,

    /// Calls that need approval: off, edits, ask, read-only
    #[arg(long, value_name = "MODE", value_parser = approval_mode, help_heading = "Tools")]
    approvals: Option<ApprovalMode>,

    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    sandbox: SandboxFlags,

    /// Continue this folder's newest session
    #[arg(short, long, help_heading = "Session")]
    pub r#continue: bool,
    /// Resume a session; without an id, choose from a list
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Session")]
    pub resume: Option<String>,
    /// Resume this session: a file, an id, or the beginning of an id
    #[arg(long, value_name = "SESSION", help_heading = "Session")]
    pub session: Option<String>,
    /// Resume the session with this id, or create it
    #[arg(long, value_name = "ID", help_heading = "Session")]
    pub session_id: Option<String>,
    /// Start with a copy of this session
    #[arg(long, value_name = "SESSION", help_heading = "Session")]
    pub fork: Option<String>,
    /// Store sessions in this folder
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    pub session_dir: Option<PathBuf>,
    /// Store sessions in this PostgreSQL database, or in `files`
    #[arg(long, value_name = "URL", help_heading = "Session")]
    pub store: Option<String>,
    /// Open the session read-only, even while another process writes to it
    #[arg(long, help_heading = "Session")]
    pub read_only: bool,
    /// Store nothing on disk
    #[arg(long, help_heading = "Session")]
    pub no_session: bool,
    /// Export a session as an HTML page, and exit
    #[arg(long, value_names = ["FILE", "OUT"], num_args = 1..=2, action = ArgAction::Set, help_heading = "Session")]
    pub export: Option<Vec<PathBuf>>,
    /// Name of the session
    #[arg(short, long, value_name = "NAME", help_heading = "Session")]
    name: Option<String>,

    /// Trust the project: use its settings, skills and prompts
    #[arg(short, long, overrides_with = "no_approve", help_heading = "Files")]
    approve: bool,
    /// Do not trust the project, whatever was decided before (-na)
    #[arg(long, overrides_with = "approve", help_heading = "Files")]
    no_approve: bool,
    /// Do not read AGENTS.md and similar files (-nc)
    #[arg(long, help_heading = "Files")]
    no_context_files: bool,
    /// Also load skills from this file or folder; may be repeated
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    skill: Vec<String>,
    /// No skills except those named by --skill (-ns)
    #[arg(long, help_heading = "Files")]
    no_skills: bool,
    /// Also load templates from this file or folder; may be repeated
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    prompt_template: Vec<String>,
    /// No templates except those named by --prompt-template (-np)
    #[arg(long, help_heading = "Files")]
    no_prompt_templates: bool,
    /// No rules
    #[arg(long, help_heading = "Files")]
    no_rules: bool,
    /// No MCP servers
    #[arg(long, help_heading = "Files")]
    pub no_mcp: bool,
    /// Use the MCP servers of this file, too
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    mcp_config: Option<PathBuf>,
    /// Replace the system prompt by this text or file
    #[arg(long, value_name = "TEXT", help_heading = "Files")]
    system_prompt: Option<String>,
    /// Append this text or file to the system prompt; may be repeated
    #[arg(long, value_name = "TEXT", help_heading = "Files")]
    append_system_prompt: Vec<String>,
    /// Load this extension; may be repeated
    #[arg(short, long, value_name = "PATH", help_heading = "Files")]
    extension: Vec<String>,
    /// No extensions except those named by -e
    #[arg(long, help_heading = "Files")]
    no_extensions: bool,
    /// Exit if an extension cannot be loaded
    #[arg(long, help_heading = "Files")]
    strict_extensions: bool,
    /// Log requests, responses, hooks and child processes to this file
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub log_file: Option<PathBuf>,
    /// Load only skills whose names match one of these patterns (used by xcsh hosts)
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', action = ArgAction::Set, hide = true)]
    skills: Option<Vec<String>>,
    #[command(flatten)]
    _quiet: IgnoredFlags,

    /// Print the version
    #[arg(short, long, visible_short_alias = 'V')]
    pub version: bool,
    /// Messages to send, one after the other; @FILE attaches a text or image
    #[arg(value_name = "MESSAGE")]
    pub messages: Vec<String>,
    /// Unknown options; ignored because xcsh hosts pass extra flags.
    #[arg(skip)]
    pub(crate) unknown: Vec<String>,
    /// Unknown options that an extension may have registered.
    #[arg(skip)]
    unknown_flags: Vec<ExtensionFlag>,
    /// The error to report if no extension has.
    #[arg(skip)]
    pub unknown_flags_error: Option<String>,
}

/// Flags for programs with a screen, window titles or their own servers. They have no effect here,
/// and are accepted silently.
#[derive(Debug, clap::Args)]
struct IgnoredFlags {
    #[arg(long, hide = true)]
    theme: Vec<String>,
    #[arg(long, hide = true)]
    use_theme: Option<String>,
    #[arg(long, hide = true)]
    no_themes: bool,
    #[arg(long, hide = true)]
    tui_mode: Option<String>,
    #[arg(long, hide = true)]
    verbose: bool,
    /// There is no network access except to models.
    #[arg(long, hide = true)]
    offline: bool,
    #[arg(long, hide = true)]
    no_title: bool,
    #[arg(long, hide = true)]
    no_lsp: bool,
    #[arg(long, hide = true)]
    provider_session_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunMode {
    Text,
    Json,
    #[value(alias = "rpc-ui")]
    Rpc,
    /// The Agent Client Protocol, as `tiller acp`.
    Acp,
}

impl RunMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RunMode::Text => "text",
            RunMode::Json => "json",
            RunMode::Rpc => "rpc",
            RunMode::Acp => "acp",
        }
    }
}

/// What happens to accepted work when stdin closes, as it is named on the command line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum EofAction {
    /// The run is aborted and closed with its events.
    #[default]
    Abort,
    /// The run and everything queued are finished first.
    Finish,
}

/// A wire level as it is named on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireLevel(Level);

impl WireLevel {
    pub(crate) fn level(self) -> Level {
        self.0
    }
}

impl ValueEnum for WireLevel {
    fn value_variants<'a>() -> &'a [WireLevel] {
        &[WireLevel(Level::Pi), WireLevel(Level::PiDelta), WireLevel(Level::Xcsh)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            Level::Pi => PossibleValue::new("pi")
                .help("Records of pi 0.80.2: every update carries the whole message so far"),
            Level::PiDelta => PossibleValue::new("pi-delta")
                .alias("pi@1")
                .help("Records of pi since 0.84: updates carry only what is new"),
            Level::Xcsh => PossibleValue::new("xcsh")
                .help("Records of xcsh, with a `ready` record before everything else"),
        })
    }
}

/// Why tiller exits instead of starting.
#[derive(Debug)]
pub enum EarlyExit {
    /// `--help`. The rest of the command line says which extensions to load for it.
    Help(String, Option<Box<Args>>),
    /// An invalid command line, with the error text.
    UsageError(String),
}

impl Args {
    /// Parses the command line. `arguments` begins with the program's own name.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Args, EarlyExit> {
        let mut arguments = expand_short_flags(arguments);
        let mut unknown = Vec::new();
        let mut unknown_flags = Vec::new();
        let mut errors = Vec::new();
        let mut args = loop {
            match Args::try_parse_from(&arguments) {
                Ok(args) => break args,
                Err(err) if err.kind() == ErrorKind::DisplayHelp => {
                    let typed = arguments.len();
                    arguments.retain(|argument| argument != "--help" && argument != "-h");
                    let has_rest = arguments.len() < typed;
                    let rest = has_rest.then(|| Args::read(arguments).ok()).flatten();
                    return Err(EarlyExit::Help(err.render().to_string(), rest.map(Box::new)));
                }
                Err(err) => match ignore_unknown_option(&err, &mut arguments) {
                    Some(option) => unknown.push(option),
                    None => match take_extension_flag(&err, &mut arguments) {
                        Some(flag) => {
                            errors.push(usage_error(&err));
                            unknown_flags.push(flag);
                        }
                        None => return Err(EarlyExit::UsageError(usage_error(&err))),
                    },
                },
            }
        };
        args.unknown = unknown;
        args.unknown_flags_error = match errors.len() {
            0 | 1 => errors.pop(),
            _ => {
                unknown_options(unknown_flags.iter().map(|flag: &ExtensionFlag| flag.name.as_str()))
            }
        };
        args.unknown_flags = unknown_flags;
        if args.mode() == RunMode::Rpc
            && args.messages.iter().any(|message| message.starts_with('@'))
        {
            let why = "@file arguments are not supported in RPC mode";
            return Err(EarlyExit::UsageError(why.to_owned()));
        }
        if let Some(why) = args.tools.as_deref().and_then(tool_filter::list_error) {
            return Err(EarlyExit::UsageError(why));
        }
        Ok(args)
    }

    pub fn mode(&self) -> RunMode {
        self.mode.unwrap_or(RunMode::Text)
    }

    /// The wire level: the flag, else `TILLER_WIRE`, else by the program's own name.
    pub fn level(&self, variables: &HashMap<String, String>) -> Level {
        let named = self.wire.map(|wire| wire.0).or_else(|| level_in(variables));
        named.unwrap_or_else(|| level_of(&program_name()))
    }

    pub(crate) fn pace(&self) -> Duration {
        Duration::from_millis(self.pace)
    }

    /// The requested thinking level. An unknown one is reported and otherwise ignored, as hosts of
    /// pi expect.
    pub(crate) fn thinking(&self, diagnostics: &mut Vec<String>) -> Option<ThinkingLevel> {
        let name = self.thinking.as_deref()?;
        let level = ThinkingLevel::read(name);
        if level.is_none() {
            let names = ThinkingLevel::ALL.map(ThinkingLevel::name).join(", ");
            diagnostics.push(format!("Invalid thinking level \"{name}\". Valid values: {names}"));
        }
        level
    }

    /// The resource flags.
    pub(crate) fn resource_flags(&self, level: Level) -> ResourceFlags {
        ResourceFlags {
            approve: match (self.approve, self.no_approve) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            no_context_files: self.no_context_files,
            no_skills: self.no_skills,
            no_prompt_templates: self.no_prompt_templates,
            no_rules: self.no_rules,
            no_mcp: self.no_mcp,
            mcp_config: self.mcp_config.clone(),
            skills: self.skill.clone(),
            skill_names: self.skills.clone(),
            prompt_templates: self.prompt_template.clone(),
            system_prompt: self.system_prompt.clone(),
            append_system_prompt: self.append_system_prompt.clone(),
            own_models: self.models.is_some(),
            approvals: self.approvals,
            default_todos: level == Level::Xcsh && self.mode() == RunMode::Rpc,
            print: Some(print_stderr),
        }
    }

    pub(crate) fn model_args(&self) -> ModelArgs {
        ModelArgs {
            provider: self.provider.clone(),
            model: self.model.clone(),
            api_key: self.api_key.clone(),
            scope: self.models.clone(),
            has_script: self.script.is_some(),
        }
    }

    pub(crate) fn tool_flags(&self) -> ToolFlags {
        ToolFlags {
            tools: self.tools.clone(),
            exclude_tools: self.exclude_tools.clone(),
            no_tools: self.no_tools,
            no_builtin_tools: self.no_builtin_tools,
        }
    }

    /// What a prompt and the processes of tools may use.
    pub(crate) fn limits(&self) -> Limits {
        self.limits.limits()
    }

    pub(crate) fn sandbox(&self) -> &SandboxFlags {
        &self.sandbox
    }

    /// What happens to accepted work when stdin closes.
    pub(crate) fn on_eof(&self) -> OnEof {
        match self.on_eof {
            EofAction::Abort => OnEof::Abort,
            EofAction::Finish => OnEof::Finish,
        }
    }

    /// The extension flags.
    pub(crate) fn extension_flags(&self) -> ExtensionFlags {
        ExtensionFlags {
            paths: self.extension.clone(),
            only_these: self.no_extensions,
            are_refused: false,
            is_strict: self.strict_extensions,
            unknown_flags: self.unknown_flags.clone(),
        }
    }

    pub(crate) fn session_name(&self) -> Result<Option<String>, String> {
        match self.name.as_deref().map(str::trim) {
            Some("") => Err("--name requires a non-empty value".to_owned()),
            name => Ok(name.map(str::to_owned)),
        }
    }
}

fn approval_mode(text: &str) -> Result<ApprovalMode, String> {
    ApprovalMode::read(text).ok_or_else(|| {
        let names = ApprovalMode::ALL.map(ApprovalMode::name);
        format!("expected one of: {}", names.join(", "))
    })
}

/// The wire level in the environment.
fn level_in(variables: &HashMap<String, String>) -> Option<Level> {
    let name = variables.get("TILLER_WIRE")?;
    WireLevel::from_str(name, true).ok().map(|wire| wire.0)
}

/// The output of `--version`. Under another program's name, and for its clients, this is only that
/// program's version: some clients check it.
pub fn version(variables: &HashMap<String, String>) -> String {
    let wire = level_in(variables);
    let version = env!("CARGO_PKG_VERSION");
    match program_name().as_str() {
        "pi" if wire == Some(Level::PiDelta) => "1.4.0".to_owned(),
        "pi" => "0.80.2".to_owned(),
        "xcsh" => version.to_owned(),
        _ => format!("tiller {version} ({})", env!("BUILT_FROM")),
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
const SHORT: [(&str, &str); 8] = [
    ("-nt", "--no-tools"),
    ("-nbt", "--no-builtin-tools"),
    ("-xt", "--exclude-tools"),
    ("-ne", "--no-extensions"),
    ("-ns", "--no-skills"),
    ("-np", "--no-prompt-templates"),
    ("-nc", "--no-context-files"),
    ("-na", "--no-approve"),
];

fn expand_short_flags(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut is_option = true;
    let long = |argument: OsString| {
        is_option &= argument != "--";
        let long = SHORT.iter().find(|(short, _)| is_option && argument == *short);
        long.map_or(argument, |(_, long)| long.into())
    };
    arguments.into_iter().map(long).collect()
}

/// xcsh ignores unknown options, and its hosts may rely on that. Removes the option from the
/// command line.
fn ignore_unknown_option(err: &clap::Error, arguments: &mut Vec<OsString>) -> Option<String> {
    if err.kind() != ErrorKind::UnknownArgument || program_name() != "xcsh" {
        return None;
    }
    let Some(ContextValue::String(option)) = err.get(ContextKind::InvalidArg) else { return None };
    let is_it = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        argument.split('=').next() == Some(option)
    };
    let at = arguments.iter().position(is_it)?;
    arguments.remove(at);
    Some(option.clone())
}

/// An option with two dashes may be registered by an extension. Removes it from the command line,
/// with the following argument if that can be its value.
fn take_extension_flag(err: &clap::Error, arguments: &mut Vec<OsString>) -> Option<ExtensionFlag> {
    if err.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = err.get(ContextKind::InvalidArg) else { return None };
    let name = option.strip_prefix("--").filter(|name| !name.is_empty())?.to_owned();
    let typed: Vec<String> =
        arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let at = typed.iter().position(|typed| typed.split('=').next() == Some(option))?;
    arguments.remove(at);
    if let Some((_, value)) = typed[at].split_once('=') {
        return Some(ExtensionFlag { name, value: Some(value.to_owned()) });
    }
    let value = typed.get(at + 1).filter(|next| !next.starts_with(['-', '@'])).cloned();
    if value.is_some() {
        arguments.remove(at);
    }
    Some(ExtensionFlag { name, value })
}
