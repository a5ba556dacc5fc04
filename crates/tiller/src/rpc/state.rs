//! What tiller knows: the conversation, the model, the queues, and the run under way.

use std::collections::VecDeque;
use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::host::{End, Queue, Setup};
use tiller_agent::message::{AssistantMessage, Message, StopReason, Usage};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::run;
use tiller_tools::command::BashCommand;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::commands::{BashEnded, Commands};
use super::link::{Link, Question};
use super::out::Said;
use super::queues::Queues;
use super::server::Input;
use super::wire::{InterruptMode, Label, Reply, Request};
use crate::clock::Clock;
use crate::conversation::Conversation;
use crate::launch::{Launch, Workplace};
use crate::models::Models;

pub(crate) struct State {
    pub(crate) conversation: Conversation,
    pub(crate) models: Models,
    pub(crate) model: Option<Arc<Model>>,
    /// What the client asked for; [`State::thinking`] is what the model can do of it.
    pub(crate) wanted_thinking: ThinkingLevel,
    pub(crate) queues: Queues,
    pub(crate) interrupt_mode: InterruptMode,
    pub(crate) workplace: Workplace,
    pub(crate) clock: Clock,
    pub(crate) diagnostics: Vec<String>,
    /// What handlers and run ends have to say; written before anything else is.
    pub(crate) said: Vec<Said>,
    /// Requests that wait for a session change to finish.
    pub(crate) parked: VecDeque<Request>,
    pub(crate) commands: Commands,
    run: Option<ActiveRun>,
    after_run: VecDeque<AfterRun>,
    /// The process is ending: no run may go on for long.
    stopping: bool,
    inputs: mpsc::Sender<Input>,
}

struct ActiveRun {
    cancel: CancellationToken,
}

/// What is to be done when the run under way has closed.
pub(crate) enum AfterRun {
    /// `abort` is answered.
    Answer(Label),
    NewSession {
        label: Label,
        parent: Option<String>,
    },
    /// `abort_and_prompt` goes on.
    Prompt {
        label: Label,
        message: Message,
    },
}

impl State {
    pub(crate) fn new(launch: Launch, inputs: mpsc::Sender<Input>) -> State {
        let Launch {
            settings, models, model, thinking, workplace, clock, diagnostics, name, ..
        } = launch;
        let mut conversation = Conversation::new(launch.session_id, None);
        conversation.name = name;
        State {
            conversation,
            models,
            model,
            wanted_thinking: thinking,
            queues: Queues::new(settings.steering_mode, settings.follow_up_mode),
            interrupt_mode: settings.interrupt_mode,
            workplace,
            clock,
            diagnostics,
            said: Vec::new(),
            parked: VecDeque::new(),
            commands: Commands::default(),
            run: None,
            after_run: VecDeque::new(),
            stopping: false,
            inputs,
        }
    }

    /// Busy from the acceptance of a prompt until `agent_settled`.
    pub(crate) fn is_busy(&self) -> bool {
        self.run.is_some()
    }

    /// A session change, or a prompt that replaces another, waits for the run to close.
    pub(crate) fn is_changing(&self) -> bool {
        self.after_run.iter().any(|after| !matches!(after, AfterRun::Answer(_)))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.run.is_none()
            && self.after_run.is_empty()
            && self.parked.is_empty()
            && self.commands.is_idle()
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.said.push(Said::Event(event));
    }

    fn reply(&mut self, label: Label, reply: Reply) {
        self.said.push(Said::Reply(label, reply));
    }

    /// The level in force: what was asked for, as far as the model has it.
    pub(crate) fn thinking(&self) -> ThinkingLevel {
        let level = self.wanted_thinking;
        self.model.as_ref().map_or(level, |model| model.clamp(level))
    }

    /// Changes model or level, and says so when the level in force is another one after it.
    pub(crate) fn change_thinking(&mut self, change: impl FnOnce(&mut State)) {
        let before = self.thinking();
        change(self);
        let level = self.thinking();
        if level != before {
            self.emit(Event::ThinkingLevelChanged { level });
        }
    }

    pub(crate) fn start_run(&mut self, prompts: Vec<Message>) {
        let cancel = CancellationToken::new();
        if self.stopping {
            cancel.cancel();
        }
        self.tell_of_commands();
        let resize = self.workplace.resize;
        let link = Link { inputs: self.inputs.clone(), clock: self.clock, resize };
        let history = self.conversation.messages().to_vec();
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
        self.run = Some(ActiveRun { cancel });
    }

