//! One session of the client: what it is doing, and what waits.

use std::collections::VecDeque;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CloseSessionResponse, ConfigOptionUpdate, Error, ErrorCode, LoadSessionResponse,
    NewSessionResponse, PromptResponse, RequestId, ResumeSessionResponse, SessionConfigOptionValue,
    SessionId, SessionUpdate, SetSessionConfigOptionResponse, StopReason,
};
use serde::Deserialize;
use serde_json::Value;
use tiller_protocol::data::{
    CommandsData, EntriesData, IntegrationsData, ModelConnectionState, ModelsData, StateData,
    StatsData, ThinkingLevelsData,
};
use tiller_protocol::{
    Command, DialogKind, GetEntries, ListRange, Message, OpenedData, Prompt, Record, Response,
    ServerCommand, SessionTarget, UiRequest, WhenBusy,
};

use crate::config_options::ConfigOptions;
use crate::initialize::ClientOffer;
use crate::json_rpc::{error, internal, invalid_request};
use crate::link::{Expected, Link};
use crate::mcp_servers::SetMcpServers;
use crate::opening::{OpenKind, OpenRequest, authenticated, no_key};
use crate::prompt_content::PromptContent;
use crate::prompting::{LastAnswer, Prompting, QueuedPrompt, outcome};
use crate::questions::{Asked, Questions};
use crate::replay::replay;
use crate::updates::{self, Updates};

/// How many bytes of prompts may wait in a session.
const QUEUE_MAX_BYTES: usize = 64 << 20;
/// How many prompts may wait.
const QUEUE_MAX: usize = 1_000;
/// The client's own name of a prompt, by which its message is known to be the client's.
const OWN_MESSAGE: &str = "acp";

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

