//! `set_todos`: a client sets the todo list.

use serde::Serialize;
use tiller_agent::todo::{DraftPhase, TodoList};

use super::data;
use crate::dispatch::Handled;
use crate::state::SessionState;
use crate::todos;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TodoData<'a> {
    todo_phases: &'a TodoList,
}

pub(crate) fn set_todos(state: &mut SessionState, phases: Vec<DraftPhase>) -> Handled {
    todos::set_todos(state, TodoList::new(phases))?;
    data(&TodoData { todo_phases: todos::todos(state) })
}
