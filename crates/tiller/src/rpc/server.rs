//! The owner of all state. It takes one [`Input`] at a time; everything else talks to it through
//! channels, so there are no locks, and the order of things is the order of this loop.

use std::sync::Arc;
use std::time::Duration;

use tiller_agent::event::Event;
use tiller_agent::host::{End, NotStored};
use tiller_agent::message::Message;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::change::Changed;
use super::commands::BashEnded;
use super::compaction::Summarised;
use super::dispatch::{dispatch, receive};
use super::guests::Wish;
use super::here::Looked;
use super::host_tools::HostCall;
use super::leaving::{FAREWELL, Leaving};
use super::lines::Line;
use super::link::Question;
use super::out::{Out, Pipe};
use super::state::State;
use super::todos::{TodoDue, TodoWrite};
use super::wire::{Label, Reply, Request};
use crate::launch::Launch;

/// Everything that can happen to the server.
pub enum Input {
    /// What the client said in one breath. Lines that arrive together are taken together, so
    /// that an `abort` glued to its `prompt` meets the run before the run has begun.
    Lines(Vec<Line>),
    /// The client will say nothing more; this stands behind everything it has said.
    EndOfInput,
    /// The same, ahead of what it has said: however much waits to be read, the rest is taken in.
    LastLines,
    /// Nobody reads what we write.
    OutputClosed,
    /// The operating system wants us gone.
    Signal(Signal),
    /// A run tells what happened.
    Event(Event),
    /// A run waits for an answer.
    Question(Question),
    /// A run is over; `Err` says how it crashed.
    RunEnded(Result<End, String>),
    /// The pause before another try is over.
    RetryDue,
    /// There will be no other try.
    GaveUp,
    /// The pause before the model goes on under a rule is over.
    ResumeDue,
    /// The summary for a compaction is there, or will never be.
    Summarised(Box<Summarised>),
    /// A tool of the client's is called, or no longer waited for.
    HostCall(HostCall),
    /// The model changes its todo list.
    TodoWrite(TodoWrite),
    /// A finished task leaves the list.
    TodoDue(TodoDue),
    /// An extension wants something, or has decided.
    Guest(Box<Wish>),
    /// A command of the client's is over.
    BashEnded(Box<BashEnded>),
    /// The session that was asked for is there, or cannot be had.
    Changed(Box<Changed>),
    /// Somebody has looked at the files of the place we work in.
    Looked(Box<Looked>),
    /// Something that took a while is answered.
    Answered(Label, Result<Reply, String>),
}

/// The signals that end tiller in an orderly way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal {
    Interrupt,
    Terminate,
    HangUp,
}

impl Signal {
    fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
            Signal::HangUp => 129,
        }
    }
}

/// What becomes of accepted work when the client closes its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnEof {
    /// The run is aborted and closed with its events.
    #[default]
    Abort,
    /// The run and everything queued is finished first.
    Finish,
}

/// The server's ends of its channels.
pub struct Channels {
    /// What the client says.
    pub lines: mpsc::Receiver<Input>,
    /// What must be heard even when the client's lines are not.
    pub control: mpsc::Receiver<Input>,
    pub pipe: Pipe,
    /// Fires when a writer who was behind has caught up.
    pub caught_up: Arc<Notify>,
}

/// How many inputs may wait for the server.
pub const INPUTS_MAX: usize = 256;
/// How many inputs are taken before their output is handed on.
const BATCH: usize = 128;
/// How often more is waited for before a write.
const ROUNDS: usize = 4;

/// Runs the server until its client, the system or its own end stops it. Returns the exit code.
pub async fn serve(launch: Launch, channels: Channels) -> u8 {
    let Channels { lines, control, pipe, caught_up } = channels;
    let (work_sender, work) = mpsc::channel(INPUTS_MAX);
    let out = Out::new(launch.level, pipe);
    let on_eof = launch.on_eof;
    let mut launch = launch;
    let house = std::mem::take(&mut launch.house);
    let mut state = State::new(launch, work_sender);
    state.load_extensions(house);
    let (unasked, leaving, takes_all) = (Vec::new(), None, false);
    let mut server =
        Server { state, out, lines, control, work, caught_up, on_eof, unasked, leaving, takes_all };
    server.out.ready(version());
    server.leave_if_wanted();
    server.out.flush();
    loop {
        server.step().await;
        if let Some(code) = server.exit_code() {
            server.out.close();
            return code;
        }
    }
}

