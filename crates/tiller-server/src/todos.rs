//! The todo list of the session.
//!
//! A client sets the whole list, a model changes it with `todo_write`. The model's changes are
//! stored in its tool results, the client's in a custom entry; the newer one counts. The list is
//! read on first use, so that opening a large session does not read it all.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tiller_agent::event::Event;
use tiller_agent::message::{Content, CustomMessage, Message, UserMessage};
use tiller_agent::todo::TodoList;
use tiller_agent::todo::ops::Op;
use tiller_agent::tool::{ToolOutput, ToolResult};
use tiller_config::settings::TodoSettings;
use tiller_protocol::Level;
use tiller_session::Body;

use crate::server::Input;
use crate::state::SessionState;
use crate::tasks::{Pause, Responder};
use crate::todo_tool;

pub(crate) struct Todos {
    /// Nothing until the list is first used in this session.
    list: Option<TodoList>,
    /// Finished tasks that will be cleared, by their ids.
    clearing: HashMap<String, Clearing>,
    clearings: u64,
    /// Reminders since the last user message.
    reminders: u32,
    /// The next answer must begin with `todo_write`.
    is_due: bool,
    /// At xcsh's level the model is expected to keep a list, and the user's settings for it do not
    /// apply.
    level: Level,
}

struct Clearing {
    number: u64,
    _delay: Pause,
}

/// A finished task is due to leave the list.
pub struct TodoDue {
    task_id: String,
    number: u64,
}

/// A change of the list by the model, and where its result goes.
pub struct TodoWrite {
    pub(super) ops: Vec<Op>,
    pub(super) answer: Responder<ToolResult>,
}

/// The `customType` of the entry with a client's list.
const ENTRY: &str = "tiller.todos";

const PRELUDE: &str = include_str!("../prompts/todo-prelude.md");
const REMINDER: &str = include_str!("../prompts/todo-reminder.md");

impl Todos {
    pub(crate) fn new(level: Level) -> Todos {
        let list = None;
        let clearing = HashMap::new();
        Todos { list, clearing, clearings: 0, reminders: 0, is_due: false, level }
    }

    pub(super) fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// The tool that the next answer must call first.
    pub(super) fn forced_tool(&self) -> Option<String> {
        self.is_due.then(|| todo_tool::NAME.to_owned())
    }

    /// Forgets the list, for another session or branch.
    pub(super) fn forget(&mut self) {
        *self = Todos::new(self.level);
    }

    /// A user message resets the count of reminders.
    pub(super) fn user_message_added(&mut self) {
        self.reminders = 0;
    }

    /// The model has answered, or will not.
    pub(super) fn answered(&mut self) {
        self.is_due = false;
    }
}

/// The list; reads it from the session on first use.
pub(crate) fn todos(state: &mut SessionState) -> &TodoList {
    if state.todos.list.is_none() {
        let list = stored_todos(state);
        state.todos.list = Some(list);
    }
    state.todos.list.get_or_insert_default()
}

fn stored_todos(state: &mut SessionState) -> TodoList {
    #[derive(Deserialize)]
    struct Stored {
        phases: TodoList,
    }
    match state.session.conversation().session().newest_data(ENTRY, todo_tool::NAME) {
        Ok(data) => {
            // A list in an unknown format is ignored.
            let stored = data.and_then(|data| Stored::deserialize(data).ok());
            stored.map(|stored| stored.phases.without_finished()).unwrap_or_default()
        }
        Err(err) => {
            state.emit(Event::SessionError { error: err.to_string() });
            TodoList::default()
        }
    }
}

/// Replaces the list with a client's, once it is stored.
pub(crate) fn set_todos(state: &mut SessionState, list: TodoList) -> Result<(), String> {
    let data = Some(json!({ "phases": list }));
    state.append_entry(Body::Custom { custom_type: ENTRY.to_owned(), data })?;
    change_todos(state, list);
    Ok(())
}

/// Applies a model's changes. The tool result stores them.
pub(super) fn todo_write(state: &mut SessionState, write: TodoWrite) {
    let TodoWrite { ops, answer } = write;
    let mut list = todos(state).clone();
    let errors = list.apply(ops);
    let storage = if state.session.conversation().file().is_some() { "session" } else { "memory" };
    let output = ToolOutput::text(list.summary(&errors));
    let output = output.details(json!({ "phases": list, "storage": storage }));
    change_todos(state, list);
    answer.respond(Ok(output));
}

/// Replaces the list, and schedules each newly finished task for clearing.
fn change_todos(state: &mut SessionState, list: TodoList) {
    let over = list.tasks().filter(|(_, task)| task.status.is_over());
    let over: HashSet<String> = over.map(|(_, task)| task.id.clone()).collect();
    state.todos.clearing.retain(|id, _| over.contains(id));
    state.todos.list = Some(list);
    let Ok(delay) = u64::try_from(state.project.settings().tasks.todo_clear_delay) else { return };
    for id in over {
        if !state.todos.clearing.contains_key(&id) {
            clear_later(state, id, Duration::from_secs(delay));
        }
    }
}

