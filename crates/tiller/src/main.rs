//! The process: parse the command line, start the requested mode, exit cleanly.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tiller::acp::AcpCommand;
use tiller::api_key;
use tiller::args::{Args, EarlyExit, RunMode, version};
use tiller::attachments::{InitialMessage, first_message};
use tiller::auth_command::AuthCommand;
use tiller::chat::ChatCommand;
use tiller::conform::ConformCommand;
use tiller::launch::{Launch, NotLaunched, ProcessEnv, export, extension_help, list_models};
use tiller::manual::{CompletionsCommand, ManCommand};
use tiller::mcp_command::McpCommand;
use tiller::print_mode::{self, print_stderr};
use tiller::sandbox_command::SandboxCommand;
use tiller::schema_command::SchemaCommand;
use tiller::serve::{ConnectCommand, ServeCommand, multi_session};
use tiller::session_command::SessionCommand;
use tiller::stdio::serve_stdio;
use tiller::store_command::StoreCommand;
use tiller::usage::{BRIEF, StartError, USAGE, mistaken_command, usage_error};

const NO_MESSAGE: &str = "Missing message: pass one as an argument, pipe one in, or use --mode rpc";

fn main() -> ExitCode {
    match start() {
        Ok(code) => {
            tiller_tools::process::end_all();
            // Threads may still block in a read of stdin; they end with the process.
            std::process::exit(code.into())
        }
        Err(why) => {
            print_stderr(&why.to_string());
            ExitCode::from(why.exit_code())
        }
    }
}

fn start() -> Result<u8, StartError> {
    let arguments = help_as_flag(std::env::args_os().collect());
    match arguments.get(1).and_then(|first| first.to_str()) {
        Some("session") => {
            return command(&arguments, |c: SessionCommand| c.run(&ProcessEnv::of_process()?));
        }
        Some("store") => {
            return command(&arguments, |c: StoreCommand| c.run(&ProcessEnv::of_process()?));
        }
        Some("mcp") => {
            return command(&arguments, |c: McpCommand| c.run(&ProcessEnv::of_process()?));
        }
        Some("auth") => {
            return command(&arguments, |c: AuthCommand| show(&c.run(&ProcessEnv::of_process()?)?));
        }
        Some("chat") => {
            return parsed(&arguments, |c: ChatCommand| c.run(&ProcessEnv::of_process()?));
        }
        Some("conform") => {
            return command(&arguments, |c: ConformCommand| {
                let output = c.run()?;
                show(&output.text)?;
                Ok(output.code)
            });
        }
        Some("completions") => {
            return command(&arguments, |c: CompletionsCommand| show(&c.run()));
        }
        Some("acp") => {
            return parsed(&arguments, |c: AcpCommand| c.run(ProcessEnv::of_process()?));
        }
        Some("serve") => {
            return parsed(&arguments, |c: ServeCommand| c.run(ProcessEnv::of_process()?));
        }
        Some("connect") => {
            return parsed(&arguments, |c: ConnectCommand| c.run(ProcessEnv::of_process()?));
        }
        Some("sandbox") => {
            return command(&arguments, |c: SandboxCommand| c.run(&ProcessEnv::of_process()?));
        }
        Some("schema") => return command(&arguments, |c: SchemaCommand| show(&c.run()?)),
        Some("man") => return command(&arguments, |c: ManCommand| show(&c.run()?)),
        None if std::io::stdin().is_terminal() => return Ok(brief()),
        _ => {}
    }
    let may_be_command = !arguments.iter().any(|argument| argument == "--");
    let mut args = match Args::read(arguments.clone()) {
        Ok(args) => args,
        Err(EarlyExit::Help(text, rest)) => return Ok(help(&text, rest.as_deref())?),
        Err(EarlyExit::UsageError(why)) => return Err(StartError::Usage(why)),
    };
    if let Some(folder) = &args.cwd {
        let cannot = |err| format!("cannot change to {} (--cwd): {err}", folder.display());
        std::env::set_current_dir(folder).map_err(cannot)?;
    }
    let env = ProcessEnv::of_process()?.with_store(args.store.as_deref());
    if args.version {
        return Ok(show(&format!("{}\n", version(&env.variables)))?);
    }
    if let Some(why) = mistaken_command(&args).filter(|_| may_be_command) {
        return Err(StartError::Usage(why));
    }
    if args.mode() == RunMode::Acp {
        return AcpCommand::of_mode(&arguments).run(env);
    }
    api_key::take(&mut args)?;
    let ends_soon = args.list_models.is_some() || args.export.is_some();
    if let Some(why) = args.unknown_flags_error.as_ref().filter(|_| ends_soon) {
        // No extension is loaded that could have registered the option.
        return Err(StartError::Usage(why.clone()));
    }
    if let Some(search) = &args.list_models {
        let (listing, problems) = list_models(&args, &env, search)?;
        warn(&problems);
        show(&listing.table)?;
        if let Some(note) = listing.note {
            print_stderr(&note);
        }
        return Ok(0);
    }
    if let Some(paths) = &args.export {
        let page = export(&args, &env, paths)?;
        return Ok(show(&format!("Exported to: {}\n", page.display()))?);
    }
    if args.multi_session {
        return multi_session(&args, &arguments, env);
    }
    serve(args, env)
}

