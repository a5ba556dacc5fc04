//! The operations by which a model changes the list, and the text it gets back.

use std::fmt::Write;

use serde::Deserialize;

use super::{DraftItem, DraftPhase, TodoItem, TodoList, TodoPhase, TodoStatus};

/// One operation. Ids of new phases and tasks continue from the highest number in use.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Replaces the whole list.
    Replace {
        phases: Vec<NewPhase>,
    },
    AddPhase(NewPhase),
    AddTask {
        /// The id of the phase.
        phase: String,
        content: String,
        #[serde(default)]
        notes: Option<String>,
        #[serde(default)]
        details: Option<String>,
    },
    Update(TaskUpdate),
    RemoveTask {
        id: String,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct NewPhase {
    name: String,
    #[serde(default)]
    tasks: Vec<NewTask>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct NewTask {
    content: String,
    #[serde(default)]
    status: Option<TodoStatus>,
    #[serde(default)]
    notes: Option<String>,
    #[serde(default)]
    details: Option<String>,
}

/// Missing fields stay unchanged.
#[derive(Debug, PartialEq, Deserialize)]
pub struct TaskUpdate {
    id: String,
    #[serde(default)]
    status: Option<TodoStatus>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    notes: Option<String>,
    #[serde(default)]
    details: Option<String>,
}

impl TodoList {
    /// Applies all valid operations, and returns errors for the others. Afterwards exactly one task
    /// is in progress, if any is left to do.
    pub fn apply(&mut self, ops: Vec<Op>) -> Vec<String> {
        let errors = ops.into_iter().filter_map(|op| self.apply_one(op).err()).collect();
        self.focus();
        errors
    }

    fn apply_one(&mut self, op: Op) -> Result<(), String> {
        match op {
            Op::Replace { phases } => {
                let drafts = phases.into_iter().map(|phase| DraftPhase {
                    id: None,
                    name: phase.name,
                    tasks: phase.tasks.into_iter().map(NewTask::draft).collect(),
                });
                *self = TodoList::new(drafts.collect());
            }
            Op::AddPhase(NewPhase { name, tasks }) => {
                let id = format!("phase-{}", next(self.phases.iter().map(|phase| &phase.id)));
                let first = next(self.tasks().map(|(_, task)| &task.id));
                let tasks = tasks.into_iter().zip(first..).map(|(task, number)| task.item(number));
                let tasks = tasks.collect();
                self.phases.push(TodoPhase { id, name, tasks });
            }
            Op::AddTask { phase: id, content, notes, details } => {
                let number = next(self.tasks().map(|(_, task)| &task.id));
                let phase = self.phases.iter_mut().find(|phase| phase.id == id);
                let phase = phase.ok_or_else(|| format!("Phase \"{id}\" not found"))?;
                let task = NewTask { content, status: None, notes, details };
                phase.tasks.push(task.item(number));
            }
            Op::Update(TaskUpdate { id, status, content, notes, details }) => {
                let task = self.task_mut(&id, EMPTY_ON_UPDATE)?;
                task.status = status.unwrap_or(task.status);
                if let Some(content) = content {
                    task.content = content;
                }
                task.notes = notes.or(task.notes.take());
                task.details = details.or(task.details.take());
            }
            Op::RemoveTask { id } => {
                self.task_mut(&id, EMPTY_ON_REMOVAL)?;
                for phase in &mut self.phases {
                    phase.tasks.retain(|task| task.id != id);
                }
            }
        }
        Ok(())
    }

    fn task_mut(&mut self, id: &str, when_empty: &str) -> Result<&mut TodoItem, String> {
        let hint = if self.tasks().next().is_none() { when_empty } else { "" };
        let mut tasks = self.phases.iter_mut().flat_map(|phase| &mut phase.tasks);
        let task = tasks.find(|task| task.id == id);
        task.ok_or_else(|| format!("Task \"{id}\" not found{hint}"))
    }

    /// Of several tasks in progress, keeps the first; if there is none, starts the first pending
    /// one.
    fn focus(&mut self) {
        let mut tasks: Vec<&mut TodoItem> =
            self.phases.iter_mut().flat_map(|phase| &mut phase.tasks).collect();
        let find =
            |tasks: &[&mut TodoItem], wanted| tasks.iter().position(|task| task.status == wanted);
        let current = find(&tasks, TodoStatus::InProgress);
        let Some(current) = current.or_else(|| find(&tasks, TodoStatus::Pending)) else { return };
        for (at, task) in tasks.iter_mut().enumerate() {
            if at == current {
                task.status = TodoStatus::InProgress;
            } else if task.status == TodoStatus::InProgress {
                task.status = TodoStatus::Pending;
            }
        }
    }

    /// The list as text for the model that has just changed it.
    pub fn summary(&self, errors: &[String]) -> String {
        let mut text = String::new();
        if !errors.is_empty() {
            writeln!(text, "Errors: {}", errors.join("; ")).expect(CANNOT_FAIL);
        }
        if self.tasks().next().is_none() {
            if errors.is_empty() {
                text.push_str("Todo list cleared.");
            }
            return text.trim_end().to_owned();
        }
        self.write_open(&mut text);
        self.write_progress(&mut text);
        for phase in &self.phases {
            writeln!(text, "  {}:", phase.name).expect(CANNOT_FAIL);
            for task in &phase.tasks {
                let sign = sign(task.status);
                writeln!(text, "    {sign} {} {}", task.id, task.content).expect(CANNOT_FAIL);
            }
        }
        text.trim_end().to_owned()
    }

    fn write_open(&self, text: &mut String) {
        let open: Vec<_> = self.open().collect();
        if open.is_empty() {
            text.push_str("Remaining items: none.\n");
            return;
        }
        writeln!(text, "Remaining items ({}):", open.len()).expect(CANNOT_FAIL);
        for (phase, task) in open {
            let TodoItem { id, content, status, details, .. } = task;
            let status = status.name();
            writeln!(text, "  - {id} {content} [{status}] ({})", phase.name).expect(CANNOT_FAIL);
            let details = details.as_deref().filter(|_| task.status == TodoStatus::InProgress);
            for line in details.unwrap_or_default().lines() {
                writeln!(text, "      {line}").expect(CANNOT_FAIL);
            }
        }
    }

    /// The progress of the current phase.
    fn write_progress(&self, text: &mut String) {
        let is_open = |phase: &TodoPhase| phase.tasks.iter().any(|task| !task.status.is_over());
        let last = self.phases.len() - 1;
        let at = self.phases.iter().position(is_open).unwrap_or(last);
        let phase = &self.phases[at];
        let done = phase.tasks.iter().filter(|task| task.status.is_over()).count();
        writeln!(
            text,
            "Phase {}/{} \"{}\" — {done}/{} tasks complete",
            at + 1,
            self.phases.len(),
            phase.name,
            phase.tasks.len(),
        )
        .expect(CANNOT_FAIL);
    }
}

const CANNOT_FAIL: &str = "writing to a String cannot fail";
const EMPTY_ON_UPDATE: &str = " (todo list is empty — was it replaced or not yet created?)";
const EMPTY_ON_REMOVAL: &str = " (todo list is empty)";

fn sign(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Completed => "✓",
        TodoStatus::InProgress => "→",
        TodoStatus::Abandoned => "✗",
        TodoStatus::Pending => "○",
    }
}

/// The number after the highest one in use.
fn next<'a>(ids: impl Iterator<Item = &'a String>) -> u64 {
    let numbers = ids.filter_map(|id| id.rsplit_once('-')?.1.parse::<u64>().ok());
    numbers.max().unwrap_or(0).saturating_add(1)
}