    /// Starts a command of the client's beside everything else.
    pub(crate) fn start_bash(&mut self, label: Label, command: String, hidden: bool) {
        let bash = BashCommand {
            command,
            cwd: self.workplace.cwd.clone(),
            env: self.workplace.env.clone(),
            shell: self.workplace.shell.clone(),
        };
        let session_id = self.conversation.id().to_owned();
        self.commands.start(&self.inputs, label, bash, session_id, hidden);
    }

    /// Takes note of a command's end. While a run is under way the conversation waits for it:
    /// nothing may stand between a call and its result.
    pub(crate) fn bash_ended(&mut self, ended: BashEnded) -> (Label, Result<Reply, String>) {
        let now = self.clock.now();
        let (label, result) = self.commands.ended(ended, self.conversation.id(), now);
        if !self.is_busy() {
            self.tell_of_commands();
        }
        (label, result)
    }

    fn tell_of_commands(&mut self) {
        for message in self.commands.take_untold() {
            self.conversation.push(message);
        }
    }

    /// Cancels the run under way, if there is one.
    pub(crate) fn abort(&mut self) {
        if let Some(run) = &self.run {
            run.cancel.cancel();
        }
    }

    /// Aborts, and whatever would start afterwards is aborted too.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.abort();
        self.commands.abort_all();
    }

    /// Does something as soon as nothing runs: now, or after the run was aborted and has closed.
    pub(crate) fn after_run(&mut self, after: AfterRun) {
        self.after_run.push_back(after);
        match self.run {
            Some(_) => self.abort(),
            None => self.do_after_run(),
        }
    }

    /// Takes note of what a run says, before the client hears of it.
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::MessageStart { ticket: Some(ticket), .. } => {
                self.queues.said(*ticket);
                let update = self.queues.update();
                self.emit(update);
            }
            Event::MessageEnd { message } => self.conversation.push(message.clone()),
            _ => {}
        }
    }

    pub(crate) fn answer(&mut self, question: Question) {
        // A run that was dropped meanwhile no longer wants its answer.
        match question {
            Question::Setup(answer) => answer.send(self.setup()).ok().unwrap_or(()),
            Question::Dequeue(queue, answer) => {
                answer.send(self.queues.next(queue)).ok().unwrap_or(());
            }
            Question::MayGoOn(answer) => answer.send(()).ok().unwrap_or(()),
            Question::Interrupted(answer) => {
                let interrupted = self.interrupt_mode == InterruptMode::Immediate
                    && self.queues.has(Queue::Steering);
                answer.send(interrupted).ok().unwrap_or(());
            }
        }
    }

    fn setup(&self) -> Setup {
        let model = self.model.clone().unwrap_or_else(Models::none);
        let session_id: Arc<str> = self.conversation.id().into();
        Setup {
            provider: self.models.provider(&model),
            thinking: self.thinking(),
            system: self.workplace.system.clone(),
            tools: self.workplace.tools.clone(),
            cwd: self.workplace.cwd.clone(),
            env: self.workplace.tool_env(&session_id, &model, self.thinking()),
            session_id,
            model,
        }
    }

    pub(crate) fn run_ended(&mut self, end: Result<End, String>) {
        self.run = None;
        let end = end.unwrap_or_else(|crash| {
            self.close_crashed_run(&crash);
            End::Aborted
        });
        // A message that came too late for the run's last look at the queues, or behind an
        // error, is said now. After an abort it waits for the next prompt.
        if end != End::Aborted && self.queues.len() > 0 && self.after_run.is_empty() {
            return self.start_run(Vec::new());
        }
        self.tell_of_commands();
        self.emit(Event::AgentSettled);
        self.do_after_run();
    }

    fn do_after_run(&mut self) {
        while let Some(after) = self.after_run.pop_front() {
            match after {
                AfterRun::Answer(label) => self.reply(label, Reply::DONE),
                AfterRun::NewSession { label, parent } => {
                    self.queues.clear();
                    self.conversation = Conversation::new(Conversation::new_id(), parent);
                    self.reply(label, Reply::data(&serde_json::json!({"cancelled": false})));
                }
                AfterRun::Prompt { label, message } => {
                    self.reply(label, Reply::DONE);
                    self.start_run(vec![message]);
                    if !self.after_run.is_empty() {
                        // An `abort` that came after it means this run too.
                        self.abort();
                    }
                    return;
                }
            }
        }
    }

    /// A bug took the run down. The client is told as if the model had failed, and goes on.
    fn close_crashed_run(&mut self, crash: &str) {
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
        }));
        self.conversation.push(message.clone());
        self.emit(Event::MessageStart { message: message.clone(), ticket: None });
        self.emit(Event::MessageEnd { message: message.clone() });
        self.emit(Event::TurnEnd { message: message.clone(), results: Vec::new() });
        self.emit(Event::AgentEnd { messages: vec![message], will_retry: false });
    }
}
