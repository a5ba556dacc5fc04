//! The state of a session: the conversation, the model, the queues, and the run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tiller_agent::driver::{End, NotStored, Queue, RequestSetup};
use tiller_agent::event::Event;
use tiller_agent::message::{AssistantMessage, Message, StopReason, Usage};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::run;
use tiller_js::event::ModelSource;
use tiller_session::{Body, Durability};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::client_bash::ClientBash;
use super::compaction::Compactions;
use super::deferred::Deferred;
use super::extensions::ExtensionState;
use super::extensions::boundary::outcome;
use super::host_tools::HostTools;
use super::modes::ClientModes;
use super::outbox::Outbox;
use super::parked::Parked;
use super::queues::Queues;
use super::resources::ProjectResources;
use super::retry::Retries;
use super::run_host::{RunHost, RunRequest};
use super::server::Input;
use super::stream_rules::RuleMatches;
use super::tasks::Tasks;
use super::todos::Todos;
use super::tool_set::ToolSetCache;
use super::wire::{Label, Reply};
use crate::clock::Clock;
use crate::conversation::Conversation;
use crate::launch::{ServerConfig, Workspace};
use crate::models::Models;
use crate::session_store::SessionStore;
use crate::settings::Settings;
use crate::startup_model::ModelArgs;
use tiller_agent::modes::InterruptMode;

pub(crate) struct SessionState {
    pub(crate) conversation: Conversation,
    pub(crate) session_store: SessionStore,
    pub(crate) durability: Durability,
    pub(crate) models: Models,
    pub(crate) model: Option<Arc<Model>>,
    /// The model flags of the command line.
    choice: ModelArgs,
    /// The model that was selected last in this process, by provider and id.
    pub(crate) chosen_model: Option<(String, String)>,
    /// The requested level; [`SessionState::thinking`] is what the model supports of it.
    pub(crate) requested_level: ThinkingLevel,
    /// The user's level for this model; cleared when the model changes.
    pub(crate) level_override: Option<ThinkingLevel>,
    pub(crate) queues: Queues,
    pub(crate) interrupt_mode: InterruptMode,
    pub(crate) modes: ClientModes,
    pub(crate) settings: Settings,
    pub(crate) workspace: Workspace,
    pub(crate) resources: ProjectResources,
    pub(crate) tool_set: ToolSetCache,
    pub(crate) host_tools: HostTools,
    pub(crate) todos: Todos,
    pub(crate) clock: Clock,
    pub(crate) diagnostics: Vec<String>,
    pub(crate) outbox: Outbox,
    /// Requests that wait for a session change, for extensions or for project files.
    pub(crate) held_requests: Parked,
    pub(crate) client_bash: ClientBash,
    pub(crate) retries: Retries,
    pub(crate) compactions: Compactions,
    pub(crate) extensions: ExtensionState,
    /// Whether `setTitle` of extensions is sent to the client.
    pub(crate) emit_titles: bool,
    /// An extension has called `ctx.shutdown()`.
    pub(super) shutdown_requested: bool,
    pub(crate) rule_matches: RuleMatches,
    /// An abort was requested since the last run started.
    pub(super) abort_requested: bool,
    /// A retry or a rule injection was cancelled, and the run is about to settle.
    pub(super) is_settling: bool,
    pub(super) run: Option<ActiveRun>,
    pub(super) deferred: VecDeque<Deferred>,
    /// The process is shutting down: new runs are cancelled at once.
    pub(super) is_shutting_down: bool,
    /// Another session, or another entry of this one, is being opened.
    pub(super) is_changing_session: bool,
    /// Cancels the task that prepares a tree navigation.
    pub(super) navigation_cancel: Option<CancellationToken>,
    /// Responses that tasks are still working on.
    pub(super) pending_responses: usize,
    pub(super) tasks: Tasks,
}

pub(super) struct ActiveRun {
    cancel: CancellationToken,
    /// The messages it has added.
    added: Vec<Arc<Message>>,
    /// A message has started and not ended.
    is_open: bool,
    /// A message could not be stored, so the run is about to end.
    pub(super) not_stored: Option<NotStored>,
}

