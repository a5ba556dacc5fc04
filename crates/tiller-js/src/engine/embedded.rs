//! The embedded engine: a QuickJS runtime, a context, and the functions that tiller calls in it.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rquickjs::function::{Args, IntoArgs};
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Error, Function, Module, Persistent, Runtime, Value,
};

use super::{EngineMessage, TurnOutcome};
use crate::bindings;
use crate::engine_handle::JsError;
use crate::engine_loop::OperationEvent;
use crate::engine_state::{EngineState, Task};
use crate::modules::builtin;

/// JavaScript's stack size.
const STACK_BYTES: usize = 2 << 20;
/// With less than this, an engine is of no use.
const MEMORY_PROBE_BYTES: usize = 64 << 10;

pub(crate) struct Embedded {
    state: Rc<EngineState>,
    // Dropped in this order: values, then the context, then the runtime.
    entries: Entries,
    context: Context,
    runtime: Runtime,
}

/// The functions that `js/runtime/main.js` exports to tiller.
struct Entries {
    call: Persistent<Function<'static>>,
    emit: Persistent<Function<'static>>,
    abort: Persistent<Function<'static>>,
    deliver: Persistent<Function<'static>>,
    fire: Persistent<Function<'static>>,
    run_signal: Persistent<Function<'static>>,
    rejections: Persistent<Function<'static>>,
}

impl Embedded {
    pub(crate) fn start(state: Rc<EngineState>) -> Result<Embedded, JsError> {
        let js_error = |err: Error| JsError { message: err.to_string(), ..JsError::default() };
        let runtime = Runtime::new().map_err(js_error)?;
        runtime.set_memory_limit(state.config.limits.memory_bytes);
        runtime.set_max_stack_size(STACK_BYTES);
        let budget = state.budget.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || budget.is_over())));
        runtime.set_loader(Linker { state: state.clone() }, Linker { state: state.clone() });
        let context = Context::full(&runtime).map_err(js_error)?;
        let entries = context.with(|ctx| {
            start_runtime(&ctx, &state).catch(&ctx).map_err(|err| thrown(&state, err))
        })?;
        let tracked = state.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                tracked.rejected.set(true);
                // The runtime lists rejections in JavaScript. If even this fails, a rejection goes
                // unreported.
                if let Ok(notice) = ctx.globals().get::<_, Function>("__tillerRejection") {
                    notice.call::<_, ()>((promise, reason, is_handled)).ok();
                }
            },
        )));
        Ok(Embedded { state, entries, context, runtime })
    }

    /// Handles a message for `task`, then runs all jobs that are ready.
    pub(super) fn turn(
        &self,
        task: Task,
        limit: Duration,
        message: EngineMessage<'_>,
    ) -> TurnOutcome {
        let state = &self.state;
        state.task.set(task);
        self.runtime.set_memory_limit(state.memory.left().max(1));
        state.budget.begin(limit);
        let result = self.handle(message);
        self.finish_jobs();
        if state.rejected.get() && !state.budget.was_hit() {
            state.rejected.set(false);
            // The runtime reports its own errors.
            self.enter(&self.entries.rejections, ()).ok();
            self.finish_jobs();
        }
        state.loading.borrow_mut().clear();
        TurnOutcome { result, interrupted: state.budget.end() }
    }

    fn handle(&self, message: EngineMessage<'_>) -> Result<(), JsError> {
        match message {
            EngineMessage::Call { call, entry, json } => self.call(call, entry.name(), json),
            EngineMessage::Emit { json } => {
                self.state.shared.backlog.fetch_sub(1, Ordering::Relaxed);
                self.enter(&self.entries.emit, (json,))
            }
            EngineMessage::Abort { call } => self.enter(&self.entries.abort, (call as f64,)),
            EngineMessage::Fire { timer } => self.enter(&self.entries.fire, (timer as f64,)),
            EngineMessage::RunSignal(signal) => self.enter(&self.entries.run_signal, (signal,)),
            EngineMessage::Deliver { operation, event } => self.deliver(operation, event),
        }
    }

    fn call(&self, call: u64, entry: &str, json: &str) -> Result<(), JsError> {
        self.context.with(|ctx| {
            let token = self.state.reply_token(call);
            let called = self.entries.call.clone().restore(&ctx).and_then(|enter| {
                // JavaScript cannot own a Rust value, but a function that owns one.
                let token = Function::new(ctx.clone(), move || token.call())?;
                enter.call::<_, ()>((call as f64, entry, json, token))
            });
            called.catch(&ctx).map_err(|err| thrown(&self.state, err))
        })
    }

    /// Frees what only garbage refers to, [`ReplyToken`](crate::engine_state::ReplyToken)s included.
    pub(crate) fn collect_garbage(&self) {
        self.runtime.run_gc();
    }

    /// Collects garbage, and tries to allocate a little.
    pub(crate) fn has_memory(&self) -> bool {
        self.runtime.run_gc();
        self.context.with(|ctx| {
            let text = rquickjs::String::from_str(ctx.clone(), &" ".repeat(MEMORY_PROBE_BYTES));
            let has_memory = text.is_ok();
            if !has_memory {
                drop(ctx.catch());
            }
            has_memory
        })
    }

    fn deliver(&self, operation: u64, event: OperationEvent) -> Result<(), JsError> {
        self.context.with(|ctx| {
            let deliver = self.entries.deliver.clone().restore(&ctx);
            let delivered = deliver.and_then(|deliver| {
                let id = operation as f64;
                match event {
                    OperationEvent::Event(output) => {
                        deliver.call::<_, ()>((id, "event", bindings::to_js(&ctx, output)?))
                    }
                    OperationEvent::Done(Ok(output)) => {
                        deliver.call::<_, ()>((id, "done", bindings::to_js(&ctx, output)?))
                    }
                    OperationEvent::Done(Err(err)) => {
                        deliver.call::<_, ()>((id, "failed", bindings::error(&ctx, &err)?))
                    }
                }
            });
            delivered.catch(&ctx).map_err(|err| thrown(&self.state, err))
        })
    }

    fn enter<A>(&self, entry: &Persistent<Function<'static>>, args: A) -> Result<(), JsError>
    where
        A: for<'js> IntoArgs<'js>,
    {
        self.context.with(|ctx| {
            let called = entry.clone().restore(&ctx).and_then(|entry| {
                let mut list = Args::new(ctx.clone(), args.num_args());
                args.into_args(&mut list)?;
                list.apply::<()>(&entry)
            });
            called.catch(&ctx).map_err(|err| thrown(&self.state, err))
        })
    }

    /// Runs promise jobs. The time limit ends an endless chain of them.
    fn finish_jobs(&self) {
        while self.runtime.is_job_pending() && !self.state.budget.is_over() {
            if let Err(exception) = self.runtime.execute_pending_job() {
                // An interrupted job. Its promise never settles; the engine loop fails the call
                // itself.
                exception.0.with(|ctx| drop(ctx.catch()));
                self.state.memory_in_doubt.set(true);
            }
        }
    }
}

