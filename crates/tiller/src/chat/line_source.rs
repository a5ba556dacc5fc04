//! Where input lines come from: the line editor on a terminal, or stdin. Each has a thread of its
//! own, which reads a line when it gets a permit, and sends what happened.

use std::io::stdin;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use rustyline::completion::Completer;
use rustyline::config::{BellStyle, ColorMode, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use tokio::sync::mpsc;

use super::commands::{SessionNames, completions};
use super::paint::Paint;
use super::printer::{LineWasPrinted, Printer};

const PROMPT: &str = "> ";
/// How many lines the history keeps.
const HISTORY_LINES: usize = 1000;

/// What the user has done.
#[derive(Debug)]
pub(super) enum InputEvent {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of stdin.
    EndOfInput,
    /// Lines can no longer be read.
    Failed(String),
}

/// Lets the thread read one line.
#[derive(Default)]
pub(super) struct Permit {
    /// What is in the input line at first.
    pub(super) text: String,
    /// The line before, if it belongs into the history.
    pub(super) history_line: Option<String>,
}

/// The receiving end of a thread that reads lines.
pub(super) struct LineSource {
    pub(super) events: mpsc::UnboundedReceiver<InputEvent>,
    permits: std::sync::mpsc::Sender<Permit>,
    pub(super) is_terminal: bool,
}

/// What Tab completes. The loop replaces it when the session changes.
pub(super) type SharedNames = Arc<Mutex<SessionNames>>;

impl LineSource {
    /// Lets the thread read a line.
    pub(super) fn permit(&self, permit: Permit) {
        // A thread that has ended has sent the reason.
        self.permits.send(permit).ok();
    }

    /// Reads lines of stdin without editing.
    pub(super) fn of_stdin() -> LineSource {
        let (sender, events) = mpsc::unbounded_channel();
        let (permits, receiver) = std::sync::mpsc::channel::<Permit>();
        thread::spawn(move || {
            while receiver.recv().is_ok() {
                let mut line = String::new();
                let event = match stdin().read_line(&mut line) {
                    Ok(0) => InputEvent::EndOfInput,
                    Ok(_) => InputEvent::Line(line.trim_end_matches(['\n', '\r']).to_owned()),
                    Err(err) => InputEvent::Failed(format!("cannot read stdin: {err}")),
                };
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        LineSource { events, permits, is_terminal: false }
    }

    /// Starts the line editor, and a printer for what appears above its prompt. Problems with the
    /// history are returned: the chat works without it.
    pub(super) fn of_terminal(
        history: PathBuf,
        names: SharedNames,
        paint: Paint,
    ) -> Result<(LineSource, Printer, Option<String>), String> {
        let failed = |err: ReadlineError| format!("cannot edit lines on this terminal: {err}");
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .bell_style(BellStyle::None)
            .color_mode(if paint.has_color { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut editor: Editor<LineHelper, FileHistory> =
            Editor::with_config(config).map_err(failed)?;
        let was_printed = LineWasPrinted::default();
        editor.set_helper(Some(LineHelper { names, was_printed: was_printed.clone() }));
        let printer = editor.create_external_printer().map_err(failed)?;
        let printer = Printer::above_prompt(printer, was_printed.clone(), paint);
        let (history, problem) = match prepare_history(&history) {
            Ok(()) => match editor.load_history(&history) {
                Ok(()) => (Some(history), None),
                Err(err) => (None, Some(format!("cannot read {}: {err}", history.display()))),
            },
            Err(err) => (None, Some(format!("cannot open {}: {err}", history.display()))),
        };
        let (sender, events) = mpsc::unbounded_channel();
        let (permits, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || read_lines(editor, &receiver, &sender, &was_printed, history));
        Ok((LineSource { events, permits, is_terminal: true }, printer, problem))
    }
}

fn read_lines(
    mut editor: Editor<LineHelper, FileHistory>,
    permits: &std::sync::mpsc::Receiver<Permit>,
    events: &mpsc::UnboundedSender<InputEvent>,
    was_printed: &LineWasPrinted,
    history: Option<PathBuf>,
) {
    while let Ok(permit) = permits.recv() {
        if let Some(line) = permit.history_line {
            // The history is a convenience: without it the chat goes on.
            let added = editor.add_history_entry(line).unwrap_or_default();
            if let Some(path) = history.as_deref().filter(|_| added) {
                editor.append_history(path).ok();
            }
        }
        let event = match editor.readline_with_initial(PROMPT, (&permit.text, "")) {
            Ok(line) => InputEvent::Line(line),
            Err(ReadlineError::Interrupted) => InputEvent::Interrupt,
            Err(ReadlineError::Eof) => InputEvent::EndOfInput,
            Err(err) => InputEvent::Failed(format!("cannot read from the terminal: {err}")),
        };
        was_printed.set();
        if events.send(event).is_err() {
            break;
        }
    }
}

/// Creates the history file, readable only by the user. A symbolic link is refused.
fn prepare_history(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let no_link = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(no_link)
        .open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Completes commands, and continues a line that ends with `\`.
struct LineHelper {
    names: SharedNames,
    was_printed: LineWasPrinted,
}

impl Helper for LineHelper {}
impl Highlighter for LineHelper {}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        // The editor may print a list of the candidates.
        self.was_printed.set();
        let names = self.names.lock().map(|names| names.clone()).unwrap_or_default();
        Ok(completions(&line[..position], &names))
    }
}

impl Validator for LineHelper {
    /// Called when Enter is pressed, before the line is accepted.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        self.was_printed.set();
        let is_continued = context.input().ends_with('\\');
        Ok(if is_continued { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
