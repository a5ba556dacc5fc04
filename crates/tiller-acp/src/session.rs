//! One session of the client: what it is doing, and what waits.

mod prompts;
mod responses;

use std::collections::VecDeque;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CloseSessionResponse, Error, ErrorCode, LoadSessionResponse, NewSessionResponse,
    PromptResponse, RequestId, ResumeSessionResponse, SessionConfigOption,
    SessionConfigOptionValue, SessionId, SessionUpdate, StopReason,
};
use serde_json::Value;
use tiller_protocol::data::StateData;
use tiller_protocol::{
    Command, DialogKind, ListRange, Message, OpenedData, Record, ServerCommand, SessionTarget,
    UiRequest,
};

use crate::config_options::ConfigOptions;
use crate::initialize::ClientOffer;
use crate::json_rpc::{error, invalid_request};
use crate::link::{Expected, Link};
use crate::opening::{OpenKind, OpenRequest, authenticated, no_key};
use crate::prompting::{LastAnswer, Prompting, QueuedPrompt, outcome};
use crate::questions::{Asked, Questions};
use crate::updates::{self, Updates};

pub(crate) use responses::{Awaited, StateReason};

/// A session of the client.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    /// The name of the open session in commands and records.
    handle: Arc<str>,
    offer: ClientOffer,
    step: Step,
    queue: VecDeque<QueuedPrompt>,
    options: ConfigOptions,
    updates: Updates,
    questions: Questions,
    /// Updates that wait until the client knows the session.
    held: Vec<SessionUpdate>,
    name: Option<String>,
    /// Whether the client has a title for it.
    has_title: bool,
    /// What the client knows of the usage.
    usage: Option<SessionUpdate>,
    /// The options that the client shows.
    shown_options: Vec<SessionConfigOption>,
    /// How many options are being set: the answers show them.
    options_in_change: usize,
}

/// What a session is doing.
#[derive(Debug)]
enum Step {
    /// The request that opens it is not answered.
    Opening(OpenRequest),
    Idle,
    Prompting(Prompting),
    Closing(Closing),
}

/// The requests that are answered when a session has ended.
#[derive(Debug, Default)]
struct Closing {
    /// `session/close`. None: the session ends because the request that has opened it was refused.
    request: Option<RequestId>,
    /// The prompt that was cancelled by it.
    prompt: Option<RequestId>,
}

