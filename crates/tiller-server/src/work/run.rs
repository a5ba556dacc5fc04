//! A run: its start, its events and requests, its end, and what follows.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tiller_agent::driver::{End, NotStored, Queue, QueueTicket, RequestSetup};
use tiller_agent::event::Event;
use tiller_agent::message::{AssistantMessage, Message, StopReason};
use tiller_agent::run;
use tiller_js::hook::Boundary;
use tokio_util::sync::CancellationToken;

use super::compaction::PlannedCut;
use super::next::{Facts, Next};
use super::{ActiveRun, Phase, RunTask, compaction, deferred, next, retry, storing, stream_rules};
use crate::client_bash;
use crate::extensions::{actions, boundary, dialogs, events, queries};
use crate::queues::Dequeued;
use crate::run_host::{RunHost, RunRequest};
use crate::server::Input;
use crate::state::SessionState;
use crate::{approvals, mcp, prompt_results, todos, tools};

/// Starts a run with these messages, or with the queued ones if there are none.
pub(crate) fn start_run(state: &mut SessionState, prompts: Vec<Message>) {
    let cancel = CancellationToken::new();
    state.work.abort_requested = state.work.is_shutting_down;
    if state.work.is_shutting_down {
        cancel.cancel();
    }
    client_bash::append_ended_commands(state);
    // If this fails again, so does the first message of the run, which reports it.
    storing::store_owed(state).ok();
    let driver = RunHost {
        tasks: state.tasks.clone(),
        clock: state.clock,
        resize: state.workspace.resize(),
        host: state.extensions.host().cloned(),
        cancel: cancel.clone(),
        turns: AtomicU64::new(0),
        limits: state.budget.switch(),
        approvals: state.approvals.switch(),
        cwd: state.workspace.shared_cwd(),
    };
    // Loaded when the prompt was accepted.
    let history = state.session.conversation().loaded().unwrap_or_default().to_vec();
    // A limit may have ended the last run before the model has answered its results. They are left
    // as they are: the queued message is a prompt of its own.
    let sends_queued = prompts.is_empty() && matches!(state.work.last_end, End::Limit(_));
    let token = cancel.clone();
    let running = async move {
        let mut presentable = Vec::with_capacity(prompts.len());
        for message in prompts {
            presentable.push(driver.presentable(Arc::new(message)).await);
        }
        if sends_queued {
            return run::run_queued(&driver, history, token).await;
        }
        run::run(&driver, history, presentable, token).await
    };
    let abort = state.tasks.spawn_catching(running, Input::RunEnded);
    let task = RunTask { cancel, abort };
    let run = ActiveRun { task, added: Vec::new(), is_open: false, not_stored: None };
    state.work.enter(Phase::Running(run));
}

/// Cancels the run and everything that would lead to one.
pub(crate) fn abort(state: &mut SessionState) {
    state.work.abort_requested |= state.is_busy();
    retry::cancel_retry(state);
    stream_rules::cancel_injection(state);
    state.work.compactions.cancel();
    state.transition.cancel_navigation();
    state.extensions.cancel_hooks();
    if let Some(run) = state.work.run() {
        if let Some(host) = state.extensions.host() {
            host.run_aborted();
        }
        run.task.cancel.cancel();
    }
}

/// Aborts; runs that start later are cancelled at once.
pub(crate) fn stop(state: &mut SessionState) {
    state.work.shut_down();
    dialogs::client_left(state);
    state.approvals.client_left();
    abort(state);
    state.client_bash.abort_all();
}

/// Passes an event of a run on to the client, with what follows from it.
pub(crate) fn run_event(state: &mut SessionState, mut event: Event) {
    observe_event(state, &mut event);
    let has_recovered = state.work.retries.has_recovered(&event);
    state.outbox.event(event);
    if has_recovered {
        retry::end_retries(state, true, None);
    }
}

/// Updates the state before the event goes to the client.
fn observe_event(state: &mut SessionState, event: &mut Event) {
    events::forward_event(state, event);
    state.results.observe(event);
    state.budget.observe(event);
    match event {
        Event::MessageStart { ticket: Some(ticket), message, client_message_id } => {
            *client_message_id = queued_message_sent(state, *ticket);
            if matches!(**message, Message::User(_)) {
                let update = state.queues.update();
                state.emit(update);
            }
        }
        Event::MessageEnd { message } => {
            match &**message {
                Message::User(_) => {
                    state.work.compactions.user_message_added();
                    state.todos.user_message_added();
                }
                Message::Assistant(answer) if !answer.failed() => state.todos.answered(),
                _ => {}
            }
            stream_rules::rules_after_message(state, message);
        }
        _ => {}
    }
    state.work.observe(event);
}

