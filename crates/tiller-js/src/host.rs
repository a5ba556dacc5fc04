//! An engine's thread. It takes one message at a time; between messages it does what is due.
//!
//! Nothing outside ever waits for JavaScript that does not come to an end: a turn that keeps the
//! thread too long is interrupted, a call that never settles is failed here, since an interrupted
//! function of JavaScript never settles by itself, and an engine that had to be interrupted too
//! often is started anew.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::{Config, Permissions};
use crate::core::{Core, Task, Waiting};
use crate::engine::Engine;
use crate::operations::{Failed, Given};
use crate::thread::{Call, Message, RunSignal, Shared, Thrown, Trouble};
use crate::world::World;

/// What a thread is given.
pub(crate) struct Seat {
    pub config: Arc<Config>,
    pub world: Arc<dyn World>,
    pub permissions: Permissions,
    pub shared: Arc<Shared>,
    pub to: mpsc::Sender<Message>,
    pub from: mpsc::Receiver<Message>,
}

/// What an operation has to tell.
pub(crate) enum News {
    /// Something on the way.
    Event(Given),
    Done(Result<Given, Failed>),
}

/// What has to be told to an engine that is started anew.
#[derive(Default)]
struct Memory {
    /// The inputs of the calls that made it what it is, in their order.
    calls: Vec<(&'static str, String)>,
    /// The extensions without which some things must not be done.
    guards: Vec<String>,
}

/// Calls that change what an engine is, so that a new one must hear of them too.
const FORMATIVE: [&str; 3] = ["load", "bind", "flags"];

/// How many timers are looked at before the next message.
const TIMERS_AT_ONCE: usize = 64;

/// Runs until told to stop, or until nobody can tell.
pub(crate) fn run(seat: Seat) {
    let mut memory = Memory::default();
    let mut waiting = VecDeque::new();
    loop {
        let core = Rc::new(Core::new(
            seat.config.clone(),
            seat.world.clone(),
            seat.permissions,
            seat.shared.clone(),
            seat.to.clone(),
        ));
        let engine = match Engine::start(core.clone()) {
            Ok(engine) => engine,
            Err(thrown) => return refuse_all(&seat, &core, thrown),
        };
        let mut host = Host { core, engine, memory: &mut memory };
        host.restore();
        match host.serve(&seat.from, &mut waiting) {
            End::Stop => return,
            End::Restart => (),
        }
    }
}

enum End {
    Stop,
    Restart,
}

struct Host<'m> {
    core: Rc<Core>,
    engine: Engine,
    memory: &'m mut Memory,
}

