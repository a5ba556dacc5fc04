//! Laws of approvals: a call is asked about once and before it starts, and one that was asked about
//! runs only if the answer allows it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::wording::plain;

#[derive(Default)]
pub struct ApprovalLaws {
    /// The tools of which every call needs an approval.
    guarded: &'static [&'static str],
    started: BTreeSet<String>,
    questions: BTreeMap<String, Question>,
    /// The calls that questions are about, by the ids of the questions.
    calls: BTreeMap<String, String>,
    allowed: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Question {
    Open,
    Allowed,
    Denied,
}

impl ApprovalLaws {
    /// No call of these tools may run without an answer.
    pub fn guard(&mut self, tools: &'static [&'static str]) {
        self.guarded = tools;
    }

    /// How many calls the client has allowed.
    pub fn allowed(&self) -> usize {
        self.allowed
    }

    /// Notes an answer of the client. Only the first one counts.
    pub fn sent(&mut self, request: &Map<String, Value>) {
        let Some(call) = request.get("id").and_then(|id| self.calls.get(&plain(id))) else {
            return;
        };
        let Some(question) = self.questions.get_mut(call) else { return };
        if *question == Question::Open {
            let value = request.get("value").and_then(Value::as_str).unwrap_or_default();
            *question =
                if value.starts_with("Allow") { Question::Allowed } else { Question::Denied };
        }
    }

    pub fn watch(&mut self, kind: &str, record: &Value) -> Result<(), String> {
        let call = plain(&record["toolCallId"]);
        match kind {
            "extension_ui_request" if record.get("toolCallId").is_some() => {
                if self.started.contains(&call) {
                    return Err(format!("asked about a call that has started: {record}"));
                }
                if self.questions.insert(call.clone(), Question::Open).is_some() {
                    return Err(format!("asked about a call twice: {record}"));
                }
                self.calls.insert(plain(&record["id"]), call);
            }
            "tool_execution_start" => {
                // A question that is still open was given up.
                if let Some(question @ Question::Open) = self.questions.get_mut(&call) {
                    *question = Question::Denied;
                }
                self.started.insert(call);
            }
            "tool_execution_end" if record["isError"] == false => match self.questions.get(&call) {
                Some(Question::Allowed) => self.allowed += 1,
                Some(_) => return Err(format!("ran though it was not allowed: {record}")),
                None if self.guarded.contains(&&*plain(&record["toolName"])) => {
                    return Err(format!("ran without a question: {record}"));
                }
                None => {}
            },
            _ => {}
        }
        Ok(())
    }
}