/// A run sends a queued message. Returns the client's name for it.
fn queued_message_sent(state: &mut SessionState, ticket: QueueTicket) -> Option<Box<str>> {
    let Dequeued { queue, prompt } = state.queues.emitted(ticket)?;
    if queue == Queue::FollowUp && state.results.is_answered() {
        prompt_results::hand_over(state);
    }
    if queue == Queue::FollowUp {
        state.budget.start_follow_up();
    }
    let prompt = prompt?;
    let name = prompt.client_message_id().map(Into::into);
    state.results.deliver(prompt);
    name
}

/// Answers a request of the run.
pub(crate) fn answer(state: &mut SessionState, request: RunRequest) {
    match request {
        RunRequest::Setup(responder) => {
            if let Some(responder) = mcp::hold_back(state, responder) {
                responder.respond(setup(state));
            }
        }
        RunRequest::Dequeue(queue, responder) => responder.respond(state.queues.next(queue)),
        RunRequest::TurnEntries(responder) => responder.respond(boundary::turn_entries(state)),
        RunRequest::Commit(proposal, responder) => {
            let is_continued = boundary::commit(state, "turn_end", proposal);
            responder.respond(is_continued);
        }
        RunRequest::AfterTurn(responder) => responder.respond(boundary::turn_over(state)),
        RunRequest::NextTurn(responder) => compaction::compact_between_turns(state, responder),
        RunRequest::WillRetry(end, responder) => {
            let (facts, _) = facts(state, &end);
            responder.respond(next::will_retry(&end, &facts));
        }
        RunRequest::FlushEvents(responder) | RunRequest::Throttle(responder) => {
            responder.respond(())
        }
        RunRequest::RulesMatched(matches, responder) => {
            responder.respond(stream_rules::matched(state, matches))
        }
        RunRequest::MessageEnded(message, responder) => {
            responder.respond(message_ended(state, message))
        }
        RunRequest::CheckLimits(step, responder) => responder.respond(state.budget.reached(step)),
        RunRequest::Approve(call, responder) => approvals::request(state, *call, responder),
        RunRequest::Interrupted(responder) => responder.respond(state.queues.interrupts()),
    }
}

/// A message of a run is complete. The client gets it once it is stored, and not at all when
/// it cannot be.
fn message_ended(state: &mut SessionState, message: Arc<Message>) -> Result<(), NotStored> {
    storing::store(state, message.clone())?;
    run_event(state, Event::MessageEnd { message });
    Ok(())
}

/// What a request to the model is made with.
pub(crate) fn setup(state: &mut SessionState) -> RequestSetup {
    let model = state.models.current_or_none();
    let level = state.models.level();
    let session_id: Arc<str> = state.session.conversation().id().into();
    RequestSetup {
        provider: state.models.registry().provider(&model),
        thinking: level,
        system: queries::run_system(state),
        tools: tools::offered(state),
        forced_tool: state.todos.forced_tool(),
        cwd: state.workspace.shared_cwd(),
        env: state.workspace.tool_env(&session_id, &model, level),
        process_limits: state.budget.limits().of_processes(),
        confinement: state.workspace.confinement(),
        rules: state.project.rules(),
        session_id,
        model,
    }
}

/// What other parts know about what follows a run that ended like this, and the planned cut if
/// that is a compaction.
fn facts(state: &mut SessionState, end: &End) -> (Facts, Option<PlannedCut>) {
    let planned = compaction::plan_after_run(state, end);
    let (need, cut) = planned.unzip();
    (Facts { compaction: need, ..facts_after_compaction(state, end) }, cut)
}

/// The same when the compaction is over.
fn facts_after_compaction(state: &mut SessionState, end: &End) -> Facts {
    Facts {
        needs_reminder: todos::will_remind(state),
        has_queued: !state.queues.is_empty(),
        is_shutting_down: state.work.is_shutting_down,
        has_deferred: state.work.has_deferred(),
        has_due_rules: state.work.rules.has_due(),
        has_waiting_rules: state.work.rules.has_waiting(),
        can_retry: state.work.retries.allow(end),
        allows_prompts: state.budget.allows_prompts(),
        compaction: None,
    }
}