impl Host<'_> {
    fn serve(&mut self, from: &mpsc::Receiver<Message>, early: &mut VecDeque<Message>) -> End {
        loop {
            let message = match early.pop_front() {
                Some(message) => Some(message),
                None => match self.wait(from) {
                    Ok(message) => message,
                    Err(()) => return End::Stop,
                },
            };
            match message {
                Some(Message::Stop) => return End::Stop,
                Some(message) => self.take(message),
                None => (),
            }
            self.fire_timers();
            self.fail_overdue();
            if self.core.strikes.get() >= self.core.config.limits.strikes {
                self.give_up_calls();
                return End::Restart;
            }
        }
    }

    /// The next message, or none when something else is due before.
    fn wait(&self, from: &mpsc::Receiver<Message>) -> Result<Option<Message>, ()> {
        let timer = self.core.timers.borrow_mut().next_due();
        let calls = self.core.calls.borrow();
        let deadline = calls.values().filter_map(|call| call.deadline).min();
        drop(calls);
        let due = match (timer, deadline) {
            (Some(timer), Some(deadline)) => timer.min(deadline),
            (Some(due), None) | (None, Some(due)) => due,
            (None, None) => return from.recv().map(Some).map_err(|_| ()),
        };
        let pause = due.saturating_duration_since(Instant::now());
        match from.recv_timeout(pause) {
            Ok(message) => Ok(Some(message)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Call(call) => self.call(call),
            Message::Emit { what, json } => {
                self.core.shared.backlog.fetch_sub(1, Ordering::Relaxed);
                let limit = self.core.config.limits.slice;
                self.turn(Task::default(), limit, what, |engine| engine.emit(&json));
            }
            Message::Abort { call } => {
                let limit = self.core.config.limits.slice;
                let task = Task { call, extension: 0 };
                self.turn(task, limit, "abort", |engine| engine.abort(call));
            }
            Message::Operation { id, news } => self.operation(id, news),
            Message::Run(signal) => {
                let limit = self.core.config.limits.slice;
                let word = match signal {
                    RunSignal::Began => "began",
                    RunSignal::Aborted => "aborted",
                    RunSignal::Ended => "ended",
                };
                self.turn(Task::default(), limit, "run", |engine| engine.run_signal(word));
            }
            Message::Stop => (),
        }
    }

    fn call(&mut self, call: Call) {
        let limits = &self.core.config.limits;
        let since = Instant::now();
        let (slice, limit) = match call.entry {
            "ask" | "emit_and_wait" | "prepare" => (limits.slice, Some(limits.hook)),
            "tool" | "bash" | "command" => (limits.long_slice, None),
            "stream" => (limits.slice, None),
            _ => (limits.long_slice, Some(limits.load)),
        };
        if FORMATIVE.contains(&call.entry) {
            self.memory.calls.push((call.entry, call.json.clone()));
        }
        let waiting = Waiting {
            entry: call.entry,
            what: call.what,
            reply: call.reply,
            progress: call.progress,
            since,
            deadline: limit.map(|limit| since + limit),
            limit: limit.unwrap_or_default(),
        };
        self.core.calls.borrow_mut().insert(call.id, waiting);
        let task = Task { call: call.id, extension: 0 };
        self.turn(task, slice, call.what, |engine| engine.call(call.id, call.entry, &call.json));
    }

    fn operation(&mut self, id: u64, news: News) {
        let is_last = matches!(news, News::Done(_));
        let task = match is_last {
            true => self.core.operations.borrow_mut().remove(&id).map(|operation| operation.task),
            false => self.core.operations.borrow().get(&id).map(|operation| operation.task),
        };
        // Nobody wants to hear about an operation that was cancelled.
        let Some(task) = task else { return };
        let limit = self.slice_of(task);
        self.turn(task, limit, "operation", |engine| engine.deliver(id, news));
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        for _ in 0..TIMERS_AT_ONCE {
            let Some((id, task)) = self.core.timers.borrow_mut().take_due(now) else { return };
            let limit = self.slice_of(task);
            self.turn(task, limit, "timer", |engine| engine.fire(id));
        }
    }

    fn slice_of(&self, task: Task) -> Duration {
        let limits = &self.core.config.limits;
        match self.core.calls.borrow().get(&task.call).map(|call| call.entry) {
            Some("tool" | "bash" | "command" | "load") => limits.long_slice,
            _ => limits.slice,
        }
    }

    /// One turn of JavaScript, with everything it sets going. A turn that lasts too long is a
    /// strike, and whoever it was for is told.
    fn turn(
        &mut self,
        task: Task,
        limit: Duration,
        what: &'static str,
        work: impl FnOnce(&Engine) -> Result<(), Thrown>,
    ) {
        // What a call set going is still about the same.
        let what = self.core.calls.borrow().get(&task.call).map_or(what, |call| call.what);
        let outcome = self.engine.turn(task, limit, work);
        let extension = self.core.task.get().extension;
        if outcome.interrupted {
            self.core.strike();
            let path = self.core.path(extension).unwrap_or_else(|| "<runtime>".into());
            let message = format!("stopped after {} ms of work without a pause", limit.as_millis());
            let thrown = Thrown { message, ..Thrown::default() };
            self.core.report(path, what.into(), thrown);
            if task.call != 0 {
                self.core.answer(task.call, Err(Trouble::TimedOut(limit)));
            }
            return;
        }
        // The runtime catches what extensions throw, so this is out of memory or our own mistake.
        match outcome.result {
            Ok(()) => (),
            Err(thrown) if task.call != 0 => {
                self.core.answer(task.call, Err(Trouble::Thrown(thrown)));
            }
            Err(thrown) => self.core.report("<runtime>".into(), what.into(), thrown),
        }
    }

    fn fail_overdue(&mut self) {
        let now = Instant::now();
        let limits = &self.core.config.limits;
        let mut overdue = Vec::new();
        for (id, call) in self.core.calls.borrow_mut().iter_mut() {
            let Some(deadline) = call.deadline.filter(|deadline| *deadline <= now) else {
                continue;
            };
            // Time in which it waits for somebody else is not its fault, within reason.
            if self.core.is_outside(*id) && now < call.since + limits.hook_max {
                call.deadline = Some((now + call.limit).min(call.since + limits.hook_max));
            } else {
                overdue.push((*id, deadline.saturating_duration_since(call.since)));
            }
        }
        for (id, lasted) in overdue {
            self.core.answer(id, Err(Trouble::TimedOut(lasted)));
            let limit = self.core.config.limits.slice;
            let task = Task { call: id, extension: 0 };
            self.turn(task, limit, "abort", |engine| engine.abort(id));
        }
    }

    /// The engine is about to go, and everything that waits for it knows by this.
    fn give_up_calls(&mut self) {
        self.memory.guards = self.core.guards();
        let calls: Vec<u64> = self.core.calls.borrow().keys().copied().collect();
        for call in calls {
            self.core.answer(call, Err(Trouble::Stopped));
        }
        let message =
            format!("the engine was started anew after {} interruptions", self.core.strikes.get());
        let thrown = Thrown { message, ..Thrown::default() };
        self.core.report("<runtime>".into(), "restart".into(), thrown);
    }

    /// Tells a new engine what the one before had been told.
    fn restore(&mut self) {
        if self.memory.calls.is_empty() {
            return;
        }
        let steps: Vec<Value> = self
            .memory
            .calls
            .iter()
            .map(|(entry, json)| {
                let input: Value = serde_json::from_str(json).unwrap_or_default();
                json!({ "entry": entry, "input": input })
            })
            .collect();
        let json = json!({ "steps": steps, "guards": self.memory.guards }).to_string();
        let limit = self.core.config.limits.long_slice;
        self.turn(Task::default(), limit, "restart", |engine| engine.call(0, "restore", &json));
    }
}

/// An engine that did not start answers every call with the reason.
fn refuse_all(seat: &Seat, core: &Core, thrown: Thrown) {
    core.report("<runtime>".into(), "start".into(), thrown.clone());
    while let Ok(message) = seat.from.recv() {
        match message {
            Message::Call(call) => {
                // Whoever has gone away meanwhile did not want it any more.
                call.reply.send(Err(Trouble::Thrown(thrown.clone()))).ok();
            }
            Message::Stop => return,
            _ => (),
        }
    }
}
