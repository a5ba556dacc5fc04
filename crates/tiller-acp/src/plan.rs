//! The todo list of a session as the plan of ACP.

use agent_client_protocol_schema::v1::{
    Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate,
};
use serde_json::Value;
use tiller_agent::todo::{TodoList, TodoStatus};

/// The tool with which the model changes the list.
pub(crate) const TODO_TOOL: &str = "todo_write";

/// The list after a call of the tool, from the details of its result.
pub(crate) fn plan_of(details: &Value) -> Option<SessionUpdate> {
    let phases = details.get("phases")?;
    let list: TodoList = serde_json::from_value(phases.clone()).ok()?;
    Some(SessionUpdate::Plan(plan(&list)))
}

/// ACP has no state for a task that was given up, so such tasks are left out.
fn plan(list: &TodoList) -> Plan {
    let entries = list.tasks().filter_map(|(_, task)| {
        let status = match task.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            TodoStatus::Abandoned => return None,
        };
        Some(PlanEntry::new(task.content.clone(), PlanEntryPriority::Medium, status))
    });
    Plan::new(entries.collect())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn todo_list_becomes_a_plan() {
        let task = |id: &str, status: &str| json!({"id": id, "content": id, "status": status});
        let tasks = ["pending", "in_progress", "completed", "abandoned"].map(|one| task(one, one));
        let details = json!({ "phases": [{"id": "p", "name": "P", "tasks": tasks}] });
        let plan = plan_of(&details).unwrap();
        expect![[r#"{"sessionUpdate":"plan","entries":[{"content":"pending","priority":"medium","status":"pending"},{"content":"in_progress","priority":"medium","status":"in_progress"},{"content":"completed","priority":"medium","status":"completed"}]}"#]]
            .assert_eq(&serde_json::to_string(&plan).unwrap());
        assert_eq!(plan_of(&json!({})), None);
    }
}
