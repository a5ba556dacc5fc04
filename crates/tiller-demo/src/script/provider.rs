//! Assigns answers to requests in order. The transcript harness can supply them line by line while
//! a request is waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tiller_agent::mutex;
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::parse::{Line, Parser};
use super::player::{FailedExpectations, PlayedAnswer, play};
use super::step::Step;
use super::{Script, ScriptError};

/// Plays a script, or the lines from its feeder.
pub struct ScriptProvider {
    desk: Arc<AnswerQueue>,
}

/// Matches requests and answers.
struct AnswerQueue {
    state: Mutex<ProviderState>,
    /// An answer was added, or the feeder was dropped.
    changed: Notify,
    errors: FailedExpectations,
}

struct ProviderState {
    waiting: VecDeque<Waiting>,
    /// A feeder may add more answers.
    fed: bool,
    /// The number of answers taken.
    taken: usize,
    /// The line where the last taken answer begins.
    last_line: usize,
    /// Stored only on request: each contains the whole conversation.
    requests: Option<Vec<Arc<Request>>>,
}

/// An answer that was not requested yet.
struct Waiting {
    line: usize,
    steps: WaitingSteps,
}

enum WaitingSteps {
    Known(Vec<Step>),
    Live(UnboundedReceiver<Step>),
}

impl ScriptProvider {
    pub fn new(script: Script) -> Arc<ScriptProvider> {
        ScriptProvider::with(script, false, None)
    }

    /// Also stores the requests, for [`requests`](ScriptProvider::requests).
    pub fn recording(script: Script) -> Arc<ScriptProvider> {
        ScriptProvider::with(script, false, Some(Vec::new()))
    }

    /// Answers come from the feeder, line by line, also while a request waits for them. Dropping
    /// the feeder ends the script.
    pub fn live() -> (Arc<ScriptProvider>, ScriptFeeder) {
        let empty = Script { name: "script".into(), answers: Vec::new() };
        let provider = ScriptProvider::with(empty, true, Some(Vec::new()));
        let desk = provider.desk.clone();
        (provider, ScriptFeeder { desk, parser: Parser::default(), current: None })
    }

    fn with(script: Script, fed: bool, requests: Option<Vec<Arc<Request>>>) -> Arc<ScriptProvider> {
        let waiting = script
            .answers
            .into_iter()
            .map(|answer| Waiting { line: answer.line, steps: WaitingSteps::Known(answer.steps) });
        let state =
            ProviderState { waiting: waiting.collect(), fed, taken: 0, last_line: 0, requests };
        let desk = AnswerQueue {
            state: Mutex::new(state),
            changed: Notify::new(),
            errors: FailedExpectations::new(&script.name),
        };
        Arc::new(ScriptProvider { desk: Arc::new(desk) })
    }

    /// Every request so far, if this provider stores them.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.desk.state().requests.clone().unwrap_or_default()
    }

    /// The first lines of answers that were not requested.
    pub fn unused(&self) -> Vec<usize> {
        self.desk.state().waiting.iter().map(|answer| answer.line).collect()
    }

    /// Failed expectations and missing answers.
    pub fn errors(&self) -> Vec<String> {
        self.desk.errors.list()
    }
}

impl Provider for ScriptProvider {
    fn stream(&self, request: Request) -> EventStream {
        let desk = self.desk.clone();
        play(async move { desk.claim(Arc::new(request)).await })
    }
}

impl AnswerQueue {
    async fn claim(&self, request: Arc<Request>) -> Result<PlayedAnswer, ProviderError> {
        if let Some(requests) = &mut self.state().requests {
            requests.push(request.clone());
        }
        loop {
            // Created before the queue is checked, so that no notification is missed.
            let changed = self.changed.notified();
            if let Some(answer) = self.take(&request)? {
                return Ok(answer);
            }
            changed.await;
        }
    }

    /// The next answer, or `None` while one may still come.
    fn take(&self, request: &Arc<Request>) -> Result<Option<PlayedAnswer>, ProviderError> {
        let mut state = self.state();
        let errors = self.errors.clone();
        let Some(answer) = state.waiting.pop_front() else {
            if state.fed {
                return Ok(None);
            }
            let error = exhausted(state.taken, state.last_line);
            return Err(errors.report(&error));
        };
        state.taken += 1;
        state.last_line = answer.line;
        Ok(Some(match answer.steps {
            WaitingSteps::Known(steps) => PlayedAnswer::known(steps, request.clone(), errors),
            WaitingSteps::Live(steps) => PlayedAnswer::live(steps, request.clone(), errors),
        }))
    }

    fn state(&self) -> MutexGuard<'_, ProviderState> {
        mutex::lock(&self.state)
    }
}

fn exhausted(taken: usize, last_line: usize) -> String {
    let asked = taken + 1;
    let head = format!("script exhausted: the model was asked for answer {asked}, the script has");
    match taken {
        0 => format!("{head} none"),
        _ => format!("{head} {taken}; the last begins at line {last_line}"),
    }
}

/// Feeds a live script line by line.
pub struct ScriptFeeder {
    desk: Arc<AnswerQueue>,
    parser: Parser,
    /// The answer that continues with the next line.
    current: Option<UnboundedSender<Step>>,
}

impl ScriptFeeder {
    /// Parses one line. It is a whole answer, unless it ends with ` \`: then the answer continues
    /// with the next line, and its first part is played meanwhile. If the request was dropped in
    /// the middle of its answer, the next line begins the next answer.
    pub fn feed(&mut self, line: &str) -> Result<(), ScriptError> {
        // The request was dropped, so the rest of its answer is discarded.
        if self.current.as_ref().is_some_and(UnboundedSender::is_closed) {
            self.current = None;
            self.parser.finish_answer();
            self.parser.take_steps();
        }
        let Line::Steps { more } = self.parser.read(line)? else {
            return Ok(());
        };
        if !more {
            self.parser.finish_answer();
        }
        let sender = match self.current.take() {
            Some(sender) => sender,
            None => self.begin_answer(),
        };
        for step in self.parser.take_steps() {
            if sender.send(step).is_err() {
                break;
            }
        }
        self.current = more.then_some(sender);
        Ok(())
    }

    fn begin_answer(&mut self) -> UnboundedSender<Step> {
        let (sender, steps) = mpsc::unbounded_channel();
        let steps = WaitingSteps::Live(steps);
        self.desk.state().waiting.push_back(Waiting { line: self.parser.line(), steps });
        self.desk.changed.notify_waiters();
        sender
    }
}

impl Drop for ScriptFeeder {
    fn drop(&mut self) {
        self.desk.state().fed = false;
        self.desk.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
