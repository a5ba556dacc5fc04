//! What tiller knows: the conversation, the model, the queues, and the run under way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tiller_agent::event::Event;
use tiller_agent::host::{End, NotStored, Queue, Setup};
use tiller_agent::message::{AssistantMessage, Message, StopReason, Usage};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::run;
use tiller_js::event::ModelSource;
use tiller_session::{Body, Durability};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::after_run::AfterRun;
use super::commands::Commands;
use super::compaction::Compactions;
use super::guests::Visitors;
use super::guests::boundary::outcome;
use super::here::Here;
use super::host_tools::HostTools;
use super::link::{Link, Question};
use super::modes::ClientModes;
use super::out::Said;
use super::parked::Parked;
use super::queues::Queues;
use super::retry::Retries;
use super::server::Input;
use super::todos::Todos;
use super::toolbox::Toolbox;
use super::ttsr::Interruptions;
use super::wire::{InterruptMode, Label, Reply};
use crate::choice::Choice;
use crate::clock::Clock;
use crate::conversation::Conversation;
use crate::launch::{Launch, Workplace};
use crate::models::Models;
use crate::sessions::Shelf;
use crate::settings::Settings;

pub(crate) struct State {
    pub(crate) conversation: Conversation,
    pub(crate) shelf: Shelf,
    pub(crate) durability: Durability,
    pub(crate) models: Models,
    pub(crate) model: Option<Arc<Model>>,
    /// What the command line says about the model.
    choice: Choice,
    /// The model that was chosen last in this process, by provider and id.
    pub(crate) chosen_model: Option<(String, String)>,
    /// What the client asked for; [`State::thinking`] is what the model can do of it.
    pub(crate) wanted_thinking: ThinkingLevel,
    /// What the user wants of this model in particular; it goes when the model does.
    pub(crate) model_thinking: Option<ThinkingLevel>,
    pub(crate) queues: Queues,
    pub(crate) interrupt_mode: InterruptMode,
    pub(crate) modes: ClientModes,
    pub(crate) settings: Settings,
    pub(crate) workplace: Workplace,
    pub(crate) here: Here,
    pub(crate) toolbox: Toolbox,
    pub(crate) host_tools: HostTools,
    pub(crate) todos: Todos,
    pub(crate) clock: Clock,
    pub(crate) diagnostics: Vec<String>,
    /// What handlers and run ends have to say; written before anything else is.
    pub(crate) said: Vec<Said>,
    /// Requests that wait for a session change to finish.
    pub(crate) parked: Parked,
    pub(crate) commands: Commands,
    pub(crate) retries: Retries,
    pub(crate) compactions: Compactions,
    pub(crate) visitors: Visitors,
    /// Whether extensions may name the client's window.
    pub(crate) shows_titles: bool,
    /// An extension wants tiller to end.
    pub(super) wants_to_leave: bool,
    pub(crate) interruptions: Interruptions,
    /// An abort was asked for since the last run began.
    pub(super) abort_requested: bool,
    /// The pause before another try was cancelled, and the run is about to settle.
    pub(super) giving_up: bool,
    pub(super) run: Option<ActiveRun>,
    pub(super) after_run: VecDeque<AfterRun>,
    /// The process is ending: no run may go on for long.
    pub(super) stopping: bool,
    /// Another session is being opened, or another place in this one.
    pub(super) opening: bool,
    /// A branch is about to be left; this gives up what is thought over before.
    pub(super) leaving: Option<CancellationToken>,
    /// Answers that others are working on.
    pub(super) slow_answers: usize,
    pub(super) inputs: mpsc::Sender<Input>,
}

pub(super) struct ActiveRun {
    cancel: CancellationToken,
    /// The messages it has added.
    added: Vec<Arc<Message>>,
    /// The model is in the middle of a message.
    is_open: bool,
    /// A message of it could not be stored, so it is about to end.
    pub(super) not_stored: Option<NotStored>,
}

