//! The state of an engine's thread: pending calls and operations, the current task and its time
//! limit. Only that thread uses it.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tiller_agent::mutex;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::access::{self, Access};
use crate::bus::Bus;
use crate::coalesce::BoxedProgressSink;
use crate::config::{Config, Permissions};
use crate::engine_handle::{CallError, HandleState, JsError};
use crate::entry::Entry;
use crate::host_api::{ExtensionError, HostApi};
use crate::mailbox::Mailbox;
use crate::memory::Memory;
use crate::modules::{Modules, stack};
use crate::operations::resources::OpenResources;
use crate::operations::{BlockingWait, OpError};
use crate::registrations::ExtensionRegistrations;

/// How long an interruption counts as a violation.
pub(crate) const VIOLATIONS_COUNT_FOR: Duration = Duration::from_secs(60);

pub(crate) struct EngineState {
    pub config: Arc<Config>,
    pub host: Arc<dyn HostApi>,
    pub permissions: Permissions,
    pub shared: Arc<HandleState>,
    pub to: Mailbox,
    pub bus: Arc<Bus>,
    pub modules: RefCell<Modules>,
    /// Modules that are being evaluated.
    pub loading: RefCell<HashSet<String>>,
    pub budget: Rc<Budget>,
    pub memory: Arc<Memory>,
    pub task: Cell<Task>,
    pub calls: RefCell<HashMap<u64, ActiveCall>>,
    /// Calls whose [`ReplyToken`] was dropped since the last check.
    pub dropped_tokens: Rc<RefCell<Vec<u64>>>,
    pub operations: RefCell<HashMap<u64, Operation>>,
    pub timers: RefCell<Timers>,
    pub resources: RefCell<OpenResources>,
    /// The extensions' files, by number.
    pub paths: RefCell<HashMap<u32, String>>,
    /// Whether a promise was rejected since the last check.
    pub rejected: Cell<bool>,
    /// Whether something went wrong since the last check that happens when memory runs out.
    pub memory_in_doubt: Cell<bool>,
    /// Events an extension listens to without the permission; each is reported once.
    refused_listeners: RefCell<HashSet<String>>,
    pub violations: Cell<u32>,
    last_violation: Cell<Option<Instant>>,
    pub started: Instant,
}

/// What JavaScript currently runs for. Everything it starts belongs to the same task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Task {
    /// Zero if there is none.
    pub call: u64,
    /// Zero if there is none.
    pub extension: u32,
}

/// A pending call.
pub(crate) struct ActiveCall {
    pub entry: Entry,
    pub what: &'static str,
    pub reply: oneshot::Sender<Result<String, CallError>>,
    pub progress: Option<BoxedProgressSink>,
    pub since: Instant,
    /// When it exceeds its limit, if it has one.
    pub deadline: Option<Instant>,
    /// The limit.
    pub limit: Duration,
}

/// Owned by the JavaScript functions that answer a call. When the engine frees them, JavaScript
/// cannot answer the call any more.
pub(crate) struct ReplyToken {
    call: u64,
    dropped: Rc<RefCell<Vec<u64>>>,
}

impl ReplyToken {
    pub(crate) fn call(&self) -> f64 {
        self.call as f64
    }
}

impl Drop for ReplyToken {
    fn drop(&mut self) {
        self.dropped.borrow_mut().push(self.call);
    }
}

/// A pending operation outside the engine.
pub(crate) struct Operation {
    pub task: Task,
    pub abort: Option<AbortHandle>,
}

impl EngineState {
    pub(crate) fn new(
        config: Arc<Config>,
        host: Arc<dyn HostApi>,
        permissions: Permissions,
        modules: Modules,
        shared: Arc<HandleState>,
        to: Mailbox,
        bus: Arc<Bus>,
    ) -> EngineState {
        let memory = Memory::new(config.limits.memory_bytes);
        let budget = Rc::new(Budget::new(shared.clone()));
        EngineState {
            config,
            host,
            permissions,
            shared,
            to,
            bus,
            modules: RefCell::new(modules),
            loading: RefCell::default(),
            budget,
            memory,
            task: Cell::default(),
            calls: RefCell::default(),
            dropped_tokens: Rc::default(),
            operations: RefCell::default(),
            timers: RefCell::default(),
            resources: RefCell::default(),
            paths: RefCell::default(),
            rejected: Cell::new(false),
            memory_in_doubt: Cell::new(false),
            refused_listeners: RefCell::default(),
            violations: Cell::new(0),
            last_violation: Cell::new(None),
            started: Instant::now(),
        }
    }

