//! `tiller auth`: stores, lists and removes keys.
//!
//! A key is typed without echo, or piped in. It is never printed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::fd::AsFd;

use clap::Parser;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tiller_config::credentials::{remove, set};
use tiller_config::settings::Settings;

use crate::launch::ProcessEnv;

/// Store API keys of providers
#[derive(Debug, Parser)]
#[command(name = "tiller auth", disable_version_flag = true)]
pub enum AuthCommand {
    /// Store a key: typed, or the first line of stdin
    ///
    /// `$NAME` stands for an environment variable and `!command` for the output of a command; both
    /// are resolved when the key is used.
    Set {
        provider: String,
        /// Store it for an unknown provider, without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Show which providers have a key, and where it comes from
    List,
    /// Remove a stored key
    Remove { provider: String },
}

impl AuthCommand {
    /// Runs the command. Returns what to print.
    pub fn run(self, env: &ProcessEnv) -> Result<String, String> {
        let path = env.agent_dir().join("auth.json");
        match self {
            AuthCommand::Set { provider, yes } => {
                let models = env.models(&Settings::default(), &mut Vec::new());
                if !yes && !models.provider_names().any(|known| known == provider) {
                    let nearest = nearest(&provider, models.provider_names());
                    confirm_unknown(&provider, nearest)?;
                }
                let key = ask(&provider).map_err(|err| format!("cannot read the key: {err}"))?;
                if key.is_empty() {
                    return Err("no key was given; nothing was stored".to_owned());
                }
                set(&path, &provider, &key)?;
                Ok(format!("Stored the key for {provider} in {}\n", path.display()))
            }
            AuthCommand::Remove { provider } => {
                if !remove(&path, &provider)? {
                    return Err(format!("there is no key for {provider} in {}", path.display()));
                }
                Ok(format!("Removed the key for {provider} from {}\n", path.display()))
            }
            AuthCommand::List => Ok(list(env)),
        }
    }
}

fn list(env: &ProcessEnv) -> String {
    let mut problems = Vec::new();
    let settings = Settings::default();
    let models = env.models(&settings, &mut problems);
    let credentials = models.credentials();
    let mut providers: BTreeSet<String> = credentials.providers();
    providers.extend(models.provider_names().map(str::to_owned));
    let mut rows = Vec::new();
    for provider in providers {
        if let Some(source) = credentials.source(&provider) {
            rows.push((provider, source.to_string()));
        } else if let Some(why) = credentials.key_problem(&provider) {
            rows.push((provider, format!("cannot be used: {why}")));
        }
    }
    let width = rows.iter().map(|(provider, _)| provider.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (provider, source) in &rows {
        text += &format!("{provider:width$}  {source}\n");
    }
    if rows.is_empty() {
        text = "No keys. Store one with `tiller auth set PROVIDER`.\n".to_owned();
    }
    for problem in problems {
        text += &format!("Warning: {problem}\n");
    }
    text
}

/// The known name most similar to what was typed.
fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |known: &&str| strsim::osa_distance(&typed, known);
    known.filter(|known| distance(known) <= 2).min_by_key(distance)
}

/// A key under an unknown name is never used, so the user confirms the name first.
fn confirm_unknown(provider: &str, nearest: Option<&str>) -> Result<(), String> {
    let suggestion =
        nearest.map(|nearest| format!(" (did you mean {nearest}?)")).unwrap_or_default();
    let unknown = format!("Unknown provider: {provider}{suggestion}");
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(format!("{unknown}; nothing was stored. Use --yes to store it anyway"));
    }
    let mut stderr = io::stderr().lock();
    let question = format!("{unknown}. An extension may register it. Store a key for it? [y/N] ");
    let mut answer = String::new();
    stderr
        .write_all(question.as_bytes())
        .and_then(|()| stdin.lock().read_line(&mut answer))
        .map_err(|err| format!("cannot read the answer: {err}"))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was stored".to_owned()),
    }
}

/// Reads a key: typed at a terminal without echo, or the first line of stdin.
pub(crate) fn ask(provider: &str) -> io::Result<String> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut line = String::new();
        stdin.lock().read_line(&mut line)?;
        return Ok(line.trim().to_owned());
    }
    let terminal = File::from(stdin.as_fd().try_clone_to_owned()?);
    let mut stderr = io::stderr().lock();
    // Input typed before echo is off would be discarded, so it is turned off first.
    let silence = Silence::of(&terminal)?;
    write!(stderr, "Key for {provider}: ")?;
    let typed = read_line(&mut &terminal);
    drop(silence);
    writeln!(stderr)?;
    typed.map(|key| key.trim().to_owned())
}

/// Reads input key by key. The terminal is in raw mode meanwhile, so Ctrl-C does nothing: a process
/// killed by it would leave the echo off.
fn read_line(keys: &mut impl Read) -> io::Result<String> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const ERASE_ALL: u8 = 21;
    let mut typed = Vec::new();
    let mut key = [0];
    loop {
        let read = keys.read(&mut key)?;
        match key[0] {
            _ if read == 0 => break,
            b'\r' | b'\n' | END => break,
            INTERRUPT => return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
            ERASE_ALL => typed.clear(),
            8 | 127 => {
                typed.pop();
            }
            byte => typed.push(byte),
        }
    }
    String::from_utf8(typed).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not text"))
}

/// Turns the terminal's echo off until dropped.
struct Silence<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Silence<'_> {
    fn of(terminal: &File) -> io::Result<Silence<'_>> {
        let before = tcgetattr(terminal)?;
        let mut mute = before.clone();
        mute.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        tcsetattr(terminal, SetArg::TCSAFLUSH, &mute)?;
        Ok(Silence { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        tcsetattr(self.terminal, SetArg::TCSAFLUSH, &self.before).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_can_be_corrected() {
        let read = |keys: &str| read_line(&mut keys.as_bytes()).map_err(|err| err.to_string());
        assert_eq!(read("key\nrest"), Ok("key".into()));
        assert_eq!(read("kex\x7fy\r"), Ok("key".into()));
        assert_eq!(read("wrong\x15key\x04"), Ok("key".into()));
        assert_eq!(read("\x7f\x7fkey"), Ok("key".into()));
        assert_eq!(read("ke\x03y\n"), Err("interrupted".into()));
    }
}
