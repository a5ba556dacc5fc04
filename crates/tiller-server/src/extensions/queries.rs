//! Queries of extensions about the session.

use serde_json::{Value, json};
use tiller_agent::tool::Tool;
use tiller_js::RegisteredTool;
use tiller_js::host_api::{Query, SessionRead};
use tiller_session::Error;

use super::boundary::projection;
use super::{SessionState, models, prompt_options};
use crate::conversation::Tokens;
use crate::handlers::resources::{command_list, source_info};
use crate::project_state;
use crate::tools::AvailableTool;

pub(super) fn answer_query(state: &mut SessionState, query: Query) -> Result<Value, String> {
    Ok(match query {
        Query::Cwd => json!(state.workspace.cwd()),
        Query::IsIdle => json!(!state.is_at_work()),
        Query::HasPendingMessages => json!(state.queues.in_view() > 0),
        Query::PendingMessages => json!(state.queues.messages().collect::<Vec<_>>()),
        Query::IsProjectTrusted => json!(state.project.is_trusted()),
        Query::ContextUsage => context_usage(state)?,
        Query::SystemPrompt => json!(*run_system(state)),
        Query::SystemPromptOptions => prompt_options::prompt_options(state),
        Query::RenderedPrompt { options } => json!(prompt_options::rendered(state, &options)),
        Query::Model => json!(state.models.current().map(|model| &**model)),
        Query::ScopedModels => {
            let (models, _) = state.models.registry().cycle();
            let scoped = models.iter().map(|scoped| {
                let level = scoped.thinking.map(|level| level.name());
                json!({ "model": *scoped.model, "thinkingLevel": level })
            });
            scoped.collect()
        }
        Query::ThinkingLevel => json!(state.models.level().name()),
        Query::ActiveTools => state.tools.active().iter().map(|tool| tool.name()).collect(),
        Query::AllTools => all_tools(state),
        Query::BuiltinTools => tiller_tools::builtin().iter().map(built_in).collect(),
        Query::Commands => {
            serde_json::to_value(command_list(state)).expect("our own types serialize to JSON")
        }
        Query::Session(read) => read_session(state, read).map_err(|err| err.to_string())?,
        Query::Models(read) => models::read_models(state, read),
    })
}

/// The system prompt of the current run.
pub(crate) fn run_system(state: &mut SessionState) -> std::sync::Arc<str> {
    state
        .extensions
        .turn
        .system_prompt
        .clone()
        .unwrap_or_else(|| project_state::system_prompt(state))
}

fn context_usage(state: &SessionState) -> Result<Value, String> {
    let window = state.models.context_window();
    if window == 0 {
        return Ok(Value::Null);
    }
    let tokens = match state.session.conversation().tokens().map_err(|err| err.to_string())? {
        Tokens::Counted(tokens) => Some(tokens),
        Tokens::Estimated(_) if state.session.conversation().session().is_compacted() => None,
        Tokens::Estimated(tokens) => Some(tokens),
    };
    let percent = tokens.map(|tokens| tokens as f64 / window as f64 * 100.0);
    Ok(json!({ "tokens": tokens, "contextWindow": window, "percent": percent }))
}

/// The tools of tiller and of extensions, active or not.
fn all_tools(state: &SessionState) -> Value {
    let available = state.tools.available(state.extensions.host(), state.project.settings());
    let tools = available.into_iter().map(|tool| match tool {
        AvailableTool::Builtin(tool) => listed(&tool, builtin_source(&tool)),
        AvailableTool::Registered(RegisteredTool { tool, extension_path, .. }) => {
            let found = state.extensions.found_at(&extension_path);
            let source = found.map(|found| found.source.extension_info(&found.extension.path));
            listed(&tool, json!(source.map(source_info)))
        }
    });
    tools.collect()
}

fn read_session(state: &SessionState, read: SessionRead) -> Result<Value, Error> {
    let session = state.session.conversation().session();
    Ok(match read {
        SessionRead::Cwd => json!(session.cwd()),
        // A database has no folders: then these are null.
        SessionRead::Dir => {
            let file = session.path().filter(|_| state.session.store().has_files());
            json!(file.and_then(|path| path.parent()))
        }
        SessionRead::ProjectDir { cwd } => {
            json!(state.session.store().store.project_dir(&cwd, session))
        }
        SessionRead::AllProjectsDir => json!(state.session.store().store.root()),
        SessionRead::Id => json!(session.id()),
        SessionRead::File => json!(session.path()),
        SessionRead::LeafId => json!(session.leaf()),
        SessionRead::Entry { id } => {
            session.raw(&id)?.map_or(Value::Null, |text| parsed(text.as_bytes()))
        }
        SessionRead::Label { id } => json!(session.label(&id)),
        // No path leads to an unknown entry.
        SessionRead::Branch { from: Some(id) } if !session.contains(&id) => json!([]),
        SessionRead::Branch { from } => written(|out| session.write_branch(from.as_deref(), out))?,
        SessionRead::Entries => written(|out| session.write_entries(None, out))?,
        SessionRead::Tree => written(|out| session.write_tree(out))?,
        SessionRead::Header => {
            let header = session.header();
            json!({
                "type": "session", "version": header.version, "id": header.id,
                "timestamp": header.timestamp, "cwd": header.cwd,
                "parentSession": header.parent_session,
            })
        }
        SessionRead::Name => json!(state.session.conversation().name()),
        SessionRead::ContextEntries => {
            let context = session.context()?.messages;
            let mut entries = Vec::with_capacity(context.len());
            for read in &context {
                let text = session.raw(&read.entry_id)?;
                entries.extend(text.map(|text| parsed(text.as_bytes())));
            }
            Value::Array(entries)
        }
        SessionRead::Projection => projection(session)?,
    })
}

fn built_in(tool: &Tool) -> Value {
    let mut shown = listed(tool, builtin_source(tool));
    shown["label"] = json!(tool.name());
    shown["promptSnippet"] = json!(tool.snippet);
    shown
}

/// The source of our own tools.
fn builtin_source(tool: &Tool) -> Value {
    let path = format!("<builtin:{}>", tool.name());
    json!({ "path": path, "source": "builtin", "scope": "temporary", "origin": "top-level" })
}

fn listed(tool: &Tool, source_info: Value) -> Value {
    json!({
        "name": tool.name(),
        "description": tool.spec.description,
        "parameters": tool.spec.parameters,
        "promptGuidelines": tool.guidelines,
        "sourceInfo": source_info,
    })
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<Value, Error> {
    let mut text = Vec::new();
    write(&mut text)?;
    Ok(parsed(&text))
}

/// Parses a line of the session; a damaged line is null.
fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_default()
}
