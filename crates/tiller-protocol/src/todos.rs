//! Events about the todo list.

use serde::Serialize;
use tiller_agent::todo::{TodoItem, TodoStatus};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reminder<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    todos: Vec<Todo<'a>>,
    attempt: u32,
    max_attempts: u32,
}

#[derive(Serialize)]
struct Todo<'a> {
    id: &'a str,
    content: &'a str,
    status: TodoStatus,
}

impl<'a> Reminder<'a> {
    pub(crate) fn of(todos: &'a [TodoItem], attempt: u32, max_attempts: u32) -> Reminder<'a> {
        let todo =
            |item: &'a TodoItem| Todo { id: &item.id, content: &item.content, status: item.status };
        let todos = todos.iter().map(todo).collect();
        Reminder { kind: "todo_reminder", todos, attempt, max_attempts }
    }
}
