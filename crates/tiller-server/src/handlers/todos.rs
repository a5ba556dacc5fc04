//! `set_todos`: a client sets the todo list.

use std::borrow::Cow;

use tiller_agent::todo::{DraftPhase, TodoList};
use tiller_protocol::data::TodosData;

use super::data;
use crate::dispatch::Handled;
use crate::state::SessionState;
use crate::todos;

pub(crate) fn set_todos(state: &mut SessionState, phases: Vec<DraftPhase>) -> Handled {
    todos::set_todos(state, TodoList::new(phases))?;
    data(&TodosData { todo_phases: Cow::Borrowed(todos::todos(state)) })
}