impl Session {
    /// A session that the server has opened.
    pub(crate) fn opened(
        open: OpenRequest,
        data: &OpenedData<'_>,
        state: &StateData<'_>,
        offer: ClientOffer,
        link: &mut Link,
    ) -> Session {
        let mut session = Session {
            id: SessionId::new(&*state.session_id),
            handle: data.session_id.as_ref().into(),
            offer,
            updates: Updates::new(&open.cwd, offer),
            step: Step::Idle,
            queue: VecDeque::new(),
            options: ConfigOptions::new(state),
            questions: Questions::default(),
            held: Vec::new(),
            name: state.session_name.as_deref().map(str::to_owned),
            has_title: state.session_name.is_some() || state.message_count > 0,
            usage: None,
            shown_options: Vec::new(),
            options_in_change: 0,
        };
        session.begin_opening(open, link);
        session
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn handle(&self) -> &Arc<str> {
        &self.handle
    }

    /// Whether the client may name it in requests.
    pub(crate) fn is_known(&self) -> bool {
        match &self.step {
            Step::Opening(open) => open.stored_session().is_some(),
            Step::Idle | Step::Prompting(_) => true,
            Step::Closing(_) => false,
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.step, Step::Closing(_))
    }

    /// `session/load` or `session/resume` of a session that is open already.
    pub(crate) fn open_again(&mut self, mut open: OpenRequest, link: &mut Link) {
        open.is_open_already = true;
        if !matches!(self.step, Step::Idle) {
            let why =
                format!("the session {} is working; wait for it, or cancel it first", self.id);
            return link.refuse(&open.request, &invalid_request(why));
        }
        self.begin_opening(open, link);
    }

    fn begin_opening(&mut self, mut open: OpenRequest, link: &mut Link) {
        let servers = open.mcp_servers.take();
        self.step = Step::Opening(open);
        match servers {
            Some(servers) => {
                self.command(&Command::SetMcpServers(servers), Awaited::McpServers, link);
            }
            None => self.ask_for_models(link),
        }
    }

    fn ask_for_models(&self, link: &mut Link) {
        self.command(&Command::GetAvailableModels(ListRange::ALL), Awaited::Models, link);
    }

    fn command(&self, command: &Command, awaited: Awaited, link: &mut Link) -> u64 {
        let expected = Expected::OfSession(self.handle.clone(), awaited);
        link.command(Some(&self.handle), command, expected)
    }

    /// Writes an update, or holds it until the client knows the session.
    fn update(&mut self, update: SessionUpdate, link: &mut Link) {
        match &self.step {
            Step::Opening(open) if open.stored_session().is_none() => self.held.push(update),
            Step::Closing(Closing { request: None, .. }) => {}
            _ => link.update(&self.id, update),
        }
    }

    /// Answers the request that has opened the session.
    fn finish_opening(&mut self, link: &mut Link) {
        let Step::Opening(open) = &self.step else { return };
        if open.is_cancelled {
            return self.give_up(error(ErrorCode::RequestCancelled, "cancelled"), link);
        }
        let request = open.request.clone();
        self.shown_options = self.options.options();
        let options = Some(self.shown_options.clone()).filter(|options| !options.is_empty());
        match &open.kind {
            OpenKind::New | OpenKind::Authenticate if self.options.has_no_model() => {
                return self.give_up(no_key(), link);
            }
            OpenKind::New => {
                let answer = NewSessionResponse::new(self.id.clone()).config_options(options);
                link.answer(&request, &answer);
            }
            OpenKind::Load(_) => {
                link.answer(&request, &LoadSessionResponse::new().config_options(options));
            }
            OpenKind::Resume(_) => {
                link.answer(&request, &ResumeSessionResponse::new().config_options(options));
            }
            OpenKind::Authenticate => {
                link.answer(&request, &authenticated());
                self.step = Step::Closing(Closing::default());
                return self.send_close(link);
            }
        }
        self.step = Step::Idle;
        for update in std::mem::take(&mut self.held) {
            link.update(&self.id, update);
        }
        if let Some(name) = self.name.take() {
            link.update(&self.id, updates::session_info(Some(&name)));
        }
        self.command(&Command::GetCommands, Awaited::Commands, link);
        self.command(&Command::GetSessionStats, Awaited::Usage, link);
        self.start_next(link);
    }

    /// Refuses the request that opens the session, and closes it unless it was open before.
    fn give_up(&mut self, why: Error, link: &mut Link) {
        let Step::Opening(open) = &self.step else { return };
        link.refuse(&open.request, &why);
        if open.is_open_already {
            self.step = Step::Idle;
            return self.start_next(link);
        }
        self.step = Step::Closing(Closing::default());
        self.refuse_queued(&why, link);
        self.send_close(link);
    }

    fn send_close(&self, link: &mut Link) {
        let close = SessionTarget { session_id: self.handle.to_string() };
        let expected = Expected::OfSession(self.handle.clone(), Awaited::Closed);
        link.command(None, &ServerCommand::CloseSession(close), expected);
    }

    /// `$/cancel_request`. False: it is not about a request of this session.
    pub(crate) fn cancel_request(&mut self, id: &RequestId, link: &mut Link) -> bool {
        if let Some(at) = self.queue.iter().position(|queued| queued.request == *id) {
            self.queue.remove(at);
            link.answer(id, &PromptResponse::new(StopReason::Cancelled));
            return true;
        }
        match &mut self.step {
            Step::Prompting(prompting) if prompting.request == *id => self.abort_prompt(link),
            Step::Opening(open) if open.request == *id => open.is_cancelled = true,
            _ => return false,
        }
        true
    }

    /// `session/set_config_option`.
    pub(crate) fn set_option(
        &mut self,
        request: RequestId,
        id: &str,
        value: &SessionConfigOptionValue,
        link: &mut Link,
    ) {
        match self.options.command(id, value) {
            Ok(command) => {
                self.options_in_change += 1;
                self.command(&command, Awaited::OptionSet(request), link);
            }
            Err(why) => link.refuse(&request, &why),
        }
    }

    /// `session/close`: prompts are answered as cancelled.
    pub(crate) fn close(&mut self, request: RequestId, link: &mut Link) {
        if matches!(self.step, Step::Opening(_)) {
            let why = format!("the session {} is being opened", self.id);
            return link.refuse(&request, &invalid_request(why));
        }
        self.cancel(link);
        let prompt = match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Prompting(prompting) => Some(prompting.request),
            _ => None,
        };
        self.step = Step::Closing(Closing { request: Some(request), prompt });
        self.send_close(link);
    }