/// Runs the requested mode to its end. Returns the exit code.
fn serve(args: Args, env: ProcessEnv) -> Result<u8, StartError> {
    tiller_tools::process::install();
    let databases = env.databases().clone();
    let Launch { config, log } =
        Launch::prepare(&args, env).map_err(|NotLaunched { why, diagnostics, .. }| {
            warn(&diagnostics);
            databases.close();
            why
        })?;
    // If extensions decide about trust, its diagnostics wait for that.
    if !config.extension_plan.has_trust_deciders() {
        warn(config.project.problems());
    }
    warn(&config.diagnostics);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| format!("cannot start the runtime: {err}"))?;
    let code = match args.mode() {
        RunMode::Rpc => {
            if std::io::stdin().is_terminal() {
                print_stderr(include_str!("../texts/rpc-on-terminal.md").trim_end());
            }
            runtime.block_on(serve_stdio(config))
        }
        mode => {
            let messages = messages(args, config.workspace.cwd().to_owned())?;
            if messages.is_empty() && std::env::args_os().len() <= 1 {
                return Ok(brief());
            }
            if messages.is_empty() {
                return Err(StartError::Usage(NO_MESSAGE.to_owned()));
            }
            runtime.block_on(print_mode::run(mode, config, messages))
        }
    };
    databases.close();
    log.end(code);
    // Threads that wait for a slow disk end with the process.
    runtime.shutdown_background();
    Ok(code)
}

/// `tiller help COMMAND` is `tiller COMMAND --help`.
fn help_as_flag(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// `--help`, with the options of extensions.
fn help(text: &str, rest: Option<&Args>) -> Result<u8, String> {
    let (extension_options, problems) = match rest {
        Some(args) => extension_help(args, &ProcessEnv::of_process()?)?,
        None => Default::default(),
    };
    warn(&problems);
    show(&format!("{text}{extension_options}"))
}

/// Parses the rest of the command line as this command, and runs it.
fn command<C: Parser>(
    arguments: &[OsString],
    run: impl FnOnce(C) -> Result<u8, String>,
) -> Result<u8, StartError> {
    parsed(arguments, |command| Ok(run(command)?))
}

/// The same for a command that may find its options wrong.
fn parsed<C: Parser>(
    arguments: &[OsString],
    run: impl FnOnce(C) -> Result<u8, StartError>,
) -> Result<u8, StartError> {
    // In place of the program's path, the usage line names the command: `tiller store`.
    let name = C::command().get_name().to_owned();
    let rest = arguments.iter().skip(2).cloned();
    match C::try_parse_from(std::iter::once(name.into()).chain(rest)) {
        Ok(command) => run(command),
        Err(err) if err.use_stderr() => Err(StartError::Usage(usage_error(&err))),
        Err(err) => Ok(show(&err.render().to_string())?),
    }
}

/// The messages of a print mode: from stdin, the command line, and files.
fn messages(args: Args, cwd: PathBuf) -> Result<Vec<InitialMessage>, String> {
    let piped = if std::io::stdin().is_terminal() {
        None
    } else {
        Some(print_mode::piped().map_err(|err| format!("cannot read stdin: {err}"))?)
    };
    let is_file = |argument: &String| argument.starts_with('@') && argument.len() > 1;
    let (files, typed): (Vec<String>, Vec<String>) = args.messages.into_iter().partition(is_file);
    let place = |name: &str| match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(inside), Some(home)) => PathBuf::from(home).join(inside),
        _ => cwd.join(name),
    };
    let files: Vec<PathBuf> = files.iter().map(|name| place(&name[1..])).collect();
    let mut typed = typed.into_iter();
    let first = first_message(piped, &files, typed.next())?;
    let rest = typed.map(|text| InitialMessage { text, images: Vec::new() });
    Ok(first.into_iter().chain(rest).collect())
}

/// `tiller` without arguments.
fn brief() -> u8 {
    print_stderr(BRIEF.trim_end());
    USAGE
}

fn warn(problems: &[String]) {
    for problem in problems {
        print_stderr(&format!("Warning: {problem}"));
    }
}

fn show(text: &str) -> Result<u8, String> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|err| format!("cannot write: {err}"))?;
    Ok(0)
}