/// Evaluates the runtime's main module and takes its exports.
fn start_runtime(ctx: &Ctx<'_>, state: &Rc<EngineState>) -> rquickjs::Result<Entries> {
    ctx.globals().set("__tillerHost", bindings::host(ctx, state)?)?;
    let main = bindings::import_now(ctx, state, "tiller:main")?;
    let entry = |name: &str| -> rquickjs::Result<Persistent<Function<'static>>> {
        Ok(Persistent::save(ctx, main.get::<_, Function>(name)?))
    };
    Ok(Entries {
        call: entry("call")?,
        emit: entry("emit")?,
        abort: entry("abort")?,
        deliver: entry("deliver")?,
        fire: entry("fire")?,
        run_signal: entry("runSignal")?,
        rejections: entry("rejections")?,
    })
}

/// Converts a caught exception, with positions in the author's source.
pub(crate) fn thrown(state: &EngineState, caught: CaughtError<'_>) -> JsError {
    match caught {
        CaughtError::Exception(exception) => {
            let message = exception.message().unwrap_or_default();
            state.thrown(message, exception.stack().as_deref())
        }
        CaughtError::Value(value) => JsError { message: describe(&value), ..JsError::default() },
        CaughtError::Error(err) => JsError { message: err.to_string(), ..JsError::default() },
    }
}

fn describe(value: &Value<'_>) -> String {
    let text = value.as_string().and_then(|text| text.to_string().ok());
    text.unwrap_or_else(|| format!("a {} was thrown", value.type_name()))
}

/// The engine's module loader.
struct Linker {
    state: Rc<EngineState>,
}

impl Resolver for Linker {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let resolved = self.state.modules.borrow_mut().resolve(base, name);
        self.warn();
        resolved.map_err(|message| bindings::refused(ctx, message))
    }
}

impl Loader for Linker {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        self.state.loading.borrow_mut().insert(name.to_owned());
        if let Some(builtin) = builtin::find(name) {
            return builtin.declare(ctx);
        }
        let loaded = self.state.modules.borrow_mut().load(name);
        self.warn();
        let (source, path) = loaded.map_err(|message| bindings::refused(ctx, message))?;
        let module = Module::declare(ctx.clone(), name, source)?;
        if let Some(path) = path {
            bindings::describe(ctx, &self.state, &module.meta()?, name, &path)?;
        }
        Ok(module)
    }
}

impl Linker {
    fn warn(&self) {
        for text in self.state.modules.borrow_mut().take_warnings() {
            bindings::warn(&self.state, text);
        }
    }
}