/// A run has ended; `Err` is the text of its panic.
pub(crate) fn run_ended(state: &mut SessionState, end: Result<End, String>) {
    let run = state.work.take_run();
    state.queues.run_ended();
    state.results.run_ended(&end);
    let owner = state.tools.host().owner();
    for event in state.tools.host_mut().run_ended() {
        state.emit_for(owner, event);
    }
    let end = end.unwrap_or_else(|crash| {
        close_crashed_run(state, run, &crash);
        End::Aborted
    });
    state.work.last_end = end.clone();
    todos::forget_reminders_if_done(state);
    let (facts, cut) = facts(state, &end);
    match next::next(&end, &facts) {
        Next::InjectRules => stream_rules::schedule_injection(state),
        Next::Retry => retry::retry_later(state, &end),
        next => {
            retry::end_retries_after(state, &end);
            follow(state, next, facts.may_continue(), &end, cut);
        }
    }
}

/// Carries out what follows a run that is neither repeated nor interrupted by a rule.
fn follow(
    state: &mut SessionState,
    next: Next,
    may_continue: bool,
    end: &End,
    cut: Option<PlannedCut>,
) {
    if let (Next::Compact(need), Some(cut)) = (next, cut) {
        return compaction::compact_after_run(state, need, cut);
    }
    if may_continue {
        compaction::report_second_overflow(state, end);
    }
    if matches!(end, End::Failed(_) | End::Limit(_)) {
        state.work.rules.forget();
    }
    start_next(state, next);
}

/// The compaction after a run is over, with or without a summary.
pub(super) fn after_compaction(state: &mut SessionState) {
    state.work.leave_phase();
    let facts = facts_after_compaction(state, &End::Complete);
    start_next(state, next::next(&End::Complete, &facts));
}

/// Starts the next run, or settles.
fn start_next(state: &mut SessionState, next: Next) {
    let message = match next {
        Next::AppendRules => stream_rules::take_waiting_injection(state),
        Next::RemindOfTodos => todos::reminder_message(state),
        Next::SendQueued => {
            prompt_results::finish_active(state);
            state.budget.start_prompt();
            return start_run(state, Vec::new());
        }
        Next::Settle => return close(state),
        Next::InjectRules | Next::Retry | Next::Compact(_) => {
            unreachable!("{next:?} is handled by the caller")
        }
    };
    start_run(state, vec![message]);
}

/// Asks extensions, which may start another run, and then settles.
pub(crate) fn close(state: &mut SessionState) {
    match boundary::settle_hook(state) {
        None => settle(state),
        Some(hook) => {
            state.work.begin_settle_hook();
            state.tasks.spawn(hook.run());
        }
    }
}

/// The `agent_before_settle` hook has finished; it may have asked for another run.
pub(crate) fn settle_hook_done(state: &mut SessionState, proposal: Boundary) {
    let is_continued = boundary::commit_before_settle(state, proposal);
    state.work.leave_phase();
    let facts = facts_after_compaction(state, &End::Complete);
    match next::after_settle_hook(&state.work.last_end, is_continued, &facts) {
        Next::SendQueued => {
            if facts.has_queued {
                prompt_results::finish_active(state);
                state.budget.start_prompt();
            }
            start_run(state, Vec::new());
        }
        _ => settle(state),
    }
}

/// No run follows: emits `agent_settled` and runs deferred actions.
pub(crate) fn settle(state: &mut SessionState) {
    state.work.leave_phase();
    state.todos.answered();
    state.work.rules.forget();
    // A second failure was already reported.
    storing::store_owed(state).ok();
    if let Err(err) = state.session.conversation_mut().run_ended() {
        state.emit(Event::SessionError { error: err.to_string() });
    }
    client_bash::append_ended_commands(state);
    actions::flush_messages_after_turn(state);
    prompt_results::finish_active(state);
    let aborted = std::mem::take(&mut state.work.abort_requested);
    state.emit(Event::AgentSettled { aborted });
    deferred::run_deferred_if_idle(state);
}

/// The run has panicked. The client sees a failed message, and the session continues.
fn close_crashed_run(state: &mut SessionState, run: Option<ActiveRun>, crash: &str) {
    let (mut messages, is_open) = run.map_or_else(Default::default, |run| (run.added, run.is_open));
    let model = state.models.current_or_none();
    let message = Arc::new(Message::Assistant(AssistantMessage {
        api: model.api.clone(),
        provider: model.provider.clone(),
        model: model.id.clone(),
        stop_reason: StopReason::Error,
        timestamp: state.clock.now(),
        error_message: Some(format!("internal error, please report it: {crash}")),
        ..AssistantMessage::default()
    }));
    if !is_open {
        state.emit(Event::message_start(message.clone(), None));
    }
    if storing::append_message(state, message.clone()).is_ok() {
        messages.push(message.clone());
        state.emit(Event::MessageEnd { message: message.clone() });
    }
    state.emit(Event::TurnEnd { message, results: Vec::new() });
    state.emit(Event::AgentEnd { messages, will_retry: false });
}