    /// Checks the permissions of this engine's extensions.
    pub(crate) fn allow(&self, access: Access<'_>) -> Result<(), OpError> {
        access::check(self.permissions, access).map_err(OpError::denied)
    }

    /// Whether they may handle this event. The first refusal is reported.
    pub(crate) fn may_listen_to(&self, name: &str) -> bool {
        let Err(OpError { message: error, .. }) = self.allow(Access::Listener(name)) else {
            return true;
        };
        if self.refused_listeners.borrow_mut().insert(name.to_owned()) {
            let thrown = JsError { message: error, ..JsError::default() };
            let path = self.path(self.task.get().extension).unwrap_or_else(|| "<runtime>".into());
            self.report(path, name.to_owned(), thrown);
        }
        false
    }

    /// Allocates the number of a new operation.
    pub(crate) fn begin(&self) -> u64 {
        let id = self.shared.next_operation.fetch_add(1, Ordering::Relaxed) + 1;
        let operation = Operation { task: self.task.get(), abort: None };
        self.operations.borrow_mut().insert(id, operation);
        id
    }

    pub(crate) fn cancel(&self, id: u64) {
        if let Some(operation) = self.operations.borrow_mut().remove(&id)
            && let Some(abort) = operation.abort
        {
            abort.abort();
        }
    }

    /// Cancels all operations.
    pub(crate) fn cancel_all(&self) {
        for (_, operation) in self.operations.borrow_mut().drain() {
            operation.abort.inspect(AbortHandle::abort);
        }
    }

    /// Whether this call waits for an operation that ends by itself.
    pub(crate) fn is_outside(&self, call: u64) -> bool {
        self.operations.borrow().values().any(|operation| operation.task.call == call)
    }

    /// Whether the current call has exceeded the limit that includes waiting.
    pub(crate) fn is_call_overdue(&self) -> bool {
        let calls = self.calls.borrow();
        let call = calls.get(&self.task.get().call).filter(|call| call.deadline.is_some());
        call.is_some_and(|call| Instant::now() >= call.since + self.config.limits.hook_max)
    }

    /// Runs an operation that blocks this thread, and lets it check whether to stop waiting.
    pub(crate) fn blocking<R>(&self, work: impl FnOnce(&BlockingWait<'_>) -> R) -> R {
        let is_over = || self.budget.is_abandoned();
        work(&BlockingWait { memory: &self.memory, is_over: &is_over })
    }

    pub(crate) fn answer(&self, call: u64, result: Result<String, CallError>) {
        if result.as_ref().is_err_and(may_be_of_full_memory) {
            self.memory_in_doubt.set(true);
        }
        if let Some(active) = self.calls.borrow_mut().remove(&call) {
            // The caller may have dropped the receiver.
            active.reply.send(result).ok();
        }
    }

    pub(crate) fn reply_token(&self, call: u64) -> ReplyToken {
        ReplyToken { call, dropped: self.dropped_tokens.clone() }
    }

    /// Fails the calls that JavaScript cannot answer any more. Calls with a deadline end with that.
    pub(crate) fn fail_unanswerable(&self) {
        for call in self.dropped_tokens.take() {
            let is_limited = |call: &ActiveCall| call.deadline.is_some();
            if !self.calls.borrow().get(&call).is_some_and(is_limited) {
                self.answer(call, Err(CallError::Unanswerable));
            }
        }
    }

    /// Whether a call without a deadline is pending.
    pub(crate) fn has_unlimited_call(&self) -> bool {
        self.calls.borrow().values().any(|call| call.deadline.is_none())
    }

    /// Sends progress of a call.
    pub(crate) fn progress(&self, call: u64, json: String) {
        if let Some(active) = self.calls.borrow().get(&call)
            && let Some(progress) = &active.progress
        {
            progress.send(json);
        }
    }

    pub(crate) fn path(&self, extension: u32) -> Option<String> {
        self.paths.borrow().get(&extension).cloned()
    }

    /// A JavaScript error with positions in the author's source.
    pub(crate) fn thrown(&self, message: String, js_stack: Option<&str>) -> JsError {
        let Some(js_stack) = js_stack else { return JsError { message, ..JsError::default() } };
        let trace = stack::trace(&self.modules.borrow(), js_stack);
        let stack = (!trace.stack.is_empty()).then(|| format!("{message}\n{}", trace.stack));
        JsError { message, at: trace.at, stack, lacks: None }
    }

    pub(crate) fn report(&self, extension_path: String, event: String, thrown: JsError) {
        let JsError { message: error, at, stack, .. } = thrown;
        self.host.report(ExtensionError { extension_path, event, error, at, stack });
    }

    /// Counts a violation of a time limit. Old ones are forgotten.
    pub(crate) fn count_violation(&self) {
        let before = self.last_violation.replace(Some(Instant::now()));
        let is_recent = before.is_some_and(|before| before.elapsed() < VIOLATIONS_COUNT_FOR);
        self.violations.set(if is_recent { self.violations.get() + 1 } else { 1 });
    }

    /// The extensions with a fail-closed handler.
    pub(crate) fn guards(&self) -> Vec<String> {
        let own = mutex::lock(&self.shared.registrations);
        own.iter().filter(|own| own.is_guard()).map(|own| own.path.clone()).collect()
    }

    pub(crate) fn set_lost_guards(&self, lost: Vec<String>) {
        *mutex::lock(&self.shared.lost_guards) = lost;
    }

    /// Returns whether anything was registered before.
    pub(crate) fn set_registrations(&self, own: Vec<ExtensionRegistrations>) -> bool {
        let mut before = mutex::lock(&self.shared.registrations);
        !std::mem::replace(&mut *before, own).is_empty()
    }

    pub(crate) fn set_listeners(&self, bits: u64) {
        self.shared.listeners.store(bits, Ordering::Release);
    }
}

/// Whether a call has failed as it does where memory is full: QuickJS throws `null` if there is no
/// room for an error, and loses promises if there is none for their reactions.
fn may_be_of_full_memory(error: &CallError) -> bool {
    match error {
        CallError::Thrown(thrown) => matches!(thrown.message.as_str(), "null" | "out of memory"),
        CallError::Unanswerable => true,
        _ => false,
    }
}

/// How long JavaScript may block the thread. Measured in real time even if the runtime's clock is
/// paused.
pub(crate) struct Budget {
    deadline: Cell<Option<std::time::Instant>>,
    hit: Cell<bool>,
    shared: Arc<HandleState>,
}

impl Budget {
    fn new(shared: Arc<HandleState>) -> Budget {
        Budget { deadline: Cell::new(None), hit: Cell::new(false), shared }
    }

