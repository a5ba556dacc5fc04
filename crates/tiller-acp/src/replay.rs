//! A stored conversation as updates: every message of the current branch, in order.

use std::collections::{HashMap, HashSet};

use agent_client_protocol_schema::v1::SessionUpdate;
use serde::Deserialize;
use serde_json::Value;
use tiller_agent::message::{Content, CustomMessage, Message};
use tiller_protocol::data::EntriesData;

use crate::tool_content::CallOutput;
use crate::updates::Updates;

/// An entry of a session, as far as a client sees it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    #[serde(default)]
    parent_id: Option<String>,
    #[serde(flatten)]
    body: Value,
}

/// The updates that show the conversation of these entries. Entries of abandoned branches, and those
/// that cannot be read, are left out.
pub(crate) fn replay(data: &EntriesData<'_>, updates: &mut Updates) -> Vec<SessionUpdate> {
    let read = |entry: &tiller_protocol::Json<'_>| entry.read::<Entry>().ok();
    let entries: Vec<Entry> = data.entries.iter().filter_map(read).collect();
    let branch = branch(&entries, data.leaf_id.as_deref());
    let on_branch = entries.iter().filter(|entry| branch.contains(&*entry.id));
    let mut shown: Vec<SessionUpdate> =
        on_branch.flat_map(|entry| entry_updates(&entry.body, updates)).collect();
    // Calls that a crash has left without a result.
    shown.extend(updates.fail_open_calls());
    shown
}

/// The ids from the leaf to the root.
fn branch<'a>(entries: &'a [Entry], leaf: Option<&str>) -> HashSet<&'a str> {
    let by_id: HashMap<&str, &Entry> =
        entries.iter().map(|entry| (entry.id.as_str(), entry)).collect();
    let mut branch = HashSet::new();
    let mut next = leaf.and_then(|leaf| by_id.get(leaf));
    while let Some(entry) = next {
        // A file may be damaged: a parent that is its own ancestor ends the branch.
        if !branch.insert(entry.id.as_str()) {
            break;
        }
        next = entry.parent_id.as_deref().and_then(|parent| by_id.get(parent));
    }
    branch
}

fn entry_updates(body: &Value, updates: &mut Updates) -> Vec<SessionUpdate> {
    let summary = || body.get("summary").and_then(Value::as_str).unwrap_or_default();
    match body.get("type").and_then(Value::as_str) {
        Some("message") => {
            let message = body.get("message").map(Message::deserialize);
            message.and_then(Result::ok).map(|message| message_updates(&message, updates))
        }
        Some("custom_message") => {
            let field = |name: &str| body.get(name).cloned().unwrap_or_default();
            Content::deserialize(field("content")).ok().map(|content| {
                updates.custom(&CustomMessage {
                    custom_type: String::new(),
                    content,
                    display: field("display") == Value::Bool(true),
                    details: None,
                    timestamp: 0,
                })
            })
        }
        Some("compaction") => Some(updates.stored_compaction(summary()).into_iter().collect()),
        _ => None,
    }
    .unwrap_or_default()
}

fn message_updates(message: &Message, updates: &mut Updates) -> Vec<SessionUpdate> {
    match message {
        Message::User(user) => updates.user(&user.content),
        Message::Assistant(answer) => updates.answer(&answer.content),
        Message::ToolResult(result) => {
            let output = CallOutput {
                content: &result.content,
                details: result.details.as_ref(),
                is_error: result.is_error,
            };
            updates.call_ended(&result.tool_call_id, &output)
        }
        Message::BashExecution(bash) => updates.bash(bash),
        Message::Custom(custom) => updates.custom(custom),
        Message::BranchSummary(_) | Message::CompactionSummary(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::initialize::ClientOffer;

    #[test]
    fn current_branch_is_replayed() {
        let usage = json!({});
        let answer = |content: Value| {
            json!({"role": "assistant", "content": content, "api": "a", "provider": "p",
                   "model": "m", "usage": usage, "stopReason": "stop", "timestamp": 1})
        };
        let entry = |id: &str, parent: Option<&str>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": "", "message": message});
        let call = json!({"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}});
        let data: EntriesData = serde_json::from_value(json!({
            "entries": [
                entry("1", None, json!({"role": "user", "content": "Hi", "timestamp": 1})),
                entry("x", Some("1"), json!({"role": "user", "content": "abandoned", "timestamp": 1})),
                {"type": "model_change", "id": "2", "parentId": "1", "timestamp": "", "provider": "p", "modelId": "m"},
                entry("3", Some("2"), answer(json!([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "See"}, call]))),
                entry("4", Some("3"), json!({"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "content": [{"type": "text", "text": "a\n"}], "isError": false, "timestamp": 1})),
                {"type": "custom_message", "id": "5", "parentId": "4", "timestamp": "", "customType": "t", "content": "shown", "display": true},
                {"type": "compaction", "id": "6", "parentId": "5", "timestamp": "", "summary": "short", "firstKeptEntryId": "1", "tokensBefore": 1},
                {"type": "message", "id": "7", "parentId": "6", "message": 3},
            ],
            "leafId": "7",
        }))
        .unwrap();
        let offer = ClientOffer { compactions: true, ..ClientOffer::default() };
        let mut updates = Updates::new(Path::new("/w"), offer);
        let shown = replay(&data, &mut updates);
        let lines: Vec<String> =
            shown.iter().map(|update| serde_json::to_string(update).unwrap()).collect();
        expect![[r#"
            {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"Hi"},"messageId":"m1"}
            {"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hm"},"messageId":"m2"}
            {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"See"},"messageId":"m2"}
            {"sessionUpdate":"tool_call","toolCallId":"c1","title":"List .","name":"ls","kind":"search"}
            {"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","title":"List .","content":[{"type":"content","content":{"type":"text","text":"```\na\n```"}}],"rawOutput":{"output":"a\n"}}
            {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"shown"},"messageId":"m3"}
            {"sessionUpdate":"compaction_update","compactionId":"compaction-1","status":"completed","summary":[{"type":"text","text":"short"}]}"#]].assert_eq(&lines.join("\n"));
    }
}
