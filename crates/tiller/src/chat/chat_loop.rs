//! The loop of the chat: lines of the user, records of tiller, dialogs and finished actions, one at
//! a time. It owns the state of the chat.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tiller_client::{Client, ClientError, Event, EventStream};
use tiller_protocol::{Dialog, DialogKind, Disposition, PromptStatus, Record, UiAnswer, WhenBusy};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::actions::{self, ActionResult, ListChoice, NumberedList};
use super::commands::help;
use super::input::{ChatCommandLine, InputLine, unknown_command};
use super::line_flow::Output;
use super::line_source::{InputEvent, LineSource, Permit, SharedNames};
use super::printer::Printer;
use super::question::{DialogReply, dialog_lines, dialog_reply, numbered, numbered_choice};
use super::signals::EndSignal;
use super::view::ChatView;
use crate::print_mode::screen::one_line;

/// A second Ctrl-C within this time ends the chat.
const QUIT_LIMIT: Duration = Duration::from_secs(2);

/// The exit code if a prompt or a command failed and no user could correct it.
const FAILED: u8 = 1;

/// A dialog of an extension, and who gets its answer.
pub(super) struct DialogRequest {
    pub(super) dialog: Dialog,
    pub(super) reply: oneshot::Sender<UiAnswer>,
}

/// What the loop reads from and writes to.
pub(super) struct ChatEnds {
    pub(super) input: LineSource,
    pub(super) printer: Printer,
    pub(super) dialogs: mpsc::UnboundedReceiver<DialogRequest>,
    pub(super) signals: mpsc::UnboundedReceiver<EndSignal>,
    pub(super) names: SharedNames,
}

type Action<'a> = Pin<Box<dyn Future<Output = ActionResult> + 'a>>;

pub(super) struct ChatLoop<'a> {
    client: &'a Client,
    records: EventStream,
    view: ChatView,
    ends: ChatEnds,
    actions: FuturesUnordered<Action<'a>>,
    /// Dialogs that wait for the user. The first one is shown.
    dialogs: VecDeque<DialogRequest>,
    /// The list from which the next line chooses.
    list: Option<NumberedList>,
    /// The commands of the session with their descriptions.
    commands: Vec<(String, String)>,
    /// The prompts of this chat that have no result yet, by `clientMessageId`.
    open_prompts: HashSet<String>,
    prompts_sent: usize,
    /// A run is in progress.
    is_running: bool,
    is_compacting: bool,
    /// How many shell commands of the user run.
    shells: usize,
    /// The source of lines has a permit.
    is_reading: bool,
    /// The input line waits for the text of a fork.
    holds_input: bool,
    /// For the next permit.
    permit: Permit,
    /// When Ctrl-C was pressed while nothing ran.
    interrupted: Option<Instant>,
    /// Set when the chat ends.
    exit: Option<u8>,
}