impl NewTask {
    fn draft(self) -> DraftItem {
        let NewTask { content, status, notes, details } = self;
        DraftItem { id: None, content, status, notes, details }
    }

    fn item(self, number: u64) -> TodoItem {
        TodoItem {
            id: format!("task-{number}"),
            content: self.content,
            status: self.status.unwrap_or_default(),
            notes: self.notes,
            details: self.details,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Applies the operations of several calls, and prints the last result.
    fn check(calls: &[&str], expect: Expect) {
        let mut list = TodoList::default();
        let mut summary = String::new();
        for ops in calls {
            let errors = list.apply(serde_json::from_str(ops).unwrap());
            summary = list.summary(&errors);
        }
        expect.assert_eq(&summary);
    }

    const PLAN: &str = r#"[{"op":"replace","phases":[
        {"name":"Look","tasks":[{"content":"read","details":"all of it\ntwice"},{"content":"think"}]},
        {"name":"Do","tasks":[{"content":"write","notes":"soon","details":"never shown"}]}]}]"#;

    #[test]
    fn new_list_starts_its_first_task() {
        check(
            &[PLAN],
            expect![[r#"
            Remaining items (3):
              - task-1 read [in_progress] (Look)
                  all of it
                  twice
              - task-2 think [pending] (Look)
              - task-3 write [pending] (Do)
            Phase 1/2 "Look" — 0/2 tasks complete
              Look:
                → task-1 read
                ○ task-2 think
              Do:
                ○ task-3 write"#]],
        );
    }

    #[test]
    fn exactly_one_task_is_in_progress() {
        check(
            &[PLAN, r#"[{"op":"update","id":"task-1","status":"completed"}]"#],
            expect![[r#"
            Remaining items (2):
              - task-2 think [in_progress] (Look)
              - task-3 write [pending] (Do)
            Phase 1/2 "Look" — 1/2 tasks complete
              Look:
                ✓ task-1 read
                → task-2 think
              Do:
                ○ task-3 write"#]],
        );
        check(
            &[
                PLAN,
                r#"[{"op":"update","id":"task-3","status":"in_progress"},
                {"op":"update","id":"task-2","status":"abandoned"}]"#,
            ],
            expect![[r#"
                Remaining items (2):
                  - task-1 read [in_progress] (Look)
                      all of it
                      twice
                  - task-3 write [pending] (Do)
                Phase 1/2 "Look" — 1/2 tasks complete
                  Look:
                    → task-1 read
                    ✗ task-2 think
                  Do:
                    ○ task-3 write"#]],
        );
    }

    #[test]
    fn new_ids_continue_from_the_highest() {
        check(
            &[
                PLAN,
                r#"[{"op":"remove_task","id":"task-2"},
                {"op":"add_task","phase":"phase-1","content":"ask"},
                {"op":"add_phase","name":"Rest","tasks":[{"content":"sleep"},{"content":"wake"}]},
                {"op":"add_phase","name":"Nothing"}]"#,
            ],
            expect![[r#"
                Remaining items (5):
                  - task-1 read [in_progress] (Look)
                      all of it
                      twice
                  - task-4 ask [pending] (Look)
                  - task-3 write [pending] (Do)
                  - task-5 sleep [pending] (Rest)
                  - task-6 wake [pending] (Rest)
                Phase 1/4 "Look" — 0/2 tasks complete
                  Look:
                    → task-1 read
                    ○ task-4 ask
                  Do:
                    ○ task-3 write
                  Rest:
                    ○ task-5 sleep
                    ○ task-6 wake
                  Nothing:"#]],
        );
    }

    #[test]
    fn invalid_operation_does_not_stop_the_others() {
        check(
            &[
                PLAN,
                r#"[{"op":"update","id":"task-9","status":"completed"},
                {"op":"add_task","phase":"Look","content":"by name"},
                {"op":"remove_task","id":"x"},
                {"op":"update","id":"task-1","status":"completed","content":"read it"},
                {"op":"update","id":"task-2","status":"completed"},
                {"op":"update","id":"task-3","status":"abandoned"}]"#,
            ],
            expect![[r#"
                Errors: Task "task-9" not found; Phase "Look" not found; Task "x" not found
                Remaining items: none.
                Phase 2/2 "Do" — 1/1 tasks complete
                  Look:
                    ✓ task-1 read it
                    ✓ task-2 think
                  Do:
                    ✗ task-3 write"#]],
        );
    }

    #[test]
    fn empty_list_is_stated() {
        check(&[PLAN, r#"[{"op":"replace","phases":[]}]"#], expect!["Todo list cleared."]);
        check(
            &[r#"[{"op":"update","id":"task-1"},{"op":"remove_task","id":"task-1"}]"#],
            expect![[
                r#"Errors: Task "task-1" not found (todo list is empty — was it replaced or not yet created?); Task "task-1" not found (todo list is empty)"#
            ]],
        );
    }
}