struct Server {
    state: State,
    out: Out,
    /// From the client.
    lines: mpsc::Receiver<Input>,
    /// From the operating system.
    control: mpsc::Receiver<Input>,
    /// From the run.
    work: mpsc::Receiver<Input>,
    caught_up: Arc<Notify>,
    on_eof: OnEof,
    /// Questions put off until the client has read what there is.
    unasked: Vec<Question>,
    leaving: Option<Leaving>,
    /// What the client still has to say is limited, so it need not be held back any more.
    takes_all: bool,
}

impl Server {
    /// Waits for something to happen, takes it and whatever else is ready, writes what came of it.
    async fn step(&mut self) {
        let leaves = self.leaving.as_ref().and_then(Leaving::due);
        tokio::select! {
            biased;
            Some(input) = self.control.recv() => self.take(input),
            Some(input) = self.lines.recv(), if self.takes_lines() => self.take(input),
            Some(input) = self.work.recv() => self.take(input),
            () = self.caught_up.notified() => {}
            () = at(self.out.due()) => {}
            () = at(leaves) => {}
        }
        // Whatever else is ready goes into the same write, and whoever was just answered gets a
        // chance to say more: one large write is cheaper than several small ones, for us and for
        // the client.
        for _ in 0..ROUNDS {
            self.take_ready();
            tokio::task::yield_now().await;
            if self.work.is_empty() && self.lines.is_empty() {
                break;
            }
        }
        self.answer_put_off();
        self.out.flush();
    }

    /// Takes what does not have to be waited for. Both sides get their share, so that neither a
    /// chatty client nor a fast model can silence the other.
    fn take_ready(&mut self) {
        for _ in 0..BATCH {
            if !self.takes_lines() {
                break;
            }
            let Ok(input) = self.lines.try_recv() else { break };
            self.take(input);
        }
        for _ in 0..BATCH {
            let Ok(input) = self.work.try_recv() else { break };
            self.take(input);
        }
    }

    fn takes_lines(&self) -> bool {
        self.takes_all || !self.out.is_flooded()
    }

    fn take(&mut self, input: Input) {
        self.happen(input);
        self.state.tell_stored_late();
        self.out.say(&mut self.state.said);
    }

    fn happen(&mut self, input: Input) {
        match input {
            Input::Lines(lines) => {
                for request in lines.into_iter().filter_map(Request::read) {
                    receive(&mut self.state, &mut self.out, request);
                }
            }
            Input::Event(event) => self.event(event),
            Input::Question(question) => self.question(question),
            Input::RunEnded(end) => self.run_ended(end),
            Input::RetryDue => self.state.retry_now(),
            Input::GaveUp => self.run_settled(),
            Input::ResumeDue => self.state.resume_now(),
            Input::Summarised(summarised) => {
                self.state.summarised(*summarised);
                self.out.say(&mut self.state.said);
                self.unpark();
            }
            Input::HostCall(call) => self.state.host_call(call),
            Input::TodoWrite(write) => self.state.todo_write(write),
            Input::TodoDue(due) => self.state.clear_todo(due),
            Input::Guest(wish) => {
                self.state.grant(*wish);
                self.out.say(&mut self.state.said);
                self.unpark();
                self.leave_if_wanted();
            }
            Input::BashEnded(ended) => {
                let level = self.out.writer().level();
                let (label, result) = self.state.bash_ended(*ended, level);
                self.out.answer(&label, result);
            }
            Input::Changed(changed) => self.changed(*changed),
            Input::Answered(label, result) => {
                self.state.slow_answers -= 1;
                self.out.answer(&label, result);
            }
            Input::Looked(looked) => self.looked(*looked),
            Input::LastLines => self.takes_all = true,
            Input::EndOfInput => self.end_of_input(),
            Input::OutputClosed => {
                // Nothing we could still say would be heard.
                self.state.stop();
                self.leave(1, Some(Duration::ZERO));
            }
            Input::Signal(signal) => {
                self.state.stop();
                self.leave(signal.exit_code(), Some(FAREWELL));
            }
        }
    }

