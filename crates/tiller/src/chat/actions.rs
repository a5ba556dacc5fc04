//! What the commands of the chat send to tiller, and what they show of its responses.

use tiller_client::{Client, ClientError};
use tiller_protocol::{
    Bash, Block, Disposition, ListRange, ListSessions, Message, Model, Prompt, QueueName,
    ThinkingLevel, ToolSource, WhenBusy,
};

use super::commands::SessionNames;
use super::input::ChatCommandLine;
use crate::print_mode::screen::one_line;

/// How many stored sessions `/resume` lists.
const SESSIONS_MAX: usize = 20;
/// How many messages of a resumed session are shown.
const RECENT_MESSAGES: usize = 6;
/// A list without pages.
const ALL: ListRange = ListRange { offset: None, limit: None };
/// How many models an ambiguous pattern lists.
const MODELS_MAX: usize = 50;

/// What an action shows when it is done.
#[derive(Debug)]
pub(super) enum ActionResult {
    Nothing,
    Lines(Vec<String>),
    Note(String),
    Failed(String),
    /// The user chooses by a number.
    List(NumberedList),
    /// A prompt was accepted, or refused with this error.
    Prompt {
        id: String,
        text: String,
        outcome: Result<Disposition, String>,
    },
    /// Another session is open. The text is for the input line.
    SessionChanged {
        lines: Vec<String>,
        text: Option<String>,
    },
    /// What Tab completes, and the commands of the session with their descriptions.
    Names {
        names: SessionNames,
        commands: Vec<(String, String)>,
    },
    /// A shell command has ended.
    Shell {
        note: Option<String>,
    },
}

/// A list from which the user chooses.
#[derive(Debug)]
pub(super) struct NumberedList {
    pub(super) title: String,
    /// What is shown, and what it stands for.
    pub(super) rows: Vec<(String, ListChoice)>,
}

#[derive(Clone, Debug)]
pub(super) enum ListChoice {
    Session(std::path::PathBuf),
    /// The id of the entry before which the new session ends.
    Fork(String),
    Model {
        provider: String,
        id: String,
    },
}

/// Runs a command. Those that only concern the chat itself are handled by its loop.
pub(super) async fn run(client: &Client, command: ChatCommandLine) -> ActionResult {
    let result = match command {
        ChatCommandLine::ShowModel => show_model(client).await,
        ChatCommandLine::SetModel(pattern) => choose_model(client, &pattern).await,
        ChatCommandLine::ListModels(pattern) => list_models(client, &pattern).await,
        ChatCommandLine::ShowThinking => show_thinking(client).await,
        ChatCommandLine::SetThinking(level) => set_thinking(client, level).await,
        ChatCommandLine::New => new_session(client).await,
        ChatCommandLine::Resume => list_sessions(client).await,
        ChatCommandLine::Fork => list_fork_messages(client).await,
        // `compaction_end` shows the result.
        ChatCommandLine::Compact(focus) => client.compact(focus).await.map(nothing),
        ChatCommandLine::Name(name) => client.set_session_name(name).await.map(nothing),
        ChatCommandLine::Stats => stats(client).await,
        ChatCommandLine::Queue => queue(client).await,
        ChatCommandLine::ClearQueue => clear_queue(client).await,
        ChatCommandLine::Tools => tools(client).await,
        ChatCommandLine::Reload => reload(client).await,
        ChatCommandLine::Export(path) => {
            let exported = client.export_html(path).await;
            exported.map(|data| note(format!("[export] {}", data.path.display())))
        }
        ChatCommandLine::Help
        | ChatCommandLine::ThinkingText(_)
        | ChatCommandLine::Abort
        | ChatCommandLine::Quit => Ok(ActionResult::Nothing),
    };
    result.unwrap_or_else(|error| ActionResult::Failed(words(&error)))
}

/// An error in a sentence. The name of the command that was refused says nothing new.
pub(super) fn words(error: &ClientError) -> String {
    match error {
        ClientError::CommandRefused { error, .. } => error.clone(),
        error => error.to_string(),
    }
}

fn nothing<T>(_: T) -> ActionResult {
    ActionResult::Nothing
}

fn note(text: String) -> ActionResult {
    ActionResult::Note(text)
}

/// Sends a message. While the model works it waits in the named queue.
pub(super) async fn prompt(
    client: &Client,
    id: String,
    text: String,
    when_busy: WhenBusy,
) -> ActionResult {
    let prompt = Prompt {
        message: text.clone(),
        when_busy,
        client_message_id: Some(id.clone()),
        ..Prompt::default()
    };
    let outcome = client.prompt(prompt).await.map(|turn| turn.disposition());
    ActionResult::Prompt { id, text, outcome: outcome.map_err(|error| words(&error)) }
}