impl State {
    pub(crate) fn new(launch: Launch, inputs: mpsc::Sender<Input>) -> State {
        let Launch { settings, models, model, thinking, workplace, clock, diagnostics, .. } =
            launch;
        let retries = Retries::new(settings.retry);
        let compactions = Compactions::new(settings.compaction.clone());
        State {
            conversation: launch.conversation,
            shelf: launch.shelf,
            durability: settings.session.durability,
            models,
            model,
            choice: launch.choice,
            chosen_model: None,
            wanted_thinking: thinking,
            model_thinking: None,
            queues: Queues::new(settings.steering_mode, settings.follow_up_mode),
            interrupt_mode: settings.interrupt_mode,
            modes: ClientModes::default(),
            settings,
            workplace,
            here: Here::new(launch.place),
            toolbox: Toolbox::default(),
            host_tools: HostTools::default(),
            todos: Todos::new(launch.level),
            clock,
            diagnostics,
            said: Vec::new(),
            parked: Parked::default(),
            commands: Commands::default(),
            retries,
            compactions,
            visitors: Visitors::default(),
            shows_titles: launch.shows_titles,
            wants_to_leave: false,
            interruptions: Interruptions::default(),
            abort_requested: false,
            giving_up: false,
            run: None,
            after_run: VecDeque::new(),
            stopping: false,
            opening: false,
            leaving: None,
            slow_answers: 0,
            inputs,
        }
    }

    /// Busy from the acceptance of a prompt until `agent_settled`.
    pub(crate) fn is_busy(&self) -> bool {
        self.run.is_some()
            || self.retries.is_waiting()
            || self.interruptions.is_pausing()
            || self.giving_up
            || self.compactions.is_automatic()
            || self.visitors.is_considering()
    }