/// What the response to a command of a session is waited for.
#[derive(Clone, Debug)]
pub(crate) enum Awaited {
    McpServers,
    Models,
    Levels,
    Entries,
    Commands,
    /// The usage after the session was opened, after a turn, or after a change of the model.
    Usage,
    /// The usage at the end of a prompt, before its answer.
    LastUsage,
    Prompt,
    /// Whether a prompt was refused for lack of a key.
    KeyCheck {
        why: String,
    },
    /// An option was set for this request.
    OptionSet(RequestId),
    /// The options after a change: for this request, or without one.
    State(Option<RequestId>),
    LevelsAfter(Option<RequestId>),
    Closed,
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
            Some(servers) => self.set_mcp_servers(&servers, link),
            None => self.ask_for_models(link),
        }
    }

    fn ask_for_models(&self, link: &mut Link) {
        self.command(&Command::GetAvailableModels(ListRange::ALL), Awaited::Models, link);
    }

    fn set_mcp_servers(&self, servers: &SetMcpServers, link: &mut Link) {
        let expected = Expected::OfSession(self.handle.clone(), Awaited::McpServers);
        link.command(Some(&self.handle), servers, expected);
    }

    fn command(&self, command: &Command, awaited: Awaited, link: &mut Link) -> u64 {
        let expected = Expected::OfSession(self.handle.clone(), awaited);
        link.command(Some(&self.handle), command, expected)
    }

    /// The response to one of the session's commands.
    pub(crate) fn response(&mut self, awaited: Awaited, response: &Response<'_>, link: &mut Link) {
        match awaited {
            Awaited::McpServers => match &response.error {
                Some(why) => {
                    let why = format!("the session cannot use these MCP servers: {why}");
                    self.give_up(internal(why), link);
                }
                None => self.ask_for_models(link),
            },
            Awaited::Models => {
                if let Ok(data) = response.read::<ModelsData<'static>>() {
                    self.options.set_models(data.models.iter().map(|model| &**model));
                }
                self.command(&Command::GetAvailableThinkingLevels, Awaited::Levels, link);
            }
            Awaited::Levels => {
                self.take_levels(response);
                match &self.step {
                    Step::Opening(open) if matches!(open.kind, OpenKind::Load(_)) => {
                        self.command(&Command::GetEntries(GetEntries::ALL), Awaited::Entries, link);
                    }
                    _ => self.finish_opening(link),
                }
            }
            Awaited::Entries => match response.read::<EntriesData<'static>>() {
                Ok(entries) => {
                    for update in replay(&entries, &mut self.updates) {
                        link.update(&self.id, update);
                    }
                    self.finish_opening(link);
                }
                Err(why) => self.give_up(internal(why), link),
            },
            Awaited::Commands => {
                if let Ok(data) = response.read::<CommandsData>() {
                    self.update(updates::commands(&data), link);
                }
            }
            Awaited::Usage => self.show_usage(response, link),
            Awaited::LastUsage => {
                self.show_usage(response, link);
                self.answer_prompt(link);
            }
            Awaited::Prompt => {
                if let Some(why) = &response.error {
                    let why = why.clone().into_owned();
                    self.command(&Command::GetIntegrations, Awaited::KeyCheck { why }, link);
                }
            }
            Awaited::KeyCheck { why } => self.refuse_prompt(why, response, link),
            Awaited::OptionSet(request) => match &response.error {
                Some(why) => {
                    self.options_in_change -= 1;
                    link.refuse(&request, &internal(why.clone()));
                }
                None => {
                    self.command(&Command::GetState, Awaited::State(Some(request)), link);
                }
            },
            Awaited::State(request) => {
                if let Ok(state) = response.read::<StateData<'static>>() {
                    self.options.set_state(&state);
                }
                let awaited = Awaited::LevelsAfter(request);
                self.command(&Command::GetAvailableThinkingLevels, awaited, link);
            }
            Awaited::LevelsAfter(request) => {
                self.take_levels(response);
                let options = self.options.options();
                match request {
                    Some(request) => {
                        self.options_in_change -= 1;
                        link.answer(&request, &SetSessionConfigOptionResponse::new(options));
                    }
                    None => self.show_options(link),
                }
                self.command(&Command::GetSessionStats, Awaited::Usage, link);
            }
            // The session's end follows as a record, or has been told.
            Awaited::Closed => {}
        }
    }

    fn take_levels(&mut self, response: &Response<'_>) {
        if let Ok(data) = response.read::<ThinkingLevelsData>() {
            self.options.set_levels(data.levels);
        }
    }

    fn show_usage(&mut self, response: &Response<'_>, link: &mut Link) {
        let stats = response.read::<StatsData<'static>>().ok();
        let usage = stats.as_ref().and_then(updates::usage);
        if let Some(update) = usage.filter(|usage| Some(usage) != self.usage.as_ref()) {
            self.usage = Some(update.clone());
            self.update(update, link);
        }
    }

    fn show_options(&mut self, link: &mut Link) {
        if self.options_in_change > 0 {
            return;
        }
        let update = ConfigOptionUpdate::new(self.options.options());
        self.update(SessionUpdate::ConfigOptionUpdate(update), link);
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
        let options = Some(self.options.options()).filter(|options| !options.is_empty());
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
        self.refuse_queued(link);
        self.send_close(link);
    }

    fn send_close(&self, link: &mut Link) {
        let close = SessionTarget { session_id: self.handle.to_string() };
        let expected = Expected::OfSession(self.handle.clone(), Awaited::Closed);
        link.command(None, &ServerCommand::CloseSession(close), expected);
    }

    /// `session/prompt`. It waits while another prompt runs.
    pub(crate) fn prompt(&mut self, request: RequestId, content: PromptContent, link: &mut Link) {
        let waiting: usize = self.queue.iter().map(|queued| queued.content.bytes()).sum();
        if self.queue.len() >= QUEUE_MAX || waiting + content.bytes() > QUEUE_MAX_BYTES {
            let why = "too many prompts wait for this session; send this one again when some are \
                       answered";
            return link.refuse(&request, &internal(why));
        }
        self.queue.push_back(QueuedPrompt { request, content });
        if matches!(self.step, Step::Idle) {
            self.start_next(link);
        }
    }

    fn start_next(&mut self, link: &mut Link) {
        let Some(QueuedPrompt { request, content }) = self.queue.pop_front() else { return };
        self.show_title(&content.text, link);
        let prompt = Command::Prompt(Prompt {
            message: content.text,
            images: content.images,
            // An extension may have started a run.
            when_busy: WhenBusy::FollowUp,
            client_message_id: Some(OWN_MESSAGE.to_owned()),
        });
        let command = self.command(&prompt, Awaited::Prompt, link);
        self.step = Step::Prompting(Prompting::new(request, command));
    }

    /// A session without a name has the beginning of its first message for a title.
    fn show_title(&mut self, message: &str, link: &mut Link) {
        let title = updates::title_of(message).filter(|_| !message.starts_with('/'));
        if let Some(title) = title.filter(|_| !self.has_title) {
            self.has_title = true;
            self.update(updates::session_info(Some(&title)), link);
        }
    }

    /// A prompt was refused. Without a key, the client may offer to authenticate.
    fn refuse_prompt(&mut self, why: String, response: &Response<'_>, link: &mut Link) {
        let Step::Prompting(prompting) = &self.step else { return };
        let connection = response.read::<IntegrationsData<'static>>().ok();
        let state = connection.map(|data| data.model.state);
        let lacks_key = state.is_some_and(|state| state != ModelConnectionState::Connected);
        let request = prompting.request.clone();
        if prompting.is_cancelled {
            link.answer(&request, &PromptResponse::new(StopReason::Cancelled));
        } else if lacks_key {
            link.refuse(&request, &error(ErrorCode::AuthRequired, why));
        } else {
            link.refuse(&request, &internal(why));
        }
        self.step = Step::Idle;
        self.start_next(link);
    }

    /// The prompt has its outcome, and the client has all of its updates.
    fn answer_prompt(&mut self, link: &mut Link) {
        let Step::Prompting(prompting) = &self.step else { return };
        prompting.answer_request(link);
        self.step = Step::Idle;
        self.start_next(link);
    }

    /// `session/cancel`: the prompt that runs and all that wait are answered as cancelled.
    pub(crate) fn cancel(&mut self, link: &mut Link) {
        for QueuedPrompt { request, .. } in std::mem::take(&mut self.queue) {
            link.answer(&request, &PromptResponse::new(StopReason::Cancelled));
        }
        self.abort_prompt(link);
    }

    fn abort_prompt(&mut self, link: &mut Link) {
        let Step::Prompting(prompting) = &mut self.step else { return };
        if std::mem::replace(&mut prompting.is_cancelled, true) {
            return;
        }
        self.questions.cancel(&self.handle, link);
        // If an extension's run was in the way, the prompt is still in the queue.
        link.command(Some(&self.handle), &Command::ClearQueue, Expected::Ignored);
        link.command(Some(&self.handle), &Command::Abort, Expected::Ignored);
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

    /// Whether the question is one of this session.
    pub(crate) fn has_asked(&self, question: i64) -> bool {
        self.questions.contains(question)
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
                self.command(&Command::GetSessionStats, Awaited::LastUsage, link);
            }
            Record::ExtensionUiRequest { id, request } => {
                if let UiRequest::Dialog(dialog) = &**request {
                    self.ask(id, &dialog.kind, call, link);
                }
            }
            Record::ThinkingLevelChanged { level, .. } => {
                if !matches!(self.step, Step::Opening(_)) && self.options.level_changed(*level) {
                    self.show_options(link);
                }
            }
            Record::EntryAppended { entry } => {
                #[derive(Deserialize)]
                struct Kind {
                    r#type: String,
                }
                let is_model = entry.read::<Kind>().is_ok_and(|kind| kind.r#type == "model_change");
                let is_own = self.options_in_change > 0 || matches!(self.step, Step::Opening(_));
                if is_model && !is_own {
                    self.command(&Command::GetState, Awaited::State(None), link);
                }
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
    pub(crate) fn ended(&mut self, why: &str, link: &mut Link) {
        self.questions.drop_all(link);
        let why = internal(format!("the session {} has ended: {why}", self.id));
        match std::mem::replace(&mut self.step, Step::Closing(Closing::default())) {
            Step::Opening(open) => link.refuse(&open.request, &why),
            Step::Prompting(prompting) if prompting.has_ended() => {
                prompting.answer_request(link);
            }
            Step::Prompting(prompting) => link.refuse(&prompting.request, &why),
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
        self.refuse_queued(link);
    }

    fn refuse_queued(&mut self, link: &mut Link) {
        for QueuedPrompt { request, .. } in std::mem::take(&mut self.queue) {
            link.refuse(&request, &internal(format!("the session {} has ended", self.id)));
        }
    }
}