fn clear_later(state: &mut SessionState, task_id: String, delay: Duration) {
    state.todos.clearings += 1;
    let number = state.todos.clearings;
    let due = TodoDue { task_id: task_id.clone(), number };
    let _delay = state.tasks.after(delay, Input::TodoDue(due));
    state.todos.clearing.insert(task_id, Clearing { number, _delay });
}

/// Clears a finished task.
pub(super) fn clear_todo(state: &mut SessionState, due: TodoDue) {
    let TodoDue { task_id, number } = due;
    // The task may have been reopened since.
    let clearing = state.todos.clearing.get(&task_id);
    if clearing.is_none_or(|clearing| clearing.number != number) {
        return;
    }
    state.todos.clearing.remove(&task_id);
    if let Some(list) = &mut state.todos.list {
        list.retain(|task| task.id != task_id || !task.status.is_over());
        state.emit(Event::TodoAutoClear);
    }
}

/// Whether the model has the tool: if the command line names it, at every level; otherwise at
/// xcsh's level.
pub(super) fn offers_todos(state: &SessionState) -> bool {
    let is_enabled = state.tools.todo_tool().unwrap_or(state.todos.level == Level::Xcsh);
    is_enabled && todo_settings(state).enabled
}

fn todo_settings(state: &SessionState) -> TodoSettings {
    match state.todos.level {
        Level::Xcsh => TodoSettings::default(),
        Level::Pi | Level::PiDelta => state.project.settings().todo,
    }
}

/// Adds the todo prelude to the first prompt of a session at xcsh's level. A prompt that ends
/// in `?` or `!` is hardly a task and gets none.
pub(super) fn with_todo_prelude(
    state: &mut SessionState,
    mut messages: Vec<Message>,
) -> Vec<Message> {
    let is_first = state.session.conversation().session().stats().user_messages == 0;
    let text = match messages.first() {
        Some(Message::User(UserMessage { content, .. })) => content.text(),
        _ => String::new(),
    };
    let is_eager = state.todos.level == Level::Xcsh
        && todo_settings(state).eager
        && offers_todos(state)
        && is_first
        && !text.trim_end().ends_with(['?', '!']);
    if !is_eager || !todos(state).is_empty() {
        return messages;
    }
    state.todos.is_due = true;
    messages.insert(0, hidden_message(state, "eager-todo-prelude", PRELUDE.trim_end().to_owned()));
    messages
}

/// Counts reminders anew when no task is open.
pub(super) fn forget_reminders_if_done(state: &mut SessionState) {
    if state.todos.reminders > 0 && todos(state).open().next().is_none() {
        state.todos.reminders = 0;
    }
}

/// The reminder for a model that has stopped with open tasks.
pub(super) fn reminder_message(state: &mut SessionState) -> Message {
    let settings = todo_settings(state);
    let open: Vec<_> = todos(state).open().map(|(_, task)| task.clone()).collect();
    state.todos.reminders += 1;
    let attempt = state.todos.reminders;
    let max_attempts = settings.reminders_max;
    let text = reminder(todos(state), open.len(), attempt, max_attempts);
    state.emit(Event::TodoReminder { todos: open, attempt, max_attempts });
    hidden_message(state, "todo-reminder", text)
}

/// Whether the model would get a reminder if it stopped now.
pub(super) fn will_remind(state: &mut SessionState) -> bool {
    let settings = todo_settings(state);
    let is_enabled = !state.work.is_shutting_down() && settings.reminders && offers_todos(state);
    is_enabled
        && has_stopped(state)
        && todos(state).open().next().is_some()
        && state.todos.reminders < settings.reminders_max
}

/// Whether the newest answer succeeded and calls no tools.
fn has_stopped(state: &SessionState) -> bool {
    let mut messages = state.session.conversation().loaded().unwrap_or_default().iter().rev();
    let answer = messages.find_map(|message| message.as_assistant());
    answer.is_some_and(|answer| !answer.failed() && answer.tool_calls().next().is_none())
}

/// A hidden message: sent to the model, not displayed.
fn hidden_message(state: &SessionState, custom_type: &str, text: String) -> Message {
    Message::Custom(CustomMessage {
        custom_type: custom_type.to_owned(),
        content: Content::Text(text),
        display: false,
        details: None,
        timestamp: state.clock.now(),
    })
}

fn reminder(list: &TodoList, count: usize, attempt: u32, max_attempts: u32) -> String {
    let mut items = Vec::new();
    for phase in &list.phases {
        let open = phase.tasks.iter().filter(|task| !task.status.is_over());
        let lines: Vec<String> = open.map(|task| format!("  - {}", task.content)).collect();
        if !lines.is_empty() {
            items.push(format!("- {}", phase.name));
            items.extend(lines);
        }
    }
    REMINDER
        .trim_end()
        .replace("{count}", &count.to_string())
        .replace("{attempt}", &attempt.to_string())
        .replace("{max}", &max_attempts.to_string())
        .replace("{items}", &items.join("\n"))
}