    pub(crate) fn begin(&self, limit: Duration) {
        self.set_deadline(Some(std::time::Instant::now() + limit));
        self.hit.set(false);
    }

    /// Ends the turn. Returns whether it took too long.
    pub(crate) fn end(&self) -> bool {
        self.set_deadline(None);
        self.hit.replace(false)
    }

    /// Shares the deadline with the handle, which checks whether the thread is stuck.
    fn set_deadline(&self, deadline: Option<std::time::Instant>) {
        self.deadline.set(deadline);
        self.shared.turn_ends_by(deadline);
    }

    /// Whether a blocking operation should stop waiting. When the engine is stopped, JavaScript
    /// itself may finish its turn.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.shared.is_stopped() || self.is_over()
    }

    /// Called by QuickJS periodically, and between jobs.
    pub(crate) fn is_over(&self) -> bool {
        let over =
            self.deadline.get().is_some_and(|deadline| std::time::Instant::now() >= deadline);
        if over {
            self.hit.set(true);
        }
        over
    }

    pub(crate) fn was_hit(&self) -> bool {
        self.hit.get()
    }

    /// Runs work whose duration does not count against the extension.
    pub(crate) fn pause<R>(&self, work: impl FnOnce() -> R) -> R {
        let begun = std::time::Instant::now();
        let deadline = self.deadline.get();
        self.set_deadline(None);
        let result = work();
        self.set_deadline(deadline.map(|deadline| deadline + begun.elapsed()));
        result
    }
}

/// Pending timers, soonest first.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    live: HashMap<u64, (Instant, Task)>,
}

impl Timers {
    pub(crate) fn set(&mut self, id: u64, due: Instant, task: Task) {
        self.live.insert(id, (due, task));
        self.heap.push(Reverse((due, id)));
    }

    pub(crate) fn clear(&mut self, id: u64) {
        self.live.remove(&id);
        // Removes cleared timers, so that they do not accumulate.
        if self.heap.len() > 64 && self.heap.len() > self.live.len() * 2 {
            let live = &self.live;
            self.heap.retain(|Reverse((due, id))| live.get(id).is_some_and(|(at, _)| at == due));
        }
    }

    pub(crate) fn next_due(&mut self) -> Option<Instant> {
        while let Some(Reverse((due, id))) = self.heap.peek() {
            if self.live.get(id).is_some_and(|(at, _)| at == due) {
                return Some(*due);
            }
            self.heap.pop();
        }
        None
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(u64, Task)> {
        let due = self.next_due()?;
        if due > now {
            return None;
        }
        let Reverse((_, id)) = self.heap.pop()?;
        let (_, task) = self.live.remove(&id)?;
        Some((id, task))
    }
}
