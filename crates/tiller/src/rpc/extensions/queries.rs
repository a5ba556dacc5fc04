//! Queries of extensions about the session.

use serde_json::{Value, json};
use tiller_agent::tool::Tool;
use tiller_js::RegisteredTool;
use tiller_js::world::{Query, SessionRead};
use tiller_session::Error;

use super::SessionState;
use super::boundary::projection;
use super::tools::OfferedTool;
use crate::conversation::Tokens;
use crate::rpc::handlers::resources::command_list;

impl SessionState {
    pub(super) fn answer_query(&mut self, query: Query) -> Result<Value, String> {
        Ok(match query {
            Query::Cwd => json!(*self.workspace.cwd),
            Query::IsIdle => json!(!self.is_at_work()),
            Query::HasPendingMessages => json!(self.queues.in_view() > 0),
            Query::PendingMessages => json!(self.queues.messages().collect::<Vec<_>>()),
            Query::IsProjectTrusted => json!(self.resources.is_trusted()),
            Query::ContextUsage => self.context_usage()?,
            Query::SystemPrompt => json!(*self.run_system()),
            Query::SystemPromptOptions => self.prompt_options(),
            Query::RenderedPrompt { options } => json!(self.rendered(&options)),
            Query::Model => json!(self.model.as_deref()),
            Query::ScopedModels => {
                let (models, _) = self.models.cycle();
                let scoped = models.iter().map(|scoped| {
                    let level = scoped.thinking.map(|level| level.name());
                    json!({ "model": *scoped.model, "thinkingLevel": level })
                });
                scoped.collect()
            }
            Query::ThinkingLevel => json!(self.thinking().name()),
            Query::ActiveTools => self.workspace.tools.iter().map(|tool| tool.name()).collect(),
            Query::AllTools => self.all_tools(),
            Query::BuiltinTools => tiller_tools::builtin().iter().map(built_in).collect(),
            Query::Commands => command_list(self),
            Query::Session(read) => self.read_session(read).map_err(|err| err.to_string())?,
            Query::Models(read) => self.read_models(read),
        })
    }

    /// The system prompt of the current run.
    pub(crate) fn run_system(&mut self) -> std::sync::Arc<str> {
        self.extensions.system_prompt_override.clone().unwrap_or_else(|| self.system())
    }

    fn context_usage(&self) -> Result<Value, String> {
        let window = self.model.as_ref().map_or(0, |model| model.context_window);
        if window == 0 {
            return Ok(Value::Null);
        }
        let tokens = match self.conversation.tokens().map_err(|err| err.to_string())? {
            Tokens::Counted(tokens) => Some(tokens),
            Tokens::Estimated(_) if self.conversation.session().is_compacted() => None,
            Tokens::Estimated(tokens) => Some(tokens),
        };
        let percent = tokens.map(|tokens| tokens as f64 / window as f64 * 100.0);
        Ok(json!({ "tokens": tokens, "contextWindow": window, "percent": percent }))
    }

    /// The tools of tiller and of extensions, active or not.
    fn all_tools(&self) -> Value {
        let tools = self.merged(self.brought()).into_iter().map(|tool| match tool {
            OfferedTool::Own(tool) => listed(&tool, ours(&tool)),
            OfferedTool::Brought(RegisteredTool { tool, extension_path, .. }) => {
                let found = self.extensions.found_at(&extension_path);
                let its = found.map(|found| found.source.extension_info(&found.extension.path));
                listed(&tool, json!(its))
            }
        });
        tools.collect()
    }

    fn read_session(&self, read: SessionRead) -> Result<Value, Error> {
        let session = self.conversation.session();
        Ok(match read {
            SessionRead::Cwd => json!(session.cwd()),
            SessionRead::Dir => json!(session.path().and_then(|path| path.parent())),
            SessionRead::ProjectDir { cwd } => {
                json!(self.session_store.project_dir(&cwd, session))
            }
            SessionRead::AllProjectsDir => json!(self.session_store.root),
            SessionRead::Id => json!(session.id()),
            SessionRead::File => json!(session.path()),
            SessionRead::LeafId => json!(session.leaf()),
            SessionRead::Entry { id } => {
                session.raw(&id)?.map_or(Value::Null, |text| parsed(text.as_bytes()))
            }
            SessionRead::Label { id } => json!(session.label(&id)),
            // No path leads to an unknown entry.
            SessionRead::Branch { from: Some(id) } if !session.contains(&id) => json!([]),
            SessionRead::Branch { from } => {
                written(|out| session.write_branch(from.as_deref(), out))?
            }
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
            SessionRead::Name => json!(self.conversation.name()),
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
}

fn built_in(tool: &Tool) -> Value {
    let mut shown = listed(tool, ours(tool));
    shown["label"] = json!(tool.name());
    shown["promptSnippet"] = json!(tool.snippet);
    shown
}

/// The source of our own tools.
fn ours(tool: &Tool) -> Value {
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
