//! The process: read the command line, start the right mode, end cleanly.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tiller::api_key;
use tiller::args::{Args, Instead, Mode, version};
use tiller::attachments::{Said, first_message};
use tiller::auth_command::AuthCommand;
use tiller::launch::{Launch, Surroundings, export, foreign_help, list_models};
use tiller::manual::{CompletionsCommand, ManCommand};
use tiller::plain::{self, complain};
use tiller::rpc::stdio::serve_stdio;
use tiller::session_command::SessionCommand;

fn main() -> ExitCode {
    match start() {
        Ok(code) => {
            tiller_tools::process::end_all();
            // Threads may still sit in a blocking read of stdin; they end with the process.
            std::process::exit(code.into())
        }
        Err(why) => {
            complain(&format!("Error: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<u8, String> {
    match std::env::args_os().nth(1).as_deref().and_then(|first| first.to_str()) {
        Some("session") => return command(|c: SessionCommand| c.run(&Surroundings::of_process()?)),
        Some("auth") => {
            return command(|c: AuthCommand| show(&c.run(&Surroundings::of_process()?)?));
        }
        Some("completions") => return command(|c: CompletionsCommand| show(&c.run())),
        Some("man") => return command(|c: ManCommand| show(&c.run()?)),
        _ => {}
    }
    let mut args = match Args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(Instead::Help(text, rest)) => return help(&text, rest.as_deref()),
        Err(Instead::Complain(why)) => return Err(why),
    };
    let surroundings = Surroundings::of_process()?;
    if args.version {
        return show(&format!("{}\n", version(&surroundings.variables)));
    }
    api_key::take(&mut args)?;
    let ends_soon = args.list_models.is_some() || args.export.is_some();
    if let Some(why) = args.foreign_complaint.as_ref().filter(|_| ends_soon) {
        // No extension is loaded that could know the option.
        return Err(why.clone());
    }
    if let Some(search) = &args.list_models {
        let (listing, problems) = list_models(&args, &surroundings, search)?;
        for problem in problems {
            complain(&format!("Warning: {problem}"));
        }
        show(&listing.table)?;
        if let Some(note) = listing.note {
            complain(&note);
        }
        return Ok(0);
    }
    if let Some(paths) = &args.export {
        let page = export(&args, &surroundings, paths)?;
        return show(&format!("Exported to: {}\n", page.display()));
    }
    tiller_tools::process::install();
    let launch = Launch::prepare(&args, surroundings)?;
    // Where extensions judge the project, what is said of it waits for their word.
    let of_place = if launch.house.has_judges() { &[] } else { launch.place.problems() };
    for problem in of_place.iter().chain(&launch.diagnostics) {
        complain(&format!("Warning: {problem}"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| format!("cannot start the runtime: {err}"))?;
    let code = match args.mode() {
        Mode::Rpc => runtime.block_on(serve_stdio(launch)),
        mode => {
            let messages = messages(args, launch.workplace.cwd.to_path_buf())?;
            runtime.block_on(plain::run(mode, launch, messages))
        }
    };
    // Whoever still waits for a slow disk on another thread ends with the process.
    runtime.shutdown_background();
    Ok(code)
}

/// `--help`, with the options that extensions add.
fn help(text: &str, rest: Option<&Args>) -> Result<u8, String> {
    let (foreign, problems) = match rest {
        Some(args) => foreign_help(args, &Surroundings::of_process()?)?,
        None => Default::default(),
    };
    for problem in problems {
        complain(&format!("Warning: {problem}"));
    }
    show(&format!("{text}{foreign}"))
}

/// Reads the rest of the command line as this command, and does it.
fn command<C: Parser>(run: impl FnOnce(C) -> Result<u8, String>) -> Result<u8, String> {
    match C::try_parse_from(std::env::args_os().skip(1)) {
        Ok(command) => run(command),
        Err(err) if err.use_stderr() => {
            complain(err.render().to_string().trim_end());
            Ok(1)
        }
        Err(err) => show(&err.render().to_string()),
    }
}

/// What a plain mode is to say: piped, typed, and in files.
fn messages(args: Args, cwd: PathBuf) -> Result<Vec<Said>, String> {
    let piped = if std::io::stdin().is_terminal() {
        None
    } else {
        Some(plain::piped().map_err(|err| format!("cannot read stdin: {err}"))?)
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
    let rest = typed.map(|text| Said { text, images: Vec::new() });
    let messages: Vec<Said> = first.into_iter().chain(rest).collect();
    if messages.is_empty() {
        return Err("nothing to say: give a message, or --mode rpc for a host".to_owned());
    }
    Ok(messages)
}

fn show(text: &str) -> Result<u8, String> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|err| format!("cannot write: {err}"))?;
    Ok(0)
}
