//! Plays the steps of one answer as a provider's stream.
//!
//! Events are created on demand, so a script may have an answer of a million deltas, and a dropped
//! stream leaves nothing behind.

use std::collections::VecDeque;
use std::future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::vec;

use futures_util::stream;
use tiller_agent::mutex;
use tiller_agent::provider::{EventStream, ProviderError, Request, StreamEvent};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::coop;
use tokio::time;

use super::step::Step;

/// The answer to one request.
pub(crate) struct PlayedAnswer {
    steps: Steps,
    request: Arc<Request>,
    errors: FailedExpectations,
}

enum Steps {
    Known(vec::IntoIter<Step>),
    /// Steps that arrive while the answer is played.
    Live(UnboundedReceiver<Step>),
}

impl PlayedAnswer {
    pub(crate) fn known(
        steps: Vec<Step>,
        request: Arc<Request>,
        errors: FailedExpectations,
    ) -> PlayedAnswer {
        PlayedAnswer { steps: Steps::Known(steps.into_iter()), request, errors }
    }

    pub(crate) fn live(
        steps: UnboundedReceiver<Step>,
        request: Arc<Request>,
        errors: FailedExpectations,
    ) -> PlayedAnswer {
        PlayedAnswer { steps: Steps::Live(steps), request, errors }
    }
}

/// Failed expectations. Each is also the error of its request; this list is for tests, which must
/// not miss one.
#[derive(Clone, Default)]
pub(crate) struct FailedExpectations {
    name: Arc<str>,
    list: Arc<Mutex<Vec<String>>>,
}

impl FailedExpectations {
    /// `name` is the prefix of each.
    pub(crate) fn new(name: &str) -> FailedExpectations {
        FailedExpectations { name: name.into(), list: Arc::default() }
    }

    pub(crate) fn report(&self, what: &str) -> ProviderError {
        let error = format!("{}: {what}", self.name);
        mutex::lock(&self.list).push(error.clone());
        ProviderError::fatal(error)
    }

    pub(crate) fn list(&self) -> Vec<String> {
        mutex::lock(&self.list).clone()
    }
}

/// Streams the answer that `claim` finds, starting with the first poll.
pub(crate) fn play(
    claim: impl Future<Output = Result<PlayedAnswer, ProviderError>> + Send + 'static,
) -> EventStream {
    let player = Player {
        state: PlayerState::Claiming(Box::pin(claim)),
        ready: VecDeque::new(),
        started: false,
    };
    Box::pin(stream::unfold(player, |mut player| async move {
        let item = player.next().await?;
        Some((item, player))
    }))
}

struct Player {
    state: PlayerState,
    /// Events ready to be returned.
    ready: VecDeque<StreamEvent>,
    started: bool,
}

enum PlayerState {
    Claiming(Pin<Box<dyn Future<Output = Result<PlayedAnswer, ProviderError>> + Send>>),
    Playing {
        answer: PlayedAnswer,
        /// A step that is played delta by delta.
        deltas: Option<Step>,
    },
    Over,
}

impl Player {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        // A long answer must not block other tasks on this thread.
        coop::consume_budget().await;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match &mut self.state {
                PlayerState::Claiming(claim) => match claim.await {
                    Ok(answer) => self.state = PlayerState::Playing { answer, deltas: None },
                    Err(error) => return Some(Err(self.end(error))),
                },
                PlayerState::Playing { answer, deltas } => {
                    if let Some(delta) = next_delta(deltas).await {
                        return Some(Ok(delta));
                    }
                    let step = match &mut answer.steps {
                        Steps::Known(steps) => steps.next(),
                        Steps::Live(steps) => steps.recv().await,
                    };
                    let Some(step) = step else {
                        self.state = PlayerState::Over;
                        return None;
                    };
                    if let Err(error) = self.take(step).await {
                        return Some(Err(self.end(error)));
                    }
                }
                PlayerState::Over => return None,
            }
        }
    }

    async fn take(&mut self, step: Step) -> Result<(), ProviderError> {
        let PlayerState::Playing { answer, deltas } = &mut self.state else {
            return Ok(());
        };
        match step {
            Step::Wait(time) => time::sleep(time).await,
            Step::Hang => future::pending().await,
            Step::Expect(expectation) => {
                expectation.check(&answer.request).map_err(|error| answer.errors.report(&error))?
            }
            Step::Fail(error) => return Err(error),
            Step::Deltas { .. } => *deltas = Some(step),
            Step::Event(event) => {
                // The first event of the answer starts it.
                if !self.started {
                    self.started = true;
                    if event != StreamEvent::Start {
                        self.ready.push_back(StreamEvent::Start);
                    }
                }
                self.ready.push_back(event);
            }
        }
        Ok(())
    }

    /// An error is the last item of a stream.
    fn end(&mut self, error: ProviderError) -> ProviderError {
        self.state = PlayerState::Over;
        error
    }
}

async fn next_delta(deltas: &mut Option<Step>) -> Option<StreamEvent> {
    let Some(Step::Deltas { index, kind, pieces, pace }) = deltas else {
        return None;
    };
    let Some(piece) = pieces.next() else {
        *deltas = None;
        return None;
    };
    if !pace.is_zero() {
        time::sleep(*pace).await;
    }
    Some(kind.delta(*index, piece))
}
