//! The state of a session. Each part keeps its own invariants; this file holds them together and
//! answers what depends on several of them.

use tiller_agent::driver::Queue;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_protocol::{ClientId, Label, Reply};
use tiller_session::Body;
use tokio::sync::mpsc;

use crate::approvals::Approvals;
use crate::budget::Budget;
use crate::client_bash::ClientBash;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::extensions::ExtensionState;
use crate::extensions::events;
use crate::follow::Follower;
use crate::mcp::McpState;
use crate::model_state::ModelState;
use crate::open_session::OpenSession;
use crate::outbox::Outbox;
use crate::project_state::ProjectState;
use crate::prompt_results::{AcceptedPrompt, PromptResults};
use crate::queues::Queues;
use crate::server::Input;
use crate::tasks::Tasks;
use crate::todos::Todos;
use crate::tools::Tools;
use crate::transition::TransitionState;
use crate::work::Work;
use crate::workspace::Workspace;

pub(crate) struct SessionState {
    pub(crate) session: OpenSession,
    pub(crate) models: ModelState,
    pub(crate) queues: Queues,
    pub(crate) project: ProjectState,
    pub(crate) tools: Tools,
    pub(crate) mcp: McpState,
    pub(crate) workspace: Workspace,
    pub(crate) work: Work,
    pub(crate) results: PromptResults,
    pub(crate) budget: Budget,
    pub(crate) approvals: Approvals,
    pub(crate) transition: TransitionState,
    pub(crate) todos: Todos,
    pub(crate) client_bash: ClientBash,
    pub(crate) extensions: ExtensionState,
    /// Set while the session is one that another process writes.
    pub(crate) follower: Option<Follower>,
    pub(crate) outbox: Outbox,
    pub(crate) tasks: Tasks,
    pub(crate) clock: Clock,
}

impl SessionState {
    pub(crate) fn new(config: ServerConfig, inputs: mpsc::Sender<Input>) -> SessionState {
        let settings = config.settings;
        SessionState {
            session: OpenSession::new(config.conversation, config.store),
            models: ModelState::new(config.models, config.model, config.choice, config.thinking),
            queues: Queues::new(
                settings.steering_mode,
                settings.follow_up_mode,
                settings.interrupt_mode,
            ),
            work: Work::new(&settings),
            results: PromptResults::default(),
            budget: Budget::new(config.limits),
            approvals: Approvals::new(&settings, &config.project, config.asks_client),
            project: ProjectState::new(config.project, settings, config.diagnostics),
            tools: Tools::new(config.tools),
            mcp: McpState::new(config.mcp),
            workspace: config.workspace,
            transition: TransitionState::default(),
            todos: Todos::new(config.level),
            client_bash: ClientBash::default(),
            extensions: ExtensionState::new(config.shows_titles),
            follower: None,
            outbox: Outbox::default(),
            tasks: Tasks::new(inputs),
            clock: config.clock,
        }
    }

    /// Busy from the acceptance of a prompt until `agent_settled`.
    pub(crate) fn is_busy(&self) -> bool {
        self.work.is_busy()
    }

    /// Busy, or compacting or navigating on request.
    pub(crate) fn is_at_work(&self) -> bool {
        self.work.is_active() || self.transition.is_navigating()
    }

    /// At work, or an `input` hook is pending.
    pub(crate) fn is_occupied(&self) -> bool {
        self.is_at_work() || self.extensions.has_input_hook()
    }

    /// A session change, or an `abort_and_prompt`, is pending or in progress.
    pub(crate) fn is_changing(&self) -> bool {
        self.transition.is_active()
            || self.transition.has_client_hook()
            || self.work.has_deferred_change()
    }

    /// The client waits for something that will change the state: another session, a reload, an
    /// `abort_and_prompt`. A branch summary does not count: it takes too long to hold back
    /// `get_state`.
    pub(crate) fn owes_change(&self) -> bool {
        self.transition.owes_change()
            || self.project.is_awaited()
            || self.work.has_deferred_change()
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.is_occupied()
            && !self.work.has_deferred()
            && self.transition.is_idle()
            && self.client_bash.is_idle()
    }

    pub(crate) fn emit(&mut self, event: Event) {
        events::forward_event(self, &event);
        self.outbox.event(event);
    }

    /// The same for an event that only one client gets.
    pub(crate) fn emit_for(&mut self, client: ClientId, event: Event) {
        events::forward_event(self, &event);
        self.outbox.event_for(client, event);
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
        self.transition.expect_response();
        self.tasks.spawn_blocking(work, |result| {
            let crashed = |crash| Err(format!("internal error: {crash}"));
            Input::ResponseReady(label, result.unwrap_or_else(crashed))
        });
    }

    /// Appends an entry that is not a message.
    pub(crate) fn append_entry(&mut self, body: Body) -> Result<(), String> {
        let now = self.clock.now();
        let appended = self.session.conversation_mut().record(body, now);
        appended.map(|_| ()).map_err(|err| err.to_string())
    }

    /// The same where a failure is reported to the client as `session_error`.
    pub(crate) fn append_entry_or_report(&mut self, body: Body) {
        if let Err(error) = self.append_entry(body) {
            self.emit(Event::SessionError { error });
        }
    }

    /// Queues a message and emits the update.
    pub(crate) fn enqueue(
        &mut self,
        queue: Queue,
        message: Message,
        prompt: Option<AcceptedPrompt>,
    ) {
        let is_users = matches!(message, Message::User(_));
        self.queues.push(queue, message, prompt);
        if is_users {
            let update = self.queues.update();
            self.emit(update);
        }
    }
}