impl SessionState {
    pub(crate) fn new(launch: ServerConfig, inputs: mpsc::Sender<Input>) -> SessionState {
        let ServerConfig {
            settings, models, model, thinking, workspace, clock, diagnostics, ..
        } = launch;
        let retries = Retries::new(settings.retry);
        let compactions = Compactions::new(settings.compaction.clone());
        SessionState {
            conversation: launch.conversation,
            session_store: launch.store,
            durability: settings.session.durability,
            models,
            model,
            choice: launch.choice,
            chosen_model: None,
            requested_level: thinking,
            level_override: None,
            queues: Queues::new(settings.steering_mode, settings.follow_up_mode),
            interrupt_mode: settings.interrupt_mode,
            modes: ClientModes::default(),
            settings,
            workspace,
            resources: ProjectResources::new(launch.project),
            tool_set: ToolSetCache::default(),
            host_tools: HostTools::default(),
            todos: Todos::new(launch.level),
            clock,
            diagnostics,
            outbox: Outbox::new(launch.level),
            held_requests: Parked::default(),
            client_bash: ClientBash::default(),
            retries,
            compactions,
            extensions: ExtensionState::default(),
            emit_titles: launch.shows_titles,
            shutdown_requested: false,
            rule_matches: RuleMatches::default(),
            abort_requested: false,
            is_settling: false,
            run: None,
            deferred: VecDeque::new(),
            is_shutting_down: false,
            is_changing_session: false,
            navigation_cancel: None,
            pending_responses: 0,
            tasks: Tasks::new(inputs),
        }
    }

    /// Busy from the acceptance of a prompt until `agent_settled`.
    pub(crate) fn is_busy(&self) -> bool {
        self.run.is_some()
            || self.retries.is_waiting()
            || self.rule_matches.is_pausing()
            || self.is_settling
            || self.compactions.is_automatic()
            || self.extensions.has_start_or_settle_hook()
    }

