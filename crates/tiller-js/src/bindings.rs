//! The functions JavaScript finds in `__tillerHost`. There are few: most operations go through
//! `sync` and `start` by name.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::context::EvalOptions;
use rquickjs::function::{IntoJsFunc, Opt};
use rquickjs::{
    ArrayBuffer, Ctx, Exception, Function, IntoJs, Module, Object, Result, TypedArray, Value,
};
use tokio::time::Instant;

use crate::engine_handle::{CallError, JsError};
use crate::engine_state::{EngineState, Task};
use crate::host_api::{LogLevel, LogLine};
use crate::modules::{Required, commonjs};
use crate::operations::{self, OpError, OpInput, OpOutput};

/// The longest timer delay. Node has the same limit, and treats more as one millisecond.
const TIMER_MAX_MS: f64 = 2_147_483_647.0;

pub(crate) fn host<'js>(ctx: &Ctx<'js>, state: &Rc<EngineState>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    operations(&host, state)?;
    calls(&host, state)?;
    timers(&host, state)?;
    modules(&host, state)?;
    Ok(host)
}

/// Adds a function to the host object. `function` gets its own reference to the engine's state.
fn bind<'js, P, F: IntoJsFunc<'js, P> + 'js>(
    host: &Object<'js>,
    state: &Rc<EngineState>,
    name: &str,
    function: impl FnOnce(Rc<EngineState>) -> F,
) -> Result<()> {
    host.set(name, Function::new(host.ctx().clone(), function(state.clone()))?)
}

type OptionalText = Opt<Option<String>>;

fn operations<'js>(host: &Object<'js>, state: &Rc<EngineState>) -> Result<()> {
    bind(host, state, "sync", |state| {
        move |ctx: Ctx<'js>, name: String, json: OptionalText, bytes: Opt<Value<'js>>| {
            match operations::sync(&state, &name, op_input(json, bytes)) {
                Ok(output) => to_js(&ctx, output),
                Err(err) => Err(ctx.throw(error(&ctx, &err)?)),
            }
        }
    })?;
    bind(host, state, "start", |state| {
        move |name: String, json: OptionalText, bytes: Opt<Value<'js>>| {
            operations::launch(&state, &name, op_input(json, bytes)) as f64
        }
    })?;
    bind(host, state, "cancel", |state| move |id: f64| state.cancel(id as u64))
}

/// The results of calls, and errors.
fn calls<'js>(host: &Object<'js>, state: &Rc<EngineState>) -> Result<()> {
    bind(host, state, "reply", |state| {
        move |call: f64, json: String| {
            let answer = match state.memory.check_json(&json) {
                Ok(()) => Ok(json),
                Err(err) => Err(CallError::Thrown(state.thrown(err.message, None))),
            };
            state.answer(call as u64, answer);
        }
    })?;
    bind(host, state, "fail", |state| {
        move |call: f64, message: String, stack: OptionalText, lacks: OptionalText| {
            let mut thrown = state.thrown(message, stack.0.flatten().as_deref());
            thrown.lacks = lacks.0.flatten();
            state.answer(call as u64, Err(CallError::Thrown(thrown)));
        }
    })?;
    bind(host, state, "progress", |state| {
        move |call: f64, json: String| {
            // Progress that is too large is dropped; the call's result reports the error.
            if state.memory.check_json(&json).is_ok() {
                state.progress(call as u64, json);
            }
        }
    })?;
    bind(host, state, "extension", |state| {
        move |number: Opt<u32>| {
            let task = state.task.get();
            if let Some(extension) = number.0 {
                state.task.set(Task { extension, ..task });
            }
            task.extension
        }
    })?;
    bind(host, state, "report", |state| {
        move |path: String, event: String, message: String, stack: OptionalText| {
            let thrown: JsError = state.thrown(message, stack.0.flatten().as_deref());
            state.report(path, event, thrown);
        }
    })
}

fn timers<'js>(host: &Object<'js>, state: &Rc<EngineState>) -> Result<()> {
    bind(host, state, "timer", |state| {
        move |id: f64, ms: f64| {
            let ms = if (1.0..=TIMER_MAX_MS).contains(&ms) { ms } else { 1.0 };
            let due = Instant::now() + Duration::from_micros((ms * 1000.0) as u64);
            state.timers.borrow_mut().set(id as u64, due, state.task.get());
        }
    })?;
    bind(host, state, "clearTimer", |state| {
        move |id: f64| state.timers.borrow_mut().clear(id as u64)
    })?;
    bind(host, state, "clock", |state| move || state.started.elapsed().as_secs_f64() * 1000.0)
}

/// The functions behind `require`.
fn modules<'js>(host: &Object<'js>, state: &Rc<EngineState>) -> Result<()> {
    bind(host, state, "require", |state| {
        move |ctx: Ctx<'js>, importer: String, name: String| {
            let required = state.modules.borrow_mut().require(&importer, &name);
            required_object(&ctx, required)
        }
    })?;
    bind(host, state, "script", |state| {
        move |ctx: Ctx<'js>, id: String| {
            let required = state.modules.borrow_mut().script(&id);
            required_object(&ctx, required)
        }
    })?;
    bind(host, state, "find", |state| {
        move |ctx: Ctx<'js>, importer: String, name: String| {
            let found = state.modules.borrow_mut().find(&importer, &name);
            found.map_err(|message| refused(&ctx, message))
        }
    })?;
    bind(host, state, "compile", |state| {
        move |ctx: Ctx<'js>, id: String| {
            let code = state.modules.borrow_mut().script_code(&id);
            let code = code.map_err(|message| refused(&ctx, message))?;
            let mut options = EvalOptions::default();
            options.strict = false;
            options.filename = Some(id);
            ctx.eval_with_options::<Value<'js>, _>(commonjs::wrap(&code), options)
        }
    })?;
    bind(host, state, "importNow", |state| {
        move |ctx: Ctx<'js>, id: String| import_now(&ctx, &state, &id)
    })?;
    bind(host, state, "entry", |state| {
        move |ctx: Ctx<'js>, path: String, number: u32, strictly: bool| {
            state.paths.borrow_mut().insert(number, path.clone());
            let id = state.modules.borrow_mut().entry(Path::new(&path), number, strictly);
            id.map_err(|message| refused(&ctx, message))
        }
    })
}