    fn event(&mut self, event: Event) {
        self.state.note(&event);
        self.out.say(&mut self.state.said);
        let succeeded = self.state.is_success_after_retry(&event);
        self.out.event(event);
        if succeeded {
            self.state.end_retrying(true, None);
            self.out.say(&mut self.state.said);
        }
    }

    /// A run may not go on to its next request while the client is hopelessly behind; that, and
    /// not the model's stream, is where it waits.
    fn question(&mut self, question: Question) {
        if let Question::MessageEnded(message, asker) = question {
            return self.message_ended(message, asker);
        }
        if question.can_wait() && self.out.is_flooded() {
            self.unasked.push(question);
        } else {
            self.state.answer(question);
        }
    }

    /// A message of a run is complete. The client hears of it once it is stored, and not at all
    /// when it cannot be.
    fn message_ended(
        &mut self,
        message: Arc<Message>,
        asker: oneshot::Sender<Result<(), NotStored>>,
    ) {
        let stored = self.state.store(message.clone());
        match &stored {
            Ok(()) => self.event(Event::MessageEnd { message }),
            Err(_) => self.out.say(&mut self.state.said),
        }
        // A run that is gone no longer wants its answer.
        asker.send(stored).ok();
    }

    fn answer_put_off(&mut self) {
        if !self.unasked.is_empty() && !self.out.is_flooded() {
            for question in self.unasked.drain(..) {
                self.state.answer(question);
            }
        }
    }

    fn run_ended(&mut self, end: Result<End, String>) {
        self.state.run_ended(end);
        self.out.say(&mut self.state.said);
        self.unpark();
    }

    fn run_settled(&mut self) {
        self.state.before_settling();
        self.out.say(&mut self.state.said);
        self.unpark();
    }

    /// Takes up what waited for a session change.
    fn unpark(&mut self) {
        while !self.state.is_changing()
            && !self.state.here.is_awaited()
            && let Some(request) = self.state.parked.pop_front()
        {
            dispatch(&mut self.state, &mut self.out, request);
        }
    }

    fn looked(&mut self, looked: Looked) {
        self.state.looked(looked);
        self.out.say(&mut self.state.said);
        self.unpark();
    }

    fn changed(&mut self, changed: Changed) {
        self.state.changed(changed);
        self.state.go_on_if_quiet();
        self.out.say(&mut self.state.said);
        self.unpark();
    }

    fn end_of_input(&mut self) {
        match self.on_eof {
            OnEof::Abort => {
                self.state.stop();
                self.leave(0, Some(FAREWELL));
            }
            OnEof::Finish => {
                self.state.lose_host();
                self.leave(0, None);
            }
        }
    }

    /// An extension may end us in order, and one that must be there but is not does.
    fn leave_if_wanted(&mut self) {
        if let Some(code) = self.state.visitors.fatal {
            self.state.stop();
            self.leave(code, Some(FAREWELL));
            // A start that failed has failed, also for a client that has said all it had to say.
            if let Some(leaving) = self.leaving.as_mut().filter(|leaving| leaving.code == 0) {
                leaving.code = code;
            }
        } else if std::mem::take(&mut self.state.wants_to_leave) {
            self.leave(0, None).wished();
        }
    }

    /// The first reason to leave gives the exit code.
    fn leave(&mut self, code: u8, within: Option<Duration>) -> &mut Leaving {
        let leaving = self.leaving.get_or_insert_with(|| Leaving::new(code));
        if let Some(within) = within {
            leaving.within(within);
        }
        leaving
    }

    fn exit_code(&mut self) -> Option<u8> {
        let leaving = self.leaving.as_mut()?;
        if leaving.loses_patience(self.state.is_occupied()) {
            leaving.within(FAREWELL);
            self.state.stop();
            self.out.say(&mut self.state.said);
        }
        let is_idle = self.state.is_idle();
        let have_parted = (is_idle || leaving.is_parting()) && self.state.have_parted();
        (is_idle && have_parted || leaving.is_overdue()).then_some(leaving.code)
    }
}

/// Our own version; what a wire level pretends to be is only said by `--version`.
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