impl<'a> ChatLoop<'a> {
    pub(super) async fn new(client: &'a Client, view: ChatView, ends: ChatEnds) -> ChatLoop<'a> {
        ChatLoop {
            records: client.events().await,
            client,
            view,
            ends,
            actions: FuturesUnordered::new(),
            dialogs: VecDeque::new(),
            list: None,
            commands: Vec::new(),
            open_prompts: HashSet::new(),
            prompts_sent: 0,
            is_running: false,
            is_compacting: false,
            shells: 0,
            is_reading: false,
            holds_input: false,
            permit: Permit::default(),
            interrupted: None,
            exit: None,
        }
    }

    /// Runs until the user quits, stdin ends, or tiller ends. Returns the exit code.
    pub(super) async fn run(mut self, first_lines: Vec<String>) -> Result<u8, String> {
        if self.ends.input.is_terminal {
            let opening = actions::opening(self.client).await;
            let opening = opening.map_err(|error| actions::words(&error))?;
            let (first, recent) = opening.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
            self.print(self.view.note(first))?;
            for text in recent {
                self.print(self.view.plain(text))?;
            }
            let diagnostics = &self.client.server().diagnostics;
            for problem in diagnostics.clone() {
                self.print(self.view.warning(&problem))?;
            }
            self.start(actions::names(self.client));
        }
        let mut first_lines = VecDeque::from(first_lines);
        while self.exit.is_none() {
            if self.is_ready_for_line()
                && let Some(line) = first_lines.pop_front()
            {
                if self.ends.input.is_terminal {
                    self.print(self.view.plain(&format!("> {line}")))?;
                }
                self.line(&line)?;
                continue;
            }
            self.permit_line();
            tokio::select! {
                biased;
                Some(signal) = self.ends.signals.recv() => self.signal(signal)?,
                Some(event) = self.ends.input.events.recv() => self.input(event)?,
                event = self.records.next() => self.record(event)?,
                Some(request) = self.ends.dialogs.recv() => self.open_dialog(request)?,
                () = front_dialog_closed(&mut self.dialogs) => self.next_dialog()?,
                Some(result) = self.actions.next() => self.finished(result)?,
            }
        }
        Ok(self.exit.unwrap_or_default())
    }

    fn print(&mut self, output: Output) -> Result<(), String> {
        match self.ends.printer.print(output) {
            Ok(()) => Ok(()),
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => {
                self.exit = Some(FAILED);
                Ok(())
            }
            Err(err) => Err(format!("cannot write to stdout: {err}")),
        }
    }

    fn start(&mut self, action: impl Future<Output = ActionResult> + 'a) {
        self.actions.push(Box::pin(action));
    }

    /// Whether the model is at work.
    fn is_busy(&self) -> bool {
        self.is_running || self.is_compacting || !self.open_prompts.is_empty()
    }

    /// On a terminal a line can be typed at any time. Without one, the next line is read when the
    /// line before is done, or when a question waits for its answer.
    fn is_ready_for_line(&self) -> bool {
        let has_question = !self.dialogs.is_empty() || self.list.is_some();
        let is_idle = !self.is_busy() && self.actions.is_empty();
        !self.holds_input && (self.ends.input.is_terminal || has_question || is_idle)
    }

    fn permit_line(&mut self) {
        if !self.is_reading && self.is_ready_for_line() {
            self.is_reading = true;
            self.ends.input.permit(std::mem::take(&mut self.permit));
        }
    }

    fn signal(&mut self, signal: EndSignal) -> Result<(), String> {
        match signal {
            // Between two lines the terminal sends Ctrl-C as a signal.
            EndSignal::Interrupt if self.ends.input.is_terminal => self.interrupt(),
            signal => {
                self.exit = Some(signal.exit_code());
                Ok(())
            }
        }
    }

    fn input(&mut self, event: InputEvent) -> Result<(), String> {
        self.is_reading = false;
        match event {
            InputEvent::Line(line) => self.line(&line),
            InputEvent::Interrupt => self.interrupt(),
            InputEvent::EndOfInput => {
                self.end_of_input();
                Ok(())
            }
            InputEvent::Failed(why) => Err(why),
        }
    }

    /// Questions that are still open are cancelled, because no line can answer them any more.
    fn end_of_input(&mut self) {
        if self.ends.input.is_terminal || !self.is_busy() {
            self.exit.get_or_insert(0);
            return;
        }
        self.list = None;
        for DialogRequest { reply, .. } in self.dialogs.drain(..) {
            // The dialog may have ended by itself.
            reply.send(UiAnswer::Cancelled).ok();
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        self.interrupted = None;
        while let Some(front) = self.dialogs.pop_front() {
            if !front.reply.is_closed() {
                return self.answer(front, line);
            }
        }
        if let Some(list) = self.list.take() {
            match numbered_choice(line, list.rows.len()) {
                Some(at) => {
                    let (_, choice) = &list.rows[at];
                    return self.choose(choice.clone());
                }
                None => self.print(self.view.note("[cancelled]"))?,
            }
        }
        self.permit.history_line = Some(line.to_owned()).filter(|line| !line.trim().is_empty());
        match InputLine::parse(line) {
            InputLine::Empty => Ok(()),
            InputLine::Message(text) => self.send(text, WhenBusy::Steer),
            InputLine::FollowUp(text) => self.send(text, WhenBusy::FollowUp),
            InputLine::Shell { command, is_hidden } => {
                self.shells += 1;
                self.start(actions::shell(self.client, command, is_hidden));
                Ok(())
            }
            InputLine::Command(command) => self.command(command),
            InputLine::Named { name, line } => self.named(name, line),
            InputLine::Invalid(why) => self.fail(&why),
        }
    }

    fn command(&mut self, command: ChatCommandLine) -> Result<(), String> {
        match command {
            ChatCommandLine::Quit => self.exit = Some(0),
            ChatCommandLine::Abort => self.stop_work(),
            ChatCommandLine::Help => {
                let lines = help(&self.commands).join("\n");
                self.print(self.view.plain(&lines))?;
            }
            ChatCommandLine::ThinkingText(shows) => {
                self.view.show_thinking(shows);
                let state = if shows { "shown" } else { "hidden" };
                self.print(self.view.note(&format!("[thinking] its text is {state}")))?;
            }
            command => self.start(actions::run(self.client, command)),
        }
        Ok(())
    }

    /// A command of the session is a prompt. The names are read first if they are not known yet.
    fn named(&mut self, name: String, line: String) -> Result<(), String> {
        let names: Vec<String> = self.commands.iter().map(|(name, _)| name.clone()).collect();
        if names.contains(&name) {
            return self.send(line, WhenBusy::Steer);
        }
        let id = self.next_prompt_id();
        let client = self.client;
        self.start(async move {
            let listed = client.get_commands().await.map(|data| data.commands).unwrap_or_default();
            let listed: Vec<String> = listed.into_iter().map(|command| command.name).collect();
            if listed.contains(&name) {
                return actions::prompt(client, id, line, WhenBusy::Steer).await;
            }
            let outcome = Err(unknown_command(&name, &listed));
            ActionResult::Prompt { id, text: line, outcome }
        });
        Ok(())
    }

    fn send(&mut self, text: String, when_busy: WhenBusy) -> Result<(), String> {
        let id = self.next_prompt_id();
        self.start(actions::prompt(self.client, id, text, when_busy));
        Ok(())
    }

    fn next_prompt_id(&mut self) -> String {
        self.prompts_sent += 1;
        let id = format!("chat-{}-{}", std::process::id(), self.prompts_sent);
        self.open_prompts.insert(id.clone());
        id
    }

    fn choose(&mut self, choice: ListChoice) -> Result<(), String> {
        // The text of a fork comes into the input line.
        self.holds_input = matches!(choice, ListChoice::Fork(_));
        self.start(actions::choose(self.client, choice));
        Ok(())
    }

    /// Ctrl-C: stops what is at work, or clears the line. Twice while nothing is at work: quits.
    fn interrupt(&mut self) -> Result<(), String> {
        self.list = None;
        let is_asked = !self.dialogs.is_empty();
        for DialogRequest { reply, .. } in self.dialogs.drain(..) {
            // The dialog may have ended by itself.
            reply.send(UiAnswer::Cancelled).ok();
        }
        if self.is_busy() || self.shells > 0 {
            self.stop_work();
            return Ok(());
        }
        if is_asked {
            return Ok(());
        }
        let now = Instant::now();
        if is_second_interrupt(self.interrupted.replace(now), now) {
            self.exit = Some(0);
            return Ok(());
        }
        self.print(self.view.note("Press Ctrl-C again or Ctrl-D to quit."))
    }

    /// Stops the run, and the shell commands of the user.
    fn stop_work(&mut self) {
        let client = self.client;
        if self.shells > 0 {
            self.start(async move { abort_result(client.abort_bash().await) });
        }
        self.start(async move { abort_result(client.abort().await) });
    }

    fn record(&mut self, event: Result<Option<Event>, ClientError>) -> Result<(), String> {
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => {
                self.exit = Some(0);
                return Ok(());
            }
            // An extension may end tiller.
            Err(ClientError::ServerExited { status: Some(status), .. }) if status.success() => {
                self.exit = Some(0);
                return self.print(self.view.note("[tiller has ended]"));
            }
            Err(error) => return Err(actions::words(&error)),
        };
        for output in self.view.record(event.record()) {
            self.print(output)?;
        }
        match event.record() {
            Record::AgentStart => self.is_running = true,
            Record::AgentSettled { .. } => self.is_running = false,
            Record::CompactionStart { .. } => self.is_compacting = true,
            Record::CompactionEnd { .. } => self.is_compacting = false,
            Record::PromptResult { client_message_id: Some(id), status, .. } => {
                self.prompt_ended(id, *status);
            }
            _ => {}
        }
        Ok(())
    }

    fn prompt_ended(&mut self, id: &str, status: PromptStatus) {
        let is_done = matches!(status, PromptStatus::Done | PromptStatus::Handled);
        if self.open_prompts.remove(id) && !is_done {
            self.fail_without_user();
        }
    }

    /// Without a terminal, the lines after a failure would act on another state than expected.
    fn fail_without_user(&mut self) {
        if !self.ends.input.is_terminal {
            self.exit = Some(FAILED);
        }
    }

    fn fail(&mut self, why: &str) -> Result<(), String> {
        self.fail_without_user();
        self.print(self.view.error(why))
    }

    fn open_dialog(&mut self, request: DialogRequest) -> Result<(), String> {
        self.dialogs.push_back(request);
        if self.dialogs.len() == 1 { self.show_dialog() } else { Ok(()) }
    }

    fn show_dialog(&mut self) -> Result<(), String> {
        let Some(front) = self.dialogs.front() else { return Ok(()) };
        let lines = dialog_lines(&front.dialog.kind);
        self.print(self.view.question(&lines))
    }

    /// The dialog that is shown has ended by itself.
    fn next_dialog(&mut self) -> Result<(), String> {
        self.dialogs.pop_front();
        self.print(self.view.note("[the question is closed]"))?;
        self.show_dialog()
    }

    fn answer(&mut self, request: DialogRequest, line: &str) -> Result<(), String> {
        match dialog_reply(&request.dialog.kind, line) {
            DialogReply::Answer(answer) => {
                let note = answer_note(&request.dialog.kind, &answer);
                // The dialog may have ended by itself.
                request.reply.send(answer).ok();
                self.print(self.view.note(&note))?;
                self.show_dialog()
            }
            DialogReply::Unclear(expected) => {
                self.dialogs.push_front(request);
                self.print(self.view.note(&expected))
            }
        }
    }

    fn finished(&mut self, result: ActionResult) -> Result<(), String> {
        match result {
            ActionResult::Nothing => Ok(()),
            ActionResult::Lines(lines) => self.print(self.view.plain(&lines.join("\n"))),
            ActionResult::Note(text) => self.print(self.view.note(&text)),
            ActionResult::Failed(why) => {
                self.holds_input = false;
                self.fail(&why)
            }
            ActionResult::List(list) => {
                let rows: Vec<String> = list.rows.iter().map(|(row, _)| row.clone()).collect();
                let lines = numbered(&list.title, &rows);
                self.list = Some(list);
                self.print(self.view.question(&lines))
            }
            ActionResult::Prompt { id, text, outcome } => self.prompt_response(id, &text, outcome),
            ActionResult::SessionChanged { lines, text } => {
                self.holds_input = false;
                self.permit.text = text.unwrap_or_default();
                let (first, rest) = lines.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
                self.print(self.view.note(first))?;
                for line in rest {
                    self.print(self.view.plain(line))?;
                }
                if self.ends.input.is_terminal {
                    self.start(actions::names(self.client));
                }
                Ok(())
            }
            ActionResult::Names { names, commands } => {
                self.commands = commands;
                if let Ok(mut shared) = self.ends.names.lock() {
                    *shared = names;
                }
                Ok(())
            }
            ActionResult::Shell { note } => {
                self.shells -= 1;
                self.print(Output::EndOfText)?;
                match note {
                    Some(note) => self.print(self.view.note(&note)),
                    None => Ok(()),
                }
            }
        }
    }

    fn prompt_response(
        &mut self,
        id: String,
        text: &str,
        outcome: Result<Disposition, String>,
    ) -> Result<(), String> {
        match outcome {
            Ok(Disposition::Queued) if self.open_prompts.contains(&id) => {
                let output = self.view.message_queued(id, text);
                self.print(output)
            }
            Ok(_) => Ok(()),
            Err(why) => {
                self.open_prompts.remove(&id);
                self.fail(&why)
            }
        }
    }
}

/// Whether Ctrl-C follows another one closely enough to end the chat.
fn is_second_interrupt(earlier: Option<Instant>, now: Instant) -> bool {
    earlier.is_some_and(|earlier| now - earlier <= QUIT_LIMIT)
}

/// The result of an abort: what it stopped is shown by events.
fn abort_result(result: Result<(), ClientError>) -> ActionResult {
    match result {
        Ok(()) => ActionResult::Nothing,
        Err(error) => ActionResult::Failed(actions::words(&error)),
    }
}

/// What was answered, in a word.
fn answer_note(kind: &DialogKind, answer: &UiAnswer) -> String {
    match (kind, answer) {
        (_, UiAnswer::Cancelled) => "[cancelled]".to_owned(),
        (_, UiAnswer::Confirmed(true)) => "[yes]".to_owned(),
        (_, UiAnswer::Confirmed(false)) => "[no]".to_owned(),
        (DialogKind::Select { .. }, UiAnswer::Value(value)) => format!("[{}]", one_line(value)),
        (_, UiAnswer::Value(_) | UiAnswer::Reasoned { .. }) => "[answered]".to_owned(),
    }
}

/// Waits until the dialog that is shown ends by itself.
async fn front_dialog_closed(dialogs: &mut VecDeque<DialogRequest>) {
    match dialogs.front_mut() {
        Some(front) => front.reply.closed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_interrupt_counts_for_two_seconds() {
        let now = Instant::now();
        assert!(!is_second_interrupt(None, now));
        assert!(is_second_interrupt(Some(now), now + Duration::from_secs(2)));
        assert!(!is_second_interrupt(Some(now), now + Duration::from_millis(2001)));
    }
}