    pub(crate) fn answered(
        &mut self,
        question: i64,
        result: Result<Value, Error>,
        link: &mut Link,
    ) {
        self.questions.answered(question, result, &self.handle, link);
    }

    pub(crate) fn dialog_closed(&mut self, dialog: &str, link: &mut Link) {
        self.questions.closed(dialog, link);
    }

    /// A record of the session. `call`: the tool call that a dialog names.
    pub(crate) fn record(&mut self, record: &Record<'_>, call: Option<&str>, link: &mut Link) {
        let in_prompt = matches!(self.step, Step::Prompting(_));
        for update in self.updates.of(record, in_prompt) {
            self.update(update, link);
        }
        match record {
            Record::SessionInfoChanged { .. } => self.has_title = true,
            Record::MessageEnd { message: Message::Assistant(answer) } => {
                if let Step::Prompting(prompting) = &mut self.step {
                    prompting.last_answer = Some(LastAnswer::new(answer));
                }
            }
            Record::TurnEnd { .. } | Record::CompactionEnd { .. } => {
                self.command(&Command::GetSessionStats, Awaited::Usage, link);
            }
            Record::PromptResult { id, status, reason, error, .. } => {
                let id = id.as_ref().and_then(|id| id.read::<String>().ok());
                let Step::Prompting(prompting) = &mut self.step else { return };
                if id.and_then(|id| id.parse().ok()) != Some(prompting.command) {
                    return;
                }
                let last = prompting.last_answer;
                prompting.outcome = Some(outcome(*status, *reason, last, error.as_deref()));
                let awaited = Awaited::State(StateReason::EndOfPrompt);
                self.command(&Command::GetState, awaited, link);
            }
            Record::ExtensionUiRequest { id, request } => {
                if let UiRequest::Dialog(dialog) = &**request {
                    self.ask(id, &dialog.kind, call, link);
                }
            }
            // While an option is set or the session opens, the answer says it.
            Record::ThinkingLevelChanged { .. }
                if self.options_in_change == 0 && !matches!(self.step, Step::Opening(_)) =>
            {
                self.command(&Command::GetState, Awaited::State(StateReason::Change), link);
            }
            _ => {}
        }
    }

    fn ask(&mut self, dialog: &str, kind: &DialogKind, call: Option<&str>, link: &mut Link) {
        let is_cancelled = match &self.step {
            Step::Prompting(prompting) => prompting.is_cancelled,
            // A client that does not know the session cannot be asked about it.
            Step::Opening(open) => open.stored_session().is_none(),
            Step::Closing(_) => true,
            Step::Idle => false,
        };
        let open_call = self.updates.open_call();
        let asked = Asked { dialog, kind, call: call.or(open_call) };
        if is_cancelled {
            return self.questions.refuse(&asked, &self.handle, link);
        }
        self.questions.ask(&asked, &self.id, &self.handle, self.offer, link);
    }

    /// The session has ended. Every open request of it is answered.
    pub(crate) fn ended(&mut self, why: &Error, link: &mut Link) {
        self.questions.drop_all(link);
        match std::mem::replace(&mut self.step, Step::Closing(Closing::default())) {
            Step::Opening(open) => link.refuse(&open.request, why),
            Step::Prompting(prompting) if prompting.has_ended() => {
                prompting.answer_request(link);
            }
            Step::Prompting(prompting) => link.refuse(&prompting.request, why),
            Step::Closing(Closing { request, prompt }) => {
                if let Some(prompt) = prompt {
                    link.answer(&prompt, &PromptResponse::new(StopReason::Cancelled));
                }
                if let Some(request) = request {
                    link.answer(&request, &CloseSessionResponse::new());
                }
            }
            Step::Idle => {}
        }
        self.refuse_queued(why, link);
    }

    fn refuse_queued(&mut self, why: &Error, link: &mut Link) {
        for QueuedPrompt { request, .. } in std::mem::take(&mut self.queue) {
            link.refuse(&request, why);
        }
    }
}
