//! The todo list: the model's plan, in phases, and its progress.
//!
//! These formats are on the wire and in session files. A client sets the whole list; a model
//! changes it step by step (see [`ops`]).

pub mod ops;

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Phases in order, each with its tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TodoList {
    pub phases: Vec<TodoPhase>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TodoPhase {
    pub id: String,
    pub name: String,
    pub tasks: Vec<TodoItem>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TodoItem {
    pub id: String,
    pub content: String,
    pub status: TodoStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Abandoned,
}

impl TodoStatus {
    pub fn name(self) -> &'static str {
        match self {
            TodoStatus::Pending => "pending",
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed => "completed",
            TodoStatus::Abandoned => "abandoned",
        }
    }

    /// Whether it needs no more work.
    pub fn is_over(self) -> bool {
        matches!(self, TodoStatus::Completed | TodoStatus::Abandoned)
    }
}

/// A phase as a client or model writes it: missing fields are filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a phase")]
pub struct DraftPhase {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub name: String,
    pub tasks: Vec<DraftItem>,
}

/// A task, with missing fields likewise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a task")]
pub struct DraftItem {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TodoStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

impl TodoList {
    /// Creates a list in which everything has a unique id and a status.
    pub fn new(drafts: Vec<DraftPhase>) -> TodoList {
        let mut phase_ids = Ids::of("phase", drafts.iter().map(|phase| &phase.id));
        let tasks = drafts.iter().flat_map(|phase| &phase.tasks);
        let mut task_ids = Ids::of("task", tasks.map(|task| &task.id));
        let phases = drafts.into_iter().map(|phase| TodoPhase {
            id: phase_ids.take(phase.id),
            name: phase.name,
            tasks: phase
                .tasks
                .into_iter()
                .map(|task| TodoItem {
                    id: task_ids.take(task.id),
                    content: task.content,
                    status: task.status.unwrap_or_default(),
                    notes: task.notes,
                    details: task.details,
                })
                .collect(),
        });
        TodoList { phases: phases.collect() }
    }

    /// All tasks, each with its phase.
    pub fn tasks(&self) -> impl Iterator<Item = (&TodoPhase, &TodoItem)> {
        self.phases.iter().flat_map(|phase| phase.tasks.iter().map(move |task| (phase, task)))
    }

    /// The tasks that are not done.
    pub fn open(&self) -> impl Iterator<Item = (&TodoPhase, &TodoItem)> {
        self.tasks().filter(|(_, task)| !task.status.is_over())
    }

    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// Keeps the tasks for which `wanted` returns true, and the phases that have any.
    pub fn retain(&mut self, wanted: impl Fn(&TodoItem) -> bool) {
        for phase in &mut self.phases {
            phase.tasks.retain(&wanted);
        }
        self.phases.retain(|phase| !phase.tasks.is_empty());
    }

    /// The unfinished tasks, to be continued in another process or session.
    pub fn without_finished(mut self) -> TodoList {
        self.retain(|task| !task.status.is_over());
        self
    }
}

/// Assigns ids: keeps given ones, creates new ones for the rest.
struct Ids {
    word: &'static str,
    /// Given ids, which new ones must not equal.
    given: HashSet<String>,
    taken: HashSet<String>,
    next: u64,
}

impl Ids {
    fn of<'a>(word: &'static str, given: impl Iterator<Item = &'a Option<String>>) -> Ids {
        Ids { word, given: given.flatten().cloned().collect(), taken: HashSet::new(), next: 1 }
    }

    /// This id or, if it is missing or already used, a new one.
    fn take(&mut self, id: Option<String>) -> String {
        let own = id.filter(|id| !id.is_empty() && self.taken.insert(id.clone()));
        own.unwrap_or_else(|| {
            loop {
                let id = format!("{}-{}", self.word, self.next);
                self.next += 1;
                if !self.given.contains(&id) {
                    return id;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(drafts: &str, expect: Expect) {
        let list = TodoList::new(serde_json::from_str(drafts).unwrap());
        let lines = list.phases.iter().map(|phase| {
            let tasks = phase.tasks.iter();
            let tasks = tasks.map(|task| format!("{} {}", task.id, task.status.name()));
            format!("{}: {}\n", phase.id, tasks.collect::<Vec<_>>().join(", "))
        });
        expect.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn missing_ids_and_statuses_are_filled_in() {
        check(
            r#"[{"name":"a","tasks":[{"content":"x"},{"content":"y","status":"completed"}]},
                {"name":"b","tasks":[{"content":"z","status":"in_progress"}]},
                {"name":"c","tasks":[]}]"#,
            expect![[r#"
                phase-1: task-1 pending, task-2 completed
                phase-2: task-3 in_progress
                phase-3: 
            "#]],
        );
    }

    #[test]
    fn given_ids_are_kept_and_unique() {
        check(
            r#"[{"name":"a","tasks":[{"content":"x"},{"id":"task-1","content":"y"},
                 {"id":"mine","content":"z"},{"id":"mine","content":"again"},{"id":"","content":"none"}]},
                {"id":"phase-1","name":"b","tasks":[]}]"#,
            expect![[r#"
                phase-2: task-2 pending, task-1 pending, mine pending, task-3 pending, task-4 pending
                phase-1: 
            "#]],
        );
    }
}