/// Runs a shell command of the user. Its output comes as events.
pub(super) async fn shell(client: &Client, command: String, is_hidden: bool) -> ActionResult {
    let bash = Bash { command, exclude_from_context: is_hidden };
    match client.bash(bash).await {
        Err(error) => ActionResult::Failed(words(&error)),
        Ok(data) => {
            let state = match data.exit_code {
                _ if data.cancelled => Some("aborted".to_owned()),
                Some(0) if data.output.is_empty() => Some("no output".to_owned()),
                Some(0) => None,
                Some(code) => Some(format!("exit code {code}")),
                None => None,
            };
            ActionResult::Shell { note: state.map(|state| format!("[bash] {state}")) }
        }
    }
}

/// Reads the names for completion and `/help`.
pub(super) async fn names(client: &Client) -> ActionResult {
    let commands = match client.get_commands().await {
        Ok(data) => data.commands,
        // An older server has no commands.
        Err(_) => Vec::new(),
    };
    let models = client.get_available_models(ALL).await;
    let models = models.map(|data| data.models).unwrap_or_default();
    let names = SessionNames {
        commands: commands.iter().map(|command| command.name.clone()).collect(),
        models: models.iter().map(|model| model_name(model)).collect(),
    };
    let commands = commands.into_iter();
    let commands = commands.map(|one| (one.name, one.description.unwrap_or_default())).collect();
    ActionResult::Names { names, commands }
}

/// Carries out a choice of a list.
pub(super) async fn choose(client: &Client, choice: ListChoice) -> ActionResult {
    let result = match choice {
        ListChoice::Session(path) => match client.switch_session(path).await {
            Ok(data) if data.cancelled => Ok(note("[resume] cancelled by an extension".into())),
            Ok(_) => changed(client, "[resume]", None).await,
            Err(error) => Err(error),
        },
        ListChoice::Fork(entry) => match client.fork(entry).await {
            Ok(data) if data.cancelled => Ok(note("[fork] cancelled by an extension".into())),
            Ok(data) => changed(client, "[fork]", data.text).await,
            Err(error) => Err(error),
        },
        ListChoice::Model { provider, id } => set_model(client, provider, id).await,
    };
    result.unwrap_or_else(|error| ActionResult::Failed(words(&error)))
}

/// The line with which a chat begins, and the end of the conversation so far.
pub(super) async fn opening(client: &Client) -> Result<Vec<String>, ClientError> {
    let state = client.get_state().await?;
    let model = state.model.as_deref().filter(|model| is_model(model));
    let model = match model {
        Some(model) => format!("{}, thinking {}", model_name(model), state.thinking_level.name()),
        None => "no model yet (/models lists them)".to_owned(),
    };
    let version = &client.server().version;
    let name = state.session_name.as_deref().map(|name| format!(", session {name}"));
    let name = name.unwrap_or_default();
    let first = format!("tiller {version}, {model}{name}. /help lists the commands.");
    let recent = recent_messages(client, state.message_count).await?;
    Ok(std::iter::once(first).chain(recent).collect())
}

/// The texts at the end of the conversation.
async fn recent_messages(client: &Client, count: usize) -> Result<Vec<String>, ClientError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let offset = Some(count.saturating_sub(RECENT_MESSAGES));
    let data = client.get_messages(ListRange { offset, limit: None }).await?;
    let texts = data.messages.iter().filter_map(|message| match message {
        Message::User(user) => Some(format!("> {}", one_line(&user.content.text()))),
        Message::Assistant(answer) => {
            let texts = answer.content.iter().filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.trim_end().to_owned()),
                _ => None,
            });
            Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
        }
        _ => None,
    });
    Ok(texts.collect())
}

async fn changed(
    client: &Client,
    what: &str,
    text: Option<String>,
) -> Result<ActionResult, ClientError> {
    let state = client.get_state().await?;
    let name = state.session_name.as_deref().unwrap_or(&state.session_id);
    let first = format!("{what} {name}, {} messages", state.message_count);
    let recent = recent_messages(client, state.message_count).await?;
    let lines = std::iter::once(first).chain(recent).collect();
    Ok(ActionResult::SessionChanged { lines, text })
}