/// Evaluates a module synchronously and returns its namespace. Fails for a module with a top-level
/// `await` that does not finish at once, and for one that is already being evaluated.
pub(crate) fn import_now<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<EngineState>,
    id: &str,
) -> Result<Object<'js>> {
    let before = state.loading.borrow().clone();
    if !before.is_empty() && state.modules.borrow_mut().reaches(id, &before) {
        let message = format!("Cannot require() ES Module {id} in a cycle");
        return Err(refused(ctx, message));
    }
    let name = format!("tiller:now/{id}");
    let source = format!("import * as all from {};export {{ all }};", serde_json::Value::from(id));
    let (module, evaluated) = Module::declare(ctx.clone(), name, source)?.eval()?;
    if evaluated.result::<()>().transpose()?.is_none() {
        let message = format!("require() cannot be used on {id}, which has a top-level await");
        return Err(refused(ctx, message));
    }
    *state.loading.borrow_mut() = before;
    module.get("all")
}

/// Sets the properties of `import.meta`.
pub(crate) fn describe<'js>(
    ctx: &Ctx<'js>,
    state: &Rc<EngineState>,
    meta: &Object<'js>,
    id: &str,
    path: &Path,
) -> Result<()> {
    let file = path.to_string_lossy().into_owned();
    let folder = path.parent().unwrap_or(path).to_string_lossy().into_owned();
    let url = operations::file_url(path);
    meta.set("url", url)?;
    meta.set("filename", file)?;
    meta.set("dirname", folder)?;
    meta.set("main", false)?;
    let importer = id.to_owned();
    let state = state.clone();
    let resolve = move |ctx: Ctx<'js>, name: String| -> Result<String> {
        let found = state.modules.borrow_mut().find(&importer, &name);
        let found = found.map_err(|message| refused(&ctx, message))?;
        if found.starts_with('/') { Ok(operations::file_url(Path::new(&found))) } else { Ok(found) }
    };
    meta.set("resolve", Function::new(ctx.clone(), resolve)?)?;
    meta.set("__id", id)?;
    Ok(())
}

pub(crate) fn warn(state: &EngineState, text: String) {
    let extension_path = state.path(state.task.get().extension);
    state.host.log(LogLine { extension_path, level: LogLevel::Warning, text });
}

/// Converts the output of an operation to a JavaScript value.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, output: OpOutput) -> Result<Value<'js>> {
    match output {
        OpOutput::Nothing => Ok(Value::new_undefined(ctx.clone())),
        OpOutput::Text(text) => text.into_js(ctx),
        // Copied into the engine's heap, so that its memory limit applies and the garbage collector
        // frees it.
        OpOutput::Bytes(bytes) => {
            let buffer = ArrayBuffer::new_copy(ctx.clone(), &bytes)?;
            Ok(TypedArray::<u8>::from_arraybuffer(buffer)?.into_value())
        }
        OpOutput::Json(json) => ctx.json_parse(json),
    }
}

/// Converts an operation's error to a JavaScript error with node's fields.
pub(crate) fn error<'js>(ctx: &Ctx<'js>, err: &OpError) -> Result<Value<'js>> {
    let object = Exception::from_message(ctx.clone(), &err.message)?.into_object();
    if let Some(name) = err.name {
        object.set("name", name)?;
    }
    for (key, value) in &err.fields {
        object.set(*key, ctx.json_parse(value.to_string())?)?;
    }
    Ok(object.into_value())
}

fn op_input(json: OptionalText, bytes: Opt<Value<'_>>) -> OpInput {
    let bytes = bytes.0.and_then(|value| {
        let array = value.as_object()?.as_typed_array::<u8>()?;
        Some(copied(array))
    });
    OpInput { json: json.0.flatten().unwrap_or_default(), bytes }
}

#[allow(unsafe_code)]
fn copied(array: &TypedArray<'_, u8>) -> Vec<u8> {
    // SAFETY: the bytes are copied before any JavaScript runs that could change or detach them.
    unsafe { array.as_bytes() }.map(<[u8]>::to_vec).unwrap_or_default()
}

fn required_object<'js>(
    ctx: &Ctx<'js>,
    required: std::result::Result<Required, String>,
) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    match required.map_err(|message| refused(ctx, message))? {
        Required::Module(id) => {
            object.set("kind", "module")?;
            object.set("id", id)?;
        }
        Required::Script { id, path } => {
            object.set("kind", "script")?;
            object.set("id", id)?;
            object.set("path", path.to_string_lossy().into_owned())?;
        }
        Required::Json { id, text } => {
            object.set("kind", "json")?;
            object.set("id", id)?;
            object.set("text", text)?;
        }
    }
    Ok(object)
}

/// The error for a module that cannot be loaded, worded as in node.
pub(crate) fn refused(ctx: &Ctx<'_>, message: String) -> rquickjs::Error {
    match error(ctx, &OpError::of_module(message)) {
        Ok(value) => ctx.throw(value),
        Err(err) => err,
    }
}
