//! Prints what the chat shows: above the prompt of the line editor, or to stdout.
//!
//! The line editor takes one text at a time, and only while it waits for a key. So a thread prints
//! above the prompt: what arrives meanwhile is printed together, and the chat never waits.

use std::io::{self, Write, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustyline::ExternalPrinter;

use super::line_flow::{LineFlow, Output, Target};
use super::paint::Paint;
use super::terminal::columns;
use crate::print_mode::print_stderr;

/// How long the printer collects text before it prints.
const COLLECT_LIMIT: Duration = Duration::from_millis(30);

pub(super) enum Printer {
    AbovePrompt(Sender<Output>),
    Stream(LineFlow),
}

/// Set by the line editor when it prints something itself, so that the last line above the prompt
/// is no longer the chat's.
#[derive(Clone, Default)]
pub(super) struct LineWasPrinted(Arc<AtomicBool>);

impl LineWasPrinted {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Printer {
    /// Prints above the prompt, from a thread that ends with the last sender.
    pub(super) fn above_prompt(
        editor: impl ExternalPrinter + Send + 'static,
        was_printed: LineWasPrinted,
        paint: Paint,
    ) -> Printer {
        let (sender, outputs) = channel();
        let flow = LineFlow::new(Target::AbovePrompt, paint);
        thread::spawn(move || print_all(&outputs, flow, editor, &was_printed));
        Printer::AbovePrompt(sender)
    }

    pub(super) fn stream(paint: Paint) -> Printer {
        Printer::Stream(LineFlow::new(Target::Stream, paint))
    }

    /// Prints, or fails if stdout is closed.
    pub(super) fn print(&mut self, output: Output) -> io::Result<()> {
        match self {
            Printer::AbovePrompt(outputs) => {
                // The thread ends if the terminal is gone. Then the line editor ends, too.
                outputs.send(output).ok();
                Ok(())
            }
            Printer::Stream(flow) => {
                let text = match &output {
                    Output::Error(why) => {
                        let end = flow.write(&Output::EndOfText, columns());
                        print_stderr(why);
                        end
                    }
                    output => flow.write(output, columns()),
                };
                if text.is_empty() {
                    return Ok(());
                }
                let mut stdout = stdout().lock();
                stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
            }
        }
    }
}

fn print_all(
    outputs: &Receiver<Output>,
    mut flow: LineFlow,
    mut editor: impl ExternalPrinter,
    was_printed: &LineWasPrinted,
) {
    while let Ok(first) = outputs.recv() {
        let collected = collect(first, outputs);
        if was_printed.take() {
            flow.forget_line();
        }
        let columns = columns();
        let text: String = collected.iter().map(|output| flow.write(output, columns)).collect();
        if !text.is_empty() && editor.print(text).is_err() {
            return;
        }
    }
}

/// Everything that arrives within the limit.
fn collect(first: Output, outputs: &Receiver<Output>) -> Vec<Output> {
    let mut collected = vec![first];
    let end = Instant::now() + COLLECT_LIMIT;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        match outputs.recv_timeout(rest) {
            Ok(output) => collected.push(output),
            Err(_) => return collected,
        }
    }
}