    /// Busy, or compacting or navigating on request.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_busy() || self.compactions.is_under_way() || self.navigation_cancel.is_some()
    }

    /// At work, or an `input` hook is pending.
    pub(crate) fn is_occupied(&self) -> bool {
        self.is_at_work() || self.extensions.has_input_hook()
    }

    /// A session change, or an `abort_and_prompt`, is pending or in progress.
    pub(crate) fn is_changing(&self) -> bool {
        self.is_changing_session
            || self.extensions.is_loading()
            || self.extensions.is_asked_to_change()
            || self.deferred.iter().any(|after| !matches!(after, Deferred::Answer(_)))
    }

    /// The client waits for something that will change the state: another session, a reload, an
    /// `abort_and_prompt`. A branch summary does not count: it takes too long to hold back
    /// `get_state`.
    pub(crate) fn owes_change(&self) -> bool {
        (self.is_changing_session && self.navigation_cancel.is_none())
            || self.resources.is_awaited()
            || self.extensions.is_asked_to_change()
            || self.extensions.owes_answer()
            || self.deferred.iter().any(|after| !matches!(after, Deferred::Answer(_)))
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.is_occupied()
            && self.deferred.is_empty()
            && self.held_requests.is_empty()
            && self.client_bash.is_idle()
            && !self.is_changing_session
            && !self.extensions.is_loading()
            && self.pending_responses == 0
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.forward_event(&event);
        self.outbox.event(event);
    }

    pub(super) fn respond(&mut self, label: Label, result: Result<Reply, String>) {
        self.outbox.respond(label, result);
    }

    /// Computes a response on another thread.
    pub(crate) fn respond_from_thread(
        &mut self,
        label: Label,
        work: impl FnOnce() -> Result<Reply, String> + Send + 'static,
    ) {
        self.pending_responses += 1;
        self.tasks.spawn_blocking(work, |result| {
            let crashed = |crash| Err(format!("internal error: {crash}"));
            Input::ResponseReady(label, result.unwrap_or_else(crashed))
        });
    }

    /// Appends an entry that is not a message.
    pub(crate) fn append_entry(&mut self, body: Body) -> Result<(), String> {
        let now = self.clock.now();
        self.conversation.record(body, now).map(|_| ()).map_err(|err| err.to_string())
    }

    /// Selects the model for a session without messages: the one that was selected last in this
    /// process, else the one that a start without a stored session selects, else the current one.
    pub(super) fn choose_for_new_session(&mut self) {
        let chosen = self.chosen_model.as_ref();
        let chosen = chosen.and_then(|(provider, id)| self.models.usable(provider, id));
        let chosen = match chosen {
            Some(model) => Some((model, None)),
            None => self.choice.for_new_session(&mut self.models, &self.settings),
        };
        let Some((model, thinking)) = chosen else { return };
        let name = |model: &Model| (model.provider.clone(), model.id.clone());
        if self.model.as_deref().map(name) == Some(name(&model)) {
            return;
        }
        self.level_override = thinking.or_else(|| self.models.thinking(&model));
        let previous = self.model.replace(model);
        self.emit_model_select(previous.as_deref(), ModelSource::Restore);
    }

    /// Appends the model and the thinking level to a new session.
    pub(super) fn record_choices(&mut self) {
        let level = self.thinking();
        let model = self.model.as_deref().map(model_change);
        for body in model.into_iter().chain([Body::ThinkingLevelChange { level }]) {
            if let Err(error) = self.append_entry(body) {
                self.emit(Event::SessionError { error });
            }
        }
    }

    /// Selects the model and the level that a stored session names, if they can be used.
    pub(super) fn restore_choices(&mut self) {
        let session = self.conversation.session();
        let model = session.model().ok().flatten();
        let model = model.and_then(|name| self.models.usable(&name.provider, &name.id));
        let level = session.thinking_level().ok().flatten();
        let previous = self.model.take();
        self.model = model.or(previous.clone());
        self.emit_model_select(previous.as_deref(), ModelSource::Restore);
        self.want_thinking(level.unwrap_or(self.requested_level));
    }

    /// The level in force: the requested level, as far as the model supports it.
    pub(crate) fn thinking(&self) -> ThinkingLevel {
        let level = self.level_override.unwrap_or(self.requested_level);
        self.model.as_ref().map_or(ThinkingLevel::Off, |model| model.clamp(level))
    }

    /// Sets the level for this model and later ones.
    pub(crate) fn want_thinking(&mut self, level: ThinkingLevel) {
        self.requested_level = level;
        self.level_override = None;
    }

    /// Changes the model or the level, and emits an event if the level in force has changed.
    pub(crate) fn change_thinking(&mut self, change: impl FnOnce(&mut SessionState)) {
        let before = self.thinking();
        change(self);
        let level = self.thinking();
        if level != before {
            if let Err(error) = self.append_entry(Body::ThinkingLevelChange { level }) {
                self.emit(Event::SessionError { error });
            }
            self.emit(Event::ThinkingLevelChanged { level });
            self.emit_level_select(before);
        }
    }

    pub(crate) fn start_run(&mut self, prompts: Vec<Message>) {
        let cancel = CancellationToken::new();
        self.abort_requested = self.is_shutting_down;
        if self.is_shutting_down {
            cancel.cancel();
        }
        self.append_ended_commands();
        // If this fails again, so does the first message of the run, which reports it.
        self.store_owed().ok();
        let resize = self.workspace.resize;
        let driver = RunHost {
            tasks: self.tasks.clone(),
            clock: self.clock,
            resize,
            host: self.extensions.host.clone(),
            cancel: cancel.clone(),
            turns: AtomicU64::new(0),
        };
        // Loaded when the prompt was accepted.
        let history = self.conversation.loaded().unwrap_or_default().to_vec();
        let token = cancel.clone();
        let running = async move {
            let mut presentable = Vec::with_capacity(prompts.len());
            for message in prompts {
                presentable.push(driver.presentable(Arc::new(message)).await);
            }
            run::run(&driver, history, presentable, token).await
        };
        self.tasks.spawn_catching(running, Input::RunEnded);
        self.run = Some(ActiveRun { cancel, added: Vec::new(), is_open: false, not_stored: None });
    }

    /// Cancels the run and everything that would lead to one.
    pub(crate) fn abort(&mut self) {
        self.abort_requested |= self.is_busy();
        self.give_up_retrying();
        self.cancel_injection();
        self.compactions.cancel();
        if let Some(leaving) = &self.navigation_cancel {
            leaving.cancel();
        }
        self.extensions.cancel_hooks();
        if let Some(host) = self.extensions.host.as_ref().filter(|_| self.run.is_some()) {
            host.run_aborted();
        }
        if let Some(run) = &self.run {
            run.cancel.cancel();
        }
    }

    /// Aborts; runs that start later are cancelled at once.
    pub(crate) fn stop(&mut self) {
        self.is_shutting_down = true;
        self.client_left();
        self.abort();
        self.client_bash.abort_all();
    }

    /// Queues a message and emits the update.
    pub(crate) fn enqueue(&mut self, queue: Queue, message: Message) {
        let is_users = matches!(message, Message::User(_));
        self.queues.push(queue, message);
        if is_users {
            let update = self.queues.update();
            self.emit(update);
        }
    }

    /// Passes an event of a run on to the client, with what follows from it.
    pub(crate) fn run_event(&mut self, event: Event) {
        self.observe_event(&event);
        let succeeded = self.is_success_after_retry(&event);
        self.outbox.event(event);
        if succeeded {
            self.end_retrying(true, None);
        }
    }

    /// Updates the state before the event goes to the client.
    fn observe_event(&mut self, event: &Event) {
        self.forward_event(event);
        match event {
            Event::MessageStart { ticket: Some(ticket), message } => {
                self.queues.emitted(*ticket);
                if matches!(**message, Message::User(_)) {
                    let update = self.queues.update();
                    self.emit(update);
                }
            }
            Event::MessageEnd { message } => {
                match &**message {
                    Message::User(_) => {
                        self.compactions.user_spoke();
                        self.todos.user_spoke();
                    }
                    Message::Assistant(answer) if !answer.failed() => self.todos.answered(),
                    _ => {}
                }
                self.rules_after_message(message);
            }
            _ => {}
        }
        if let Some(run) = &mut self.run {
            match event {
                Event::MessageStart { .. } => run.is_open = true,
                Event::MessageEnd { message } => {
                    run.is_open = false;
                    run.added.push(message.clone());
                }
                _ => {}
            }
        }
    }

    pub(crate) fn answer(&mut self, request: RunRequest) {
        match request {
            RunRequest::Setup(responder) => responder.respond(self.setup()),
            RunRequest::Dequeue(queue, responder) => responder.respond(self.queues.next(queue)),
            RunRequest::TurnEntries(responder) => responder.respond(self.turn_entries()),
            RunRequest::Commit(proposal, responder) => {
                let goes_on = self.commit("turn_end", proposal);
                responder.respond(goes_on);
            }
            RunRequest::AfterTurn(responder) => responder.respond(self.turn_over()),
            RunRequest::NextTurn(responder) => self.compact_between_turns(responder),
            RunRequest::WillRetry(end, responder) => {
                let goes_on = self.retries.will_retry(&end)
                    || self.will_recover(&end)
                    || self.rule_matches.will_go_on(&end)
                    || (end == End::Complete && self.will_remind());
                responder.respond(goes_on && !self.is_shutting_down && self.deferred.is_empty());
            }
            RunRequest::FlushEvents(responder) | RunRequest::Throttle(responder) => {
                responder.respond(())
            }
            RunRequest::RulesMatched(matches, responder) => {
                responder.respond(self.matched(matches))
            }
            RunRequest::MessageEnded(message, responder) => {
                responder.respond(self.message_ended(message))
            }
            RunRequest::Interrupted(responder) => {
                let immediate = self.interrupt_mode == InterruptMode::Immediate;
                responder.respond(immediate && self.queues.has(Queue::Steering));
            }
        }
    }

    /// A message of a run is complete. The client gets it once it is stored, and not at all when
    /// it cannot be.
    fn message_ended(&mut self, message: Arc<Message>) -> Result<(), NotStored> {
        self.store(message.clone())?;
        self.run_event(Event::MessageEnd { message });
        Ok(())
    }

    pub(super) fn setup(&mut self) -> RequestSetup {
        let model = self.model.clone().unwrap_or_else(Models::none);
        let session_id: Arc<str> = self.conversation.id().into();
        RequestSetup {
            provider: self.models.provider(&model),
            thinking: self.thinking(),
            system: self.run_system(),
            tools: self.tools(),
            forced_tool: self.todos.forced_tool(),
            cwd: self.workspace.cwd.clone(),
            env: self.workspace.tool_env(&session_id, &model, self.thinking()),
            rules: self.rules(),
            session_id,
            model,
        }
    }

    pub(crate) fn run_ended(&mut self, end: Result<End, String>) {
        let run = self.run.take();
        self.queues.run_ended();
        self.close_host_calls();
        let mut end = end.unwrap_or_else(|crash| {
            self.close_crashed_run(run, &crash);
            End::Aborted
        });
        self.extensions.last_outcome = outcome(Some(&end));
        if end == End::Interrupted {
            if !self.is_shutting_down && self.deferred.is_empty() && self.schedule_injection() {
                return;
            }
            end = End::Aborted;
        }
        if let End::Failed(error) = &end {
            if !self.is_shutting_down && self.deferred.is_empty() && self.retries.will_retry(&end) {
                return self.retry_later(error);
            }
            self.end_retrying(false, Some(error.to_string()));
        }
        if let End::NotStored(NotStored(error)) = &end {
            self.end_retrying(false, Some(error.clone()));
        }
        if end == End::Aborted {
            self.end_retrying(false, Some("Retry cancelled".to_owned()));
        }
        let may_go_on = !self.is_shutting_down && self.deferred.is_empty();
        if may_go_on && self.compact_after_run(&end) {
            return;
        }
        if matches!(end, End::Failed(_)) {
            // Deferred rules are only injected after a run that succeeded.
            self.rule_matches.forget();
        }
        // After an abort or a failed write, queued messages wait for the next prompt.
        self.after_run_closed(matches!(end, End::Aborted | End::NotStored(_)));
    }

    /// Decides what follows a closed run: deferred rules, messages that were queued too late for
    /// it, a todo reminder, or settling. After an abort, queued messages wait for the next prompt.
    pub(super) fn after_run_closed(&mut self, is_aborted: bool) {
        if !is_aborted && self.deferred.is_empty() {
            if let Some(injection) = self.take_deferred_injection() {
                return self.start_run(vec![injection]);
            }
            if self.queues.len() > 0 {
                return self.start_run(Vec::new());
            }
        }
        if !is_aborted
            && self.deferred.is_empty()
            && let Some(reminder) = self.remind_of_todos()
        {
            return self.start_run(vec![reminder]);
        }
        self.run_settle_hook();
    }

    /// No run follows: emits `agent_settled` and runs deferred actions.
    pub(super) fn settle(&mut self) {
        self.is_settling = false;
        self.todos.answered();
        self.rule_matches.forget();
        // A second failure was already reported.
        self.store_owed().ok();
        if let Err(err) = self.conversation.run_ended() {
            self.emit(Event::SessionError { error: err.to_string() });
        }
        self.append_ended_commands();
        self.flush_messages_after_turn();
        let aborted = std::mem::take(&mut self.abort_requested);
        self.emit(Event::AgentSettled { aborted });
        self.run_deferred_if_idle();
    }

    /// The run has panicked. The client sees a failed message, and the session goes on.
    fn close_crashed_run(&mut self, run: Option<ActiveRun>, crash: &str) {
        let (mut messages, is_open) =
            run.map_or_else(Default::default, |run| (run.added, run.is_open));
        let model = self.model.clone().unwrap_or_else(Models::none);
        let message = Arc::new(Message::Assistant(AssistantMessage {
            content: Vec::new(),
            api: model.api.clone(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Error,
            timestamp: self.clock.now(),
            response_id: None,
            response_model: None,
            raw_stop_reason: None,
            error_message: Some(format!("internal error, please report it: {crash}")),
            error_hint: None,
            thinking_level: None,
            duration_ms: None,
        }));
        if !is_open {
            self.emit(Event::MessageStart { message: message.clone(), ticket: None });
        }
        if self.append_message(message.clone()).is_ok() {
            messages.push(message.clone());
            self.emit(Event::MessageEnd { message: message.clone() });
        }
        self.emit(Event::TurnEnd { message, results: Vec::new() });
        self.emit(Event::AgentEnd { messages, will_retry: false });
    }
}

/// The entry that records a model change.
pub(crate) fn model_change(model: &Model) -> Body {
    Body::ModelChange { provider: model.provider.clone(), model_id: model.id.clone() }
}
