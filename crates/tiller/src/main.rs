//! The process: read the command line, start the right mode, end cleanly.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use tiller::args::{Args, Instead, Mode, version};
use tiller::auth_command::AuthCommand;
use tiller::launch::{Launch, Surroundings, list_models};
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
    if std::env::args_os().nth(1).is_some_and(|first| first == "session") {
        return look_after_sessions();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == "auth") {
        return look_after_keys();
    }
    let args = match Args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(Instead::Print(text)) => return show(&text),
        Err(Instead::Complain(why)) => return Err(why),
    };
    let surroundings = Surroundings::of_process()?;
    if args.version {
        return show(&format!("{}\n", version(&surroundings.variables)));
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
    tiller_tools::process::install();
    let launch = Launch::prepare(&args, surroundings)?;
    for problem in &launch.diagnostics {
        complain(&format!("Warning: {problem}"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| format!("cannot start the runtime: {err}"))?;
    let code = match args.mode() {
        Mode::Rpc => runtime.block_on(serve_stdio(launch)),
        mode => runtime.block_on(plain::run(mode, launch, messages(args)?)),
    };
    Ok(code)
}

/// `tiller session …`
fn look_after_sessions() -> Result<u8, String> {
    match SessionCommand::try_parse_from(std::env::args_os().skip(1)) {
        Ok(command) => command.run(&Surroundings::of_process()?),
        Err(err) if err.use_stderr() => {
            complain(err.render().to_string().trim_end());
            Ok(1)
        }
        Err(err) => show(&err.render().to_string()),
    }
}

/// `tiller auth …`
fn look_after_keys() -> Result<u8, String> {
    match AuthCommand::try_parse_from(std::env::args_os().skip(1)) {
        Ok(command) => show(&command.run(&Surroundings::of_process()?)?),
        Err(err) if err.use_stderr() => {
            complain(err.render().to_string().trim_end());
            Ok(1)
        }
        Err(err) => show(&err.render().to_string()),
    }
}

/// What a plain mode is to say, piped or typed.
fn messages(args: Args) -> Result<Vec<String>, String> {
    let piped = if std::io::stdin().is_terminal() {
        None
    } else {
        Some(plain::piped().map_err(|err| format!("cannot read stdin: {err}"))?)
    };
    let mut typed = args.messages.into_iter();
    let first = plain::first_message(piped, typed.next());
    let messages: Vec<String> = first.into_iter().chain(typed).collect();
    if messages.is_empty() {
        return Err("nothing to say: give a message, or --mode rpc for a host".to_owned());
    }
    Ok(messages)
}

fn show(text: &str) -> Result<u8, String> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).map_err(|err| format!("cannot write: {err}"))?;
    Ok(0)
}