async fn new_session(client: &Client) -> Result<ActionResult, ClientError> {
    if client.new_session().await?.cancelled {
        return Ok(note("[new] cancelled by an extension".to_owned()));
    }
    let lines = vec!["[new] a new session".to_owned()];
    Ok(ActionResult::SessionChanged { lines, text: None })
}

fn model_name(model: &Model) -> String {
    format!("{}/{}", model.provider, model.id)
}

/// Level `pi-delta` has a placeholder if there is no model.
fn is_model(model: &Model) -> bool {
    model.provider != "unknown"
}

async fn show_model(client: &Client) -> Result<ActionResult, ClientError> {
    let state = client.get_state().await?;
    let model = state.model.as_deref().filter(|model| is_model(model));
    let name = model.map_or("none; /models lists those that can be used".to_owned(), model_name);
    Ok(note(format!("[model] {name}")))
}

async fn set_model(
    client: &Client,
    provider: String,
    id: String,
) -> Result<ActionResult, ClientError> {
    let model = client.set_model(provider, id).await?;
    Ok(note(format!("[model] {}", model_name(&model))))
}

/// Selects the model that the pattern names: `provider/id`, or a part of one name.
pub(super) async fn choose_model(
    client: &Client,
    pattern: &str,
) -> Result<ActionResult, ClientError> {
    let models = client.get_available_models(ALL).await?.models;
    let names: Vec<String> = models.iter().map(|model| model_name(model)).collect();
    match matching(&names, pattern).as_slice() {
        [at] => {
            let Model { provider, id, .. } = models[*at].as_ref();
            set_model(client, provider.clone(), id.clone()).await
        }
        // Some models can be chosen although they are not listed.
        [] => match pattern.split_once('/') {
            Some((provider, id)) => set_model(client, provider.to_owned(), id.to_owned()).await,
            None => {
                let why = format!("no model matches {pattern:?}. /models lists those with a key");
                Ok(ActionResult::Failed(why))
            }
        },
        several => {
            let rows = several.iter().take(MODELS_MAX).map(|at| {
                let Model { provider, id, .. } = models[*at].as_ref();
                let choice = ListChoice::Model { provider: provider.clone(), id: id.clone() };
                (names[*at].clone(), choice)
            });
            let title = format!("{} models match {pattern:?}:", several.len());
            Ok(ActionResult::List(NumberedList { title, rows: rows.collect() }))
        }
    }
}

/// The names that a pattern means: the one that equals it, or those that contain it.
fn matching(names: &[String], pattern: &str) -> Vec<usize> {
    let pattern = pattern.to_lowercase();
    if let Some(at) = names.iter().position(|name| name.to_lowercase() == pattern) {
        return vec![at];
    }
    let contains = |(_, name): &(usize, &String)| name.to_lowercase().contains(&pattern);
    names.iter().enumerate().filter(contains).map(|(at, _)| at).collect()
}

async fn list_models(client: &Client, pattern: &str) -> Result<ActionResult, ClientError> {
    let models = client.get_available_models(ALL).await?.models;
    let names: Vec<String> = models.iter().map(|model| model_name(model)).collect();
    let found: Vec<String> =
        matching(&names, pattern).into_iter().map(|at| format!("  {}", names[at])).collect();
    if found.is_empty() {
        let why = "no such model can be used. `tiller auth set PROVIDER` stores a key; \
                   tiller/demo needs none";
        return Ok(ActionResult::Failed(why.to_owned()));
    }
    Ok(ActionResult::Lines(found))
}

async fn show_thinking(client: &Client) -> Result<ActionResult, ClientError> {
    let state = client.get_state().await?;
    let levels = client.get_available_thinking_levels().await?.levels;
    let levels: Vec<&str> = levels.iter().map(|level| level.name()).collect();
    let current = state.thinking_level.name();
    Ok(note(format!("[thinking] {current}; the model has {}", levels.join(", "))))
}

async fn set_thinking(client: &Client, level: ThinkingLevel) -> Result<ActionResult, ClientError> {
    client.set_thinking_level(level).await?;
    let state = client.get_state().await?;
    if state.thinking_level == level {
        // `thinking_level_changed` shows a change.
        return Ok(ActionResult::Nothing);
    }
    let used = state.thinking_level.name();
    Ok(note(format!("[thinking] the model has no level {}; it uses {used}", level.name())))
}