    /// Busy, or at work on a summary that somebody asked for.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_busy() || self.compactions.is_under_way() || self.leaving.is_some()
    }

    /// At work, or something may still become of a prompt that extensions look at.
    pub(crate) fn is_occupied(&self) -> bool {
        self.is_at_work() || self.visitors.is_looking()
    }

    /// A session change, or a prompt that replaces another, waits for the run to close.
    pub(crate) fn is_changing(&self) -> bool {
        self.opening
            || self.visitors.is_moving()
            || self.visitors.is_asked_to_change()
            || self.after_run.iter().any(|after| !matches!(after, AfterRun::Answer(_)))
    }

    /// Something that the client asked for will have changed the state when it is answered: another
    /// session, a reload, a prompt in the place of another. A summary on the way to another place
    /// in the tree takes too long to keep the client from looking.
    pub(crate) fn owes_change(&self) -> bool {
        (self.opening && self.leaving.is_none())
            || self.here.is_awaited()
            || self.visitors.is_asked_to_change()
            || self.visitors.owes_answer()
            || self.after_run.iter().any(|after| !matches!(after, AfterRun::Answer(_)))
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.is_occupied()
            && self.after_run.is_empty()
            && self.parked.is_empty()
            && self.commands.is_idle()
            && !self.opening
            && !self.visitors.is_moving()
            && self.slow_answers == 0
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.tell_guests(&event);
        self.said.push(Said::Event(event));
    }

    pub(super) fn settle_answer(&mut self, label: Label, result: Result<Reply, String>) {
        self.said.push(Said::Answer(label, result));
    }

    /// Lets another thread find the answer.
    pub(crate) fn answer_later(
        &mut self,
        label: Label,
        work: impl FnOnce() -> Result<Reply, String> + Send + 'static,
    ) {
        self.slow_answers += 1;
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let result = tokio::task::spawn_blocking(work).await;
            let result = result.unwrap_or_else(|err| Err(format!("internal error: {err}")));
            // A server that no longer listens has ended.
            inputs.send(Input::Answered(label, result)).await.ok();
        });
    }

    /// Adds an entry that is no message to the session.
    pub(crate) fn record(&mut self, body: Body) -> Result<(), String> {
        let now = self.clock.now();
        self.conversation.record(body, now).map(|_| ()).map_err(|err| err.to_string())
    }

    /// A session that begins without messages has the model that was chosen last in this process,
    /// else the one that a start without a stored session has. The model of the session before it
    /// counts only where there is neither.
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
        self.model_thinking = thinking.or_else(|| self.models.thinking(&model));
        let previous = self.model.replace(model);
        self.tell_model(previous.as_deref(), ModelSource::Restore);
    }

    /// A new session begins by saying who answers in it.
    pub(super) fn record_choices(&mut self) {
        let level = self.thinking();
        let model = self.model.as_deref().map(model_change);
        for body in model.into_iter().chain([Body::ThinkingLevelChange { level }]) {
            if let Err(error) = self.record(body) {
                self.emit(Event::SessionError { error });
            }
        }
    }

    /// A stored session knows who answered in it, and goes on with that model if it can.
    pub(super) fn restore_choices(&mut self) {
        let session = self.conversation.session();
        let model = session.model().ok().flatten();
        let model = model.and_then(|name| self.models.usable(&name.provider, &name.id));
        let level = session.thinking_level().ok().flatten();
        let previous = self.model.take();
        self.model = model.or(previous.clone());
        self.tell_model(previous.as_deref(), ModelSource::Restore);
        self.want_thinking(level.unwrap_or(self.wanted_thinking));
    }

    /// The level in force: what was asked for, as far as the model has it.
    pub(crate) fn thinking(&self) -> ThinkingLevel {
        let level = self.model_thinking.unwrap_or(self.wanted_thinking);
        self.model.as_ref().map_or(ThinkingLevel::Off, |model| model.clamp(level))
    }

    /// Asks for this level, here and at the models to come.
    pub(crate) fn want_thinking(&mut self, level: ThinkingLevel) {
        self.wanted_thinking = level;
        self.model_thinking = None;
    }

    /// Changes model or level, and says so when the level in force is another one after it.
    pub(crate) fn change_thinking(&mut self, change: impl FnOnce(&mut State)) {
        let before = self.thinking();
        change(self);
        let level = self.thinking();
        if level != before {
            if let Err(error) = self.record(Body::ThinkingLevelChange { level }) {
                self.emit(Event::SessionError { error });
            }
            self.emit(Event::ThinkingLevelChanged { level });
            self.tell_level(before);
        }
    }

    pub(crate) fn start_run(&mut self, prompts: Vec<Message>) {
        let cancel = CancellationToken::new();
        self.abort_requested = self.stopping;
        if self.stopping {
            cancel.cancel();
        }
        self.tell_of_commands();
        // If it fails again, so does the first message of the run, which the client is told.
        self.store_owed().ok();
        let resize = self.workplace.resize;
        let link = Link {
            inputs: self.inputs.clone(),
            clock: self.clock,
            resize,
            guests: self.visitors.guests.clone(),
            cancel: cancel.clone(),
            turns: AtomicU64::new(0),
        };
        // Read when the prompt was accepted.
        let history = self.conversation.loaded().unwrap_or_default().to_vec();
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            let mut presentable = Vec::with_capacity(prompts.len());
            for message in prompts {
                presentable.push(link.presentable(Arc::new(message)).await);
            }
            run::run(&link, history, presentable, token).await
        });
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let end = task.await.map_err(|err| err.to_string());
            // A server that no longer listens needs no news of its runs.
            inputs.send(Input::RunEnded(end)).await.ok();
        });
        self.run = Some(ActiveRun { cancel, added: Vec::new(), is_open: false, not_stored: None });
    }

    /// Cancels the run and the compaction under way, if there are any.
    pub(crate) fn abort(&mut self) {
        self.abort_requested |= self.is_busy();
        self.give_up_retrying();
        self.give_up_resuming();
        self.compactions.cancel();
        if let Some(leaving) = &self.leaving {
            leaving.cancel();
        }
        self.visitors.hurry();
        if let Some(guests) = self.visitors.guests.as_ref().filter(|_| self.run.is_some()) {
            guests.run_aborted();
        }
        if let Some(run) = &self.run {
            run.cancel.cancel();
        }
    }

    /// Aborts, and whatever would start afterwards is aborted too.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.client_left();
        self.abort();
        self.commands.abort_all();
    }

    /// Puts a message into a queue, and says so.
    pub(crate) fn enqueue(&mut self, queue: Queue, message: Message) {
        let is_users = matches!(message, Message::User(_));
        self.queues.push(queue, message);
        if is_users {
            let update = self.queues.update();
            self.emit(update);
        }
    }

    /// Takes note of what a run says, before the client hears of it.
    pub(crate) fn note(&mut self, event: &Event) {
        self.tell_guests(event);
        match event {
            Event::MessageStart { ticket: Some(ticket), message } => {
                self.queues.said(*ticket);
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
                self.note_rules(message);
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

    pub(crate) fn answer(&mut self, question: Question) {
        match question {
            Question::Setup(asker) => tell(asker, self.setup()),
            Question::Dequeue(queue, asker) => tell(asker, self.queues.next(queue)),
            Question::TurnEntries(asker) => tell(asker, self.turn_entries()),
            Question::Commit(proposal, asker) => {
                let goes_on = self.commit("turn_end", proposal);
                tell(asker, goes_on);
            }
            Question::TurnOver(asker) => tell(asker, self.turn_over()),
            Question::NextTurn(asker) => self.compact_between_turns(asker),
            Question::WillRetry(end, asker) => {
                let goes_on = self.retries.will_retry(&end)
                    || self.will_recover(&end)
                    || self.interruptions.will_go_on(&end)
                    || (end == End::Complete && self.will_remind());
                tell(asker, goes_on && !self.stopping && self.after_run.is_empty());
            }
            Question::Told(asker) | Question::MayGoOn(asker) => tell(asker, ()),
            Question::Matched(matches, asker) => tell(asker, self.matched(matches)),
            Question::MessageEnded(message, asker) => tell(asker, self.store(message)),
            Question::Interrupted(asker) => {
                let immediate = self.interrupt_mode == InterruptMode::Immediate;
                tell(asker, immediate && self.queues.has(Queue::Steering));
            }
        }
    }

    pub(super) fn setup(&mut self) -> Setup {
        let model = self.model.clone().unwrap_or_else(Models::none);
        let session_id: Arc<str> = self.conversation.id().into();
        Setup {
            provider: self.models.provider(&model),
            thinking: self.thinking(),
            system: self.run_system(),
            tools: self.tools(),
            forced_tool: self.todos.forced_tool(),
            cwd: self.workplace.cwd.clone(),
            env: self.workplace.tool_env(&session_id, &model, self.thinking()),
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
        self.visitors.outcome = outcome(Some(&end));
        if end == End::Interrupted {
            if !self.stopping && self.after_run.is_empty() && self.resume_later() {
                return;
            }
            end = End::Aborted;
        }
        if let End::Failed(error) = &end {
            if !self.stopping && self.after_run.is_empty() && self.retries.will_retry(&end) {
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
        let may_go_on = !self.stopping && self.after_run.is_empty();
        if may_go_on && self.compact_after_run(&end) {
            return;
        }
        if matches!(end, End::Failed(_)) {
            // Rules are told behind a run that went well.
            self.interruptions.forget();
        }
        // What is queued waits for the next prompt also where the disk takes nothing.
        self.close_run(matches!(end, End::Aborted | End::NotStored(_)));
    }

    /// A message that came too late for the run's last look at the queues, or behind an error, is
    /// said now. After an abort it waits for the next prompt.
    pub(super) fn close_run(&mut self, is_aborted: bool) {
        if !is_aborted && self.after_run.is_empty() {
            if let Some(told) = self.take_told() {
                return self.start_run(vec![told]);
            }
            if self.queues.len() > 0 {
                return self.start_run(Vec::new());
            }
        }
        if !is_aborted
            && self.after_run.is_empty()
            && let Some(reminder) = self.remind_of_todos()
        {
            return self.start_run(vec![reminder]);
        }
        self.before_settling();
    }

    /// Nothing more happens by itself.
    pub(super) fn settle(&mut self) {
        self.giving_up = false;
        self.todos.answered();
        self.interruptions.forget();
        // If it fails again, the client knows already.
        self.store_owed().ok();
        if let Err(err) = self.conversation.run_ended() {
            self.emit(Event::SessionError { error: err.to_string() });
        }
        self.tell_of_commands();
        self.say_held_back();
        let aborted = std::mem::take(&mut self.abort_requested);
        self.emit(Event::AgentSettled { aborted });
        self.go_on_if_quiet();
    }

    /// A bug took the run down. The client is told as if the model had failed, and goes on.
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
        if self.keep(message.clone()).is_ok() {
            messages.push(message.clone());
            self.emit(Event::MessageEnd { message: message.clone() });
        }
        self.emit(Event::TurnEnd { message, results: Vec::new() });
        self.emit(Event::AgentEnd { messages, will_retry: false });
    }
}

fn tell<T>(asker: oneshot::Sender<T>, answer: T) {
    // A run that is gone no longer wants its answer.
    asker.send(answer).ok();
}

/// The entry that says which model answers from here on.
pub(crate) fn model_change(model: &Model) -> Body {
    Body::ModelChange { provider: model.provider.clone(), model_id: model.id.clone() }
}
