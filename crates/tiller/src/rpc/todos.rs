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
use tiller_session::Body;

use super::server::Input;
use super::state::SessionState;
use super::tasks::{Pause, Responder};
use super::todo_tool;
use super::wire::Level;
use crate::settings::TodoSettings;

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
    pub(crate) level: Level,
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

const PRELUDE: &str = include_str!("../../prompts/todo-prelude.md");
const REMINDER: &str = include_str!("../../prompts/todo-reminder.md");

impl Todos {
    pub(crate) fn new(level: Level) -> Todos {
        let (list, clearing) = (None, HashMap::new());
        Todos { list, clearing, clearings: 0, reminders: 0, is_due: false, level }
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
    pub(super) fn user_spoke(&mut self) {
        self.reminders = 0;
    }

    /// The model has answered, or will not.
    pub(super) fn answered(&mut self) {
        self.is_due = false;
    }
}

impl SessionState {
    /// The list; reads it from the session on first use.
    pub(crate) fn todos(&mut self) -> &TodoList {
        if self.todos.list.is_none() {
            let list = self.stored_todos();
            self.todos.list = Some(list);
        }
        self.todos.list.get_or_insert_default()
    }

    fn stored_todos(&mut self) -> TodoList {
        #[derive(Deserialize)]
        struct Stored {
            phases: TodoList,
        }
        match self.conversation.session().newest_data(ENTRY, todo_tool::NAME) {
            Ok(data) => {
                // A list in an unknown format is ignored.
                let stored = data.and_then(|data| Stored::deserialize(data).ok());
                stored.map(|stored| stored.phases.without_finished()).unwrap_or_default()
            }
            Err(err) => {
                self.emit(Event::SessionError { error: err.to_string() });
                TodoList::default()
            }
        }
    }

    /// Replaces the list with a client's, once it is stored.
    pub(crate) fn set_todos(&mut self, list: TodoList) -> Result<(), String> {
        let data = Some(json!({ "phases": list }));
        self.append_entry(Body::Custom { custom_type: ENTRY.to_owned(), data })?;
        self.change_todos(list);
        Ok(())
    }

    /// Applies a model's changes. The tool result stores them.
    pub(super) fn todo_write(&mut self, write: TodoWrite) {
        let TodoWrite { ops, answer } = write;
        let mut list = self.todos().clone();
        let errors = list.apply(ops);
        let storage = if self.conversation.file().is_some() { "session" } else { "memory" };
        let output = ToolOutput::text(list.summary(&errors));
        let output = output.details(json!({ "phases": list, "storage": storage }));
        self.change_todos(list);
        answer.respond(Ok(output));
    }

    /// Replaces the list, and schedules each newly finished task for clearing.
    fn change_todos(&mut self, list: TodoList) {
        let over = list.tasks().filter(|(_, task)| task.status.is_over());
        let over: HashSet<String> = over.map(|(_, task)| task.id.clone()).collect();
        self.todos.clearing.retain(|id, _| over.contains(id));
        self.todos.list = Some(list);
        let Ok(delay) = u64::try_from(self.settings.tasks.todo_clear_delay) else { return };
        for id in over {
            if !self.todos.clearing.contains_key(&id) {
                self.clear_later(id, Duration::from_secs(delay));
            }
        }
    }

    fn clear_later(&mut self, task_id: String, delay: Duration) {
        self.todos.clearings += 1;
        let number = self.todos.clearings;
        let due = TodoDue { task_id: task_id.clone(), number };
        let _delay = self.tasks.after(delay, Input::TodoDue(due));
        self.todos.clearing.insert(task_id, Clearing { number, _delay });
    }

    /// Clears a finished task.
    pub(super) fn clear_todo(&mut self, due: TodoDue) {
        let TodoDue { task_id, number } = due;
        // The task may have been reopened since.
        let clearing = self.todos.clearing.get(&task_id);
        if clearing.is_none_or(|clearing| clearing.number != number) {
            return;
        }
        self.todos.clearing.remove(&task_id);
        if let Some(list) = &mut self.todos.list {
            list.retain(|task| task.id != task_id || !task.status.is_over());
            self.emit(Event::TodoAutoClear);
        }
    }

    /// Whether the model has the tool: if the command line names it, at every level; otherwise at
    /// xcsh's level.
    pub(super) fn offers_todos(&self) -> bool {
        let is_wanted = self.workspace.todo_tool.unwrap_or(self.todos.level == Level::Xcsh);
        is_wanted && self.todo_settings().enabled
    }

    fn todo_settings(&self) -> TodoSettings {
        match self.todos.level {
            Level::Xcsh => TodoSettings::default(),
            Level::Pi | Level::PiDelta => self.settings.todo,
        }
    }

    /// Adds the todo prelude to the first prompt of a session at xcsh's level. A prompt that ends
    /// in `?` or `!` is hardly a task and gets none.
    pub(super) fn with_todo_prelude(&mut self, mut messages: Vec<Message>) -> Vec<Message> {
        let is_first = self.conversation.session().stats().user_messages == 0;
        let text = match messages.first() {
            Some(Message::User(UserMessage { content, .. })) => content.text(),
            _ => String::new(),
        };
        let is_eager = self.todos.level == Level::Xcsh
            && self.todo_settings().eager
            && self.offers_todos()
            && is_first
            && !text.trim_end().ends_with(['?', '!']);
        if !is_eager || !self.todos().is_empty() {
            return messages;
        }
        self.todos.is_due = true;
        messages
            .insert(0, self.hidden_message("eager-todo-prelude", PRELUDE.trim_end().to_owned()));
        messages
    }

    /// The reminder for a model that has stopped with open tasks, up to a limit.
    pub(super) fn remind_of_todos(&mut self) -> Option<Message> {
        let settings = self.todo_settings();
        if self.todos().open().next().is_none() {
            self.todos.reminders = 0;
        }
        if !self.will_remind() {
            return None;
        }
        let open: Vec<_> = self.todos().open().map(|(_, task)| task.clone()).collect();
        self.todos.reminders += 1;
        let (attempt, max_attempts) = (self.todos.reminders, settings.reminders_max);
        let text = reminder(self.todos(), open.len(), attempt, max_attempts);
        self.emit(Event::TodoReminder { todos: open, attempt, max_attempts });
        Some(self.hidden_message("todo-reminder", text))
    }

    /// Whether the model would get a reminder if it stopped now.
    pub(super) fn will_remind(&mut self) -> bool {
        let settings = self.todo_settings();
        let is_wanted = !self.is_shutting_down && settings.reminders && self.offers_todos();
        is_wanted
            && self.has_stopped()
            && self.todos().open().next().is_some()
            && self.todos.reminders < settings.reminders_max
    }

    /// Whether the newest answer succeeded and calls no tools.
    fn has_stopped(&self) -> bool {
        let mut messages = self.conversation.loaded().unwrap_or_default().iter().rev();
        let answer = messages.find_map(|message| message.as_assistant());
        answer.is_some_and(|answer| !answer.failed() && answer.tool_calls().next().is_none())
    }

    /// A hidden message: sent to the model, not displayed.
    fn hidden_message(&self, custom_type: &str, text: String) -> Message {
        Message::Custom(CustomMessage {
            custom_type: custom_type.to_owned(),
            content: Content::Text(text),
            display: false,
            details: None,
            timestamp: self.clock.now(),
        })
    }
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