async fn list_sessions(client: &Client) -> Result<ActionResult, ClientError> {
    let selection = ListSessions { limit: Some(SESSIONS_MAX), ..ListSessions::default() };
    let sessions = client.list_sessions(selection).await?.sessions;
    if sessions.is_empty() {
        return Ok(note("[resume] this folder has no stored session".to_owned()));
    }
    let rows = sessions.into_iter().map(|session| {
        let date = session.modified.get(..16).unwrap_or(&session.modified).replace('T', " ");
        let about = session.name.unwrap_or(session.first_message);
        let row = format!("{date}  {:>3} messages  {}", session.message_count, one_line(&about));
        (row, ListChoice::Session(session.path))
    });
    let title = "Which session? Type its number, or nothing to cancel.".to_owned();
    Ok(ActionResult::List(NumberedList { title, rows: rows.collect() }))
}

async fn list_fork_messages(client: &Client) -> Result<ActionResult, ClientError> {
    let messages = client.get_fork_messages().await?.messages;
    if messages.is_empty() {
        return Ok(note("[fork] there is no message to fork from".to_owned()));
    }
    let rows =
        messages.into_iter().map(|one| (one_line(&one.text), ListChoice::Fork(one.entry_id)));
    let title = "From which message? Type its number, or nothing to cancel.".to_owned();
    Ok(ActionResult::List(NumberedList { title, rows: rows.collect() }))
}

async fn stats(client: &Client) -> Result<ActionResult, ClientError> {
    let stats = client.get_session_stats().await?;
    let tokens = &stats.tokens;
    let mut lines = vec![
        format!(
            "messages  {} ({} from you, {} answers, {} tool calls)",
            stats.total_messages, stats.user_messages, stats.assistant_messages, stats.tool_calls
        ),
        format!(
            "tokens    {} ({} in, {} out, {} from the cache)",
            tokens.total, tokens.input, tokens.output, tokens.cache_read
        ),
        format!("cost      ${:.4}", stats.cost),
    ];
    if let Some(usage) = stats.context_usage {
        let used = usage.tokens.map_or("unknown".to_owned(), |tokens| tokens.to_string());
        let percent = usage.percent.map(|percent| format!(" ({percent:.0} %)")).unwrap_or_default();
        lines.push(format!("context   {used} of {} tokens{percent}", usage.context_window));
    }
    lines.push(format!("session   {}", stats.session_id));
    lines.extend(stats.session_file.map(|file| format!("file      {}", file.display())));
    Ok(ActionResult::Lines(lines))
}

async fn queue(client: &Client) -> Result<ActionResult, ClientError> {
    let messages = client.get_queue().await?.messages;
    if messages.is_empty() {
        return Ok(note("[queue] empty".to_owned()));
    }
    let lines = messages.iter().map(|message| {
        let queue = match message.queue {
            QueueName::Steering => "steering ",
            QueueName::FollowUp => "follow-up",
        };
        format!("  {queue}  {}", one_line(&message.text))
    });
    Ok(ActionResult::Lines(lines.collect()))
}

async fn clear_queue(client: &Client) -> Result<ActionResult, ClientError> {
    let cleared = client.clear_queue().await?;
    let count = cleared.steering.len() + cleared.follow_up.len();
    Ok(note(format!("[queue] {count} removed")))
}

async fn tools(client: &Client) -> Result<ActionResult, ClientError> {
    let tools = client.get_tools().await?.tools;
    let lines = tools.iter().map(|tool| {
        let mark = if tool.is_active { "on " } else { "off" };
        let source = match tool.source {
            ToolSource::Builtin => "",
            ToolSource::Extension => " (extension)",
            ToolSource::Host => " (host)",
            ToolSource::Mcp => " (mcp)",
        };
        let first = tool.description.lines().next().unwrap_or_default();
        format!("  {mark}  {}{source}  {}", tool.name, one_line(first))
    });
    Ok(ActionResult::Lines(lines.collect()))
}

async fn reload(client: &Client) -> Result<ActionResult, ClientError> {
    let data = client.reload().await?;
    let first = format!(
        "[reload] {} skills, {} templates, {} context files, {} rules",
        data.skills, data.prompt_templates, data.context_files, data.rules
    );
    let problems = data.diagnostics.iter().map(|problem| format!("Warning: {problem}"));
    let lines = std::iter::once(first).chain(problems).collect();
    Ok(ActionResult::SessionChanged { lines, text: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_means_the_equal_name_or_all_that_contain_it() {
        let names = ["a/large", "b/large", "b/large-2"].map(str::to_owned);
        for (pattern, expected) in [
            ("b/large", vec![1]),
            ("B/Large", vec![1]),
            ("a/", vec![0]),
            ("large", vec![0, 1, 2]),
            ("small", vec![]),
        ] {
            assert_eq!(matching(&names, pattern), expected, "{pattern}");
        }
    }
}
