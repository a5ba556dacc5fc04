//! The real program at level `xcsh`, driven like xcsh's own clients: every method they have, with
//! what each requires. One of them stops at the first unexpected record, so every record is
//! checked.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Client, Place};

/// A client that waits for `ready`, counts its requests and validates every record.
pub(crate) struct Host {
    pub(crate) client: Client,
    requests: usize,
}

impl Host {
    pub(crate) fn start(place: &Place, script: &str, more: &[&str]) -> Host {
        std::fs::write(place.path().join("talk.script"), script).unwrap();
        let mut arguments = vec!["--wire", "xcsh", "--mode", "rpc", "--script", "talk.script"];
        arguments.extend(more);
        let mut client = Client::start(place.command(&arguments), place.clone());
        let ready = client.record().unwrap();
        assert_eq!(ready["type"], "ready");
        assert!(ready["version"].is_string());
        Host { client, requests: 0 }
    }

    /// One request and its response, with all records in between.
    pub(crate) fn call(&mut self, mut command: Value) -> (Value, Vec<Value>) {
        self.requests += 1;
        let id = format!("req_{}", self.requests);
        command["id"] = json!(id);
        self.client.say(&command);
        let mut records = self.client.until(|record| {
            assert_acceptable(record);
            record["type"] == "response" && record["id"] == *id
        });
        let response = records.pop().unwrap();
        assert_eq!(response["command"], command["type"]);
        (response, records)
    }

    pub(crate) fn ask(&mut self, command: Value) -> Value {
        let (response, _) = self.call(command);
        assert_eq!(response["success"], true, "{response}");
        response.get("data").cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn refused(&mut self, command: Value) -> String {
        let (response, _) = self.call(command);
        assert_eq!(response["success"], false, "{response}");
        response["error"].as_str().unwrap().to_owned()
    }

    pub(crate) fn until(&mut self, kind: &str) -> Vec<Value> {
        self.client.until(|record| {
            assert_acceptable(record);
            record["type"] == kind
        })
    }

    /// Sends a prompt and waits as the clients do, for the first `agent_end`; here everything is
    /// over by then, unless the test says otherwise.
    pub(crate) fn prompt_and_wait(&mut self, message: &str) -> String {
        self.ask(json!({"type": "prompt", "message": message}));
        let end = self.until("agent_end").pop().unwrap();
        self.until("agent_settled");
        let messages = end["messages"].as_array().unwrap();
        let answer = messages.iter().rev().find(|message| message["role"] == "assistant").unwrap();
        let texts = answer["content"].as_array().unwrap().iter();
        texts.filter_map(|block| block["text"].as_str()).collect()
    }

    pub(crate) fn state(&mut self) -> Value {
        let state = self.ask(json!({"type": "get_state"}));
        acceptable_state(&state);
        state
    }

    pub(crate) fn hang_up(mut self) {
        self.client.close_stdin();
        assert_eq!(self.client.end().1, Some(0));
    }
}

const LEVELS: [&str; 6] = ["off", "minimal", "low", "medium", "high", "xhigh"];
const ROLES: [&str; 11] = [
    "user",
    "developer",
    "assistant",
    "toolResult",
    "bashExecution",
    "pythonExecution",
    "custom",
    "hookMessage",
    "branchSummary",
    "compactionSummary",
    "fileMention",
];

/// Validates a record as the strictest client does.
fn assert_acceptable(record: &Value) {
    let strings = |names: &[&str]| {
        names.iter().for_each(|name| assert!(record[*name].is_string(), "{name}: {record}"));
    };
    match record["type"].as_str().unwrap() {
        "response" => {
            strings(&["command"]);
            assert!(record["success"].is_boolean());
            assert!(record.get("id").is_none_or(Value::is_string), "{record}");
            let data = record.get("data");
            assert!(data.is_none_or(|data| data.is_object() || data.is_null()), "{record}");
            assert!(record["success"] == true || record["error"].is_string(), "{record}");
        }
        "message_start" | "message_end" => acceptable_message(&record["message"]),
        "message_update" => {
            acceptable_message(&record["message"]);
            acceptable_step(&record["assistantMessageEvent"]);
        }
        "tool_execution_start" => strings(&["toolCallId", "toolName"]),
        "tool_execution_end" => {
            strings(&["toolCallId", "toolName"]);
            assert!(record.get("isError").is_none_or(Value::is_boolean));
        }
        "turn_end" => {
            acceptable_message(&record["message"]);
            for result in record["toolResults"].as_array().unwrap() {
                acceptable_message(result);
                assert_eq!(result["role"], "toolResult");
            }
        }
        "agent_end" => {
            record["messages"].as_array().unwrap().iter().for_each(acceptable_message);
        }
        "auto_compaction_start" => {
            assert!(["threshold", "overflow", "idle"].map(Value::from).contains(&record["reason"]));
            assert!(["context-full", "handoff"].map(Value::from).contains(&record["action"]));
        }
        "todo_reminder" => {
            record["todos"].as_array().unwrap().iter().for_each(acceptable_task);
            assert!(record["attempt"].is_u64() && record["maxAttempts"].is_u64());
        }
        "host_tool_call" => {
            strings(&["id", "toolCallId", "toolName"]);
            assert!(record["arguments"].is_object());
        }
        "host_tool_cancel" => strings(&["id", "targetId"]),
        "extension_error" => strings(&["extensionPath", "event", "error"]),
        _ => {}
    }
}

fn acceptable_message(message: &Value) {
    assert!(ROLES.contains(&message["role"].as_str().unwrap()), "{message}");
}

fn acceptable_step(step: &Value) {
    assert_eq!(step["partial"]["role"], "assistant", "{step}");
    assert!(step["contentIndex"].is_u64(), "{step}");
    let kind = step["type"].as_str().unwrap();
    let (block, what) = kind.rsplit_once('_').unwrap();
    match (block, what) {
        (_, "start") => {}
        (_, "delta") => assert!(step["delta"].is_string(), "{step}"),
        ("toolcall", "end") => assert!(step["toolCall"].is_object(), "{step}"),
        (_, "end") => assert!(step["content"].is_string(), "{step}"),
        _ => panic!("an unknown step: {step}"),
    }
    assert!(["text", "thinking", "toolcall"].contains(&block), "{step}");
}

fn acceptable_model(model: &Value) {
    for name in ["id", "name", "api", "provider", "baseUrl"] {
        assert!(model[name].is_string(), "{name}: {model}");
    }
    assert!(model["contextWindow"].as_u64().unwrap() > 0);
    assert!(model["reasoning"].is_boolean());
    assert!(model.get("thinking").is_none(), "its shape is not ours to guess");
}

fn acceptable_task(task: &Value) {
    assert!(task["id"].is_string() && task["content"].is_string(), "{task}");
    let status = task["status"].as_str().unwrap();
    assert!(["pending", "in_progress", "completed", "abandoned"].contains(&status), "{task}");
}

fn acceptable_phases(phases: &Value) {
    for phase in phases.as_array().unwrap() {
        assert!(phase["id"].is_string() && phase["name"].is_string(), "{phase}");
        phase["tasks"].as_array().unwrap().iter().for_each(acceptable_task);
    }
}

fn acceptable_state(state: &Value) {
    acceptable_model(&state["model"]);
    assert!(LEVELS.contains(&state["thinkingLevel"].as_str().unwrap()));
    for name in ["isStreaming", "isCompacting", "autoCompactionEnabled"] {
        assert!(state[name].is_boolean(), "{name}: {state}");
    }
    for name in ["steeringMode", "followUpMode"] {
        assert!(["all", "one-at-a-time"].map(Value::from).contains(&state[name]), "{state}");
    }
    assert!(["immediate", "wait"].map(Value::from).contains(&state["interruptMode"]));
    assert!(state["sessionId"].is_string());
    assert!(state["messageCount"].is_u64() && state["queuedMessageCount"].is_u64());
    assert!(state.get("sessionName").is_none_or(Value::is_string));
    assert!(!state["systemPrompt"].as_str().unwrap().is_empty());
    for tool in state["dumpTools"].as_array().unwrap() {
        assert!(tool["name"].is_string() && tool["description"].is_string(), "{tool}");
        assert!(tool["parameters"].is_object(), "{tool}");
    }
    acceptable_phases(&state["todoPhases"]);
}

/// The format of a plan, made by the tool.
const PLAN: &str = r#"call todo_write {"ops":[{"op":"replace","phases":[{"name":"All","tasks":[{"content":"Look"},{"content":"Do","details":"well"}]}]}]}"#;

#[test]
fn state_can_be_read_and_set() {
    let mut host = Host::start(&Place::new(), "say Hi.\n", &["--no-session"]);
    let state = host.state();
    assert!(state.get("sessionFile").is_none());
    assert_eq!(state["todoPhases"], json!([]));
    let models = host.ask(json!({"type": "get_available_models"}));
    models["models"].as_array().unwrap().iter().for_each(acceptable_model);
    let demo = json!({"type": "set_model", "provider": "tiller", "modelId": "demo"});
    acceptable_model(&host.ask(demo));
    let connected = host.ask(json!({"type": "get_integrations"}));
    assert_eq!(connected["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(connected["model"], json!({"state": "connected", "provider": "tiller"}));
    assert_eq!(connected["services"], json!([]));
    let unknown = json!({"type": "set_model", "provider": "p", "modelId": "m"});
    assert_eq!(host.refused(unknown), "Model not found: p/m");
    let next = host.ask(json!({"type": "cycle_model"}));
    assert!(next.is_null() || next["model"].is_object());
    for level in LEVELS {
        host.ask(json!({"type": "set_thinking_level", "level": level}));
        host.state();
    }
    let level = host.ask(json!({"type": "cycle_thinking_level"}));
    assert!(LEVELS.contains(&level["level"].as_str().unwrap()));
    for (command, modes, field) in [
        ("set_steering_mode", ["all", "one-at-a-time"], "steeringMode"),
        ("set_follow_up_mode", ["all", "one-at-a-time"], "followUpMode"),
        ("set_interrupt_mode", ["immediate", "wait"], "interruptMode"),
    ] {
        for mode in modes {
            host.ask(json!({"type": command, "mode": mode}));
            assert_eq!(host.state()[field], mode);
        }
    }
    for command in ["set_auto_compaction", "set_auto_retry"] {
        host.ask(json!({"type": command, "enabled": false}));
        host.ask(json!({"type": command, "enabled": true}));
    }
    for command in ["abort_retry", "abort_bash", "abort"] {
        host.ask(json!({"type": command}));
    }
    host.ask(json!({"type": "set_session_name", "name": " harbour \n master "}));
    assert!(host.state()["sessionName"].as_str().unwrap().starts_with("harbour"));
    let empty = json!({"type": "set_session_name", "name": " "});
    assert_eq!(host.refused(empty), "Session name cannot be empty");
    let text = host.ask(json!({"type": "get_last_assistant_text"}));
    assert!(text.get("text").is_none_or(Value::is_null));
    let stats = host.ask(json!({"type": "get_session_stats"}));
    for name in ["userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages"] {
        assert!(stats[name].is_u64(), "{name}: {stats}");
    }
    for name in ["input", "output", "cacheRead", "cacheWrite", "total"] {
        assert!(stats["tokens"][name].is_u64(), "{name}: {stats}");
    }
    assert!(stats["cost"].is_number() && stats["premiumRequests"] == 0);
    let bash = host.ask(json!({"type": "bash", "command": "echo out; exit 3"}));
    assert_eq!((&bash["output"], &bash["exitCode"]), (&json!("out\n"), &json!(3)));
    assert_eq!(bash["cancelled"], false);
    let messages = host.ask(json!({"type": "get_messages"}));
    messages["messages"].as_array().unwrap().iter().for_each(acceptable_message);
    host.hang_up();
}

#[test]
fn unparsable_line_is_answered_without_an_id() {
    let mut host = Host::start(&Place::new(), "say Hi.\n", &["--no-session"]);
    let lines = "{\"id\":\"a\",\"type\":\"frobnicate\"}\nnot json\n{\"id\":\"b\"}\n";
    host.client.write(lines);
    let answers: Vec<String> = (0..3).map(|_| host.client.line().unwrap()).collect();
    assert_eq!(
        answers[0],
        r#"{"type":"response","command":"frobnicate","success":false,"error":"Unknown command: frobnicate"}"#
    );
    for answer in &answers[1..] {
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!((answer.get("id"), &answer["command"]), (None, &json!("parse")));
    }
    host.state();
    host.hang_up();
}

#[test]
fn first_prompt_asks_for_a_plan() {
    // The model stops at once, and may be reminded up to three times before the list is empty.
    let script = format!("{PLAN}\n\nsay 1.\n\nsay 2.\n\nsay 3.\n\nsay 4.\n");
    let mut host = Host::start(&Place::new(), &script, &["--no-session"]);
    // The first prompt of a session is preceded by a request for a plan, as xcsh's clients expect.
    host.ask(json!({"type": "prompt", "message": "Do it."}));
    let said = host.until("turn_end");
    let started = said.iter().filter(|record| record["type"] == "message_start");
    let roles: Vec<&str> =
        started.map(|record| record["message"]["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["custom", "user", "assistant", "toolResult"]);
    assert_eq!(said[2]["message"]["customType"], "eager-todo-prelude");
    host.until("todo_reminder");
    // The model may be done before it gets the message.
    let (_, before) = host.call(json!({"type": "set_todos", "phases": []}));
    if before.iter().all(|record| record["type"] != "agent_settled") {
        host.until("agent_settled");
    }
    assert_eq!(host.state()["isStreaming"], false);
    host.hang_up();
}

#[test]
fn prompts_are_queued_and_replaced() {
    let script = "say One.\n\ncall bash {\"command\": \"sleep 30\"}\n\nsay Two.\n\nsay Three.\n";
    let mut host = Host::start(&Place::new(), script, &["--no-session", "--tools", "bash"]);
    host.ask(json!({"type": "follow_up", "message": "later"}));
    assert!(!host.refused(json!({"type": "follow_up", "message": ""})).is_empty());
    host.ask(json!({"type": "prompt", "message": "Go"}));
    host.until("tool_execution_start");
    let busy = host.refused(json!({"type": "prompt", "message": "more"}));
    assert!(busy.starts_with("Agent is already processing. Use steer()"), "{busy}");
    host.ask(json!({"type": "prompt", "message": "more", "streamingBehavior": "steer"}));
    host.ask(json!({"type": "prompt", "message": "most", "streamingBehavior": "followUp"}));
    let (_, before) = host.call(json!({"type": "abort_and_prompt", "message": "Instead"}));
    assert!(before.iter().any(|record| record["type"] == "agent_end"), "the old run is closed");
    assert!(before.iter().all(|record| record["type"] != "agent_start"), "the new one not begun");
    host.until("agent_settled");
    host.hang_up();
}

#[test]
fn host_tools_are_called_and_cancelled() {
    let script =
        "call Echo {\"message\": \"hi\"}\n\nsay Heard.\n\ncall Echo {\"message\": \"hi\"}\n";
    let mut host = Host::start(&Place::new(), script, &["--no-session"]);
    let echo = json!({"name": "Echo", "label": "Echo", "description": "Says it again",
        "parameters": {"type": "object", "properties": {"message": {"type": "string"}},
        "required": ["message"], "additionalProperties": false}});
    let names = host.ask(json!({"type": "set_host_tools", "tools": [echo]}));
    assert_eq!(names["toolNames"], json!(["Echo"]));
    let tools = host.state()["dumpTools"].clone();
    assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "Echo"));

    host.ask(json!({"type": "prompt", "message": "Use it!"}));
    let call = host.until("host_tool_call").pop().unwrap();
    let id = &call["id"];
    let content = json!([{"type": "text", "text": "working"}]);
    let partial = json!({"content": content});
    host.client.say(&json!({"type": "host_tool_update", "id": id, "partialResult": partial}));
    let update = host.until("tool_execution_update").pop().unwrap();
    assert_eq!(update["partialResult"], partial);
    let result = json!({"content": content, "details": {"n": 1}});
    host.client.say(&json!({"type": "host_tool_result", "id": id, "result": result}));
    let end = host.until("tool_execution_end").pop().unwrap();
    assert_eq!((&end["result"], &end["isError"]), (&result, &json!(false)));
    host.until("agent_settled");

    host.ask(json!({"type": "prompt", "message": "Again!"}));
    let call = host.until("host_tool_call").pop().unwrap();
    let (_, before) = host.call(json!({"type": "abort"}));
    let cancel = before.iter().find(|record| record["type"] == "host_tool_cancel").unwrap();
    assert_eq!(cancel["targetId"], call["id"]);
    host.hang_up();
}

#[test]
fn sessions_are_changed_branched_and_compacted() {
    let settings = r#"{"compaction": {"keepRecentTokens": 10}}"#;
    let place = Place::new();
    std::fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    std::fs::write(place.path().join(".pi/agent/settings.json"), settings).unwrap();
    let long = "a rather long answer about nothing in particular ".repeat(4);
    let script = format!("say {long}\n\nsay {long}\n\nsay A summary.\n\nsay Another.\n");
    let mut host = Host::start(&place, &script, &["--tools", "read"]);
    host.prompt_and_wait("First");
    assert_eq!(host.prompt_and_wait("Second").trim(), long.trim());
    let text = host.ask(json!({"type": "get_last_assistant_text"}));
    assert_eq!(text["text"], long.trim());
    let (compacted, before) = host.call(json!({"type": "compact", "customInstructions": "short"}));
    assert!(compacted["data"]["summary"].is_string(), "{compacted}");
    assert!(compacted["data"]["tokensBefore"].is_u64());
    let named = before.iter().any(|it| it["type"] == "auto_compaction_start");
    assert!(!named, "nobody did it by themselves");
    let file = host.state()["sessionFile"].as_str().unwrap().to_owned();
    let page = host.ask(json!({"type": "export_html"}))["path"].clone();
    let page = Path::new(page.as_str().unwrap());
    assert!(page.is_file() && page.is_absolute());
    assert!(page.file_name().unwrap().to_string_lossy().starts_with("xcsh-session-"));
    let messages = host.ask(json!({"type": "get_branch_messages"}))["messages"].clone();
    assert_eq!(messages[1]["text"], "Second");
    let unknown = json!({"type": "branch", "entryId": "nowhere"});
    assert_eq!(host.refused(unknown), "Invalid entry ID for branching");
    let branched = host.ask(json!({"type": "branch", "entryId": messages[1]["entryId"]}));
    assert_eq!(branched, json!({"text": "Second", "cancelled": false}));
    assert_ne!(host.state()["sessionFile"], *file);
    let fresh = host.ask(json!({"type": "new_session", "parentSession": file}));
    assert_eq!(fresh, json!({"cancelled": false}));
    assert_eq!(host.state()["messageCount"], 0);
    let back = host.ask(json!({"type": "switch_session", "sessionPath": file}));
    assert_eq!(back, json!({"cancelled": false}));
    assert_eq!(host.state()["sessionFile"], *file);
    let missing = json!({"type": "switch_session", "sessionPath": "nowhere.jsonl"});
    assert!(host.refused(missing).starts_with("Session file not found"));
    assert!(!place.path().join("nowhere.jsonl").exists());
    host.hang_up();
}

#[test]
fn todos_outlive_the_process_and_follow_the_branch() {
    let place = Place::new();
    let script = format!("say Yes.\n\n{PLAN}\n\nsay Done.\n\nsay So.\n\nsay So.\n\nsay So.\n");
    let mut host = Host::start(&place, &script, &[]);
    let phase = json!({"name": "Mine", "tasks": [{"content": "Look"},
        {"content": "Over", "status": "completed"}]});
    let set = host.ask(json!({"type": "set_todos", "phases": [phase]}));
    acceptable_phases(&set["todoPhases"]);
    let left = json!([{"id": "phase-1", "name": "Mine",
        "tasks": [{"id": "task-1", "content": "Look", "status": "pending"}]}]);
    // Reminded three times, and then no more.
    host.ask(json!({"type": "prompt", "message": "Go"}));
    let said = host.until("agent_settled");
    let file = host.state()["sessionFile"].as_str().unwrap().to_owned();
    assert!(said.iter().any(|record| record["type"] == "todo_reminder"));
    let plan = host.state()["todoPhases"].clone();
    assert_eq!(plan[0]["name"], "All");

    host.ask(json!({"type": "new_session"}));
    assert_eq!(host.state()["todoPhases"], json!([]));
    host.ask(json!({"type": "switch_session", "sessionPath": file}));
    assert_eq!(host.state()["todoPhases"], plan, "what the model wrote");
    let first = host.ask(json!({"type": "get_branch_messages"}))["messages"][0].clone();
    host.ask(json!({"type": "branch", "entryId": first["entryId"]}));
    assert_eq!(host.state()["todoPhases"], left, "what the client had set before that");
    host.hang_up();

    let mut again = Host::start(&place, "say Hi.\n", &["--session", &file]);
    assert_eq!(again.state()["todoPhases"], plan);
    let none = again.ask(json!({"type": "set_todos", "phases": []}));
    assert_eq!(none, json!({"todoPhases": []}));
    again.hang_up();
    let mut last = Host::start(&place, "say Hi.\n", &["--session", &file]);
    assert_eq!(last.state()["todoPhases"], json!([]), "none is a list, too");
    last.hang_up();
}

#[test]
fn flags_of_xcsh_clients_are_accepted() {
    let place = Place::new();
    let link = place.path().join("xcsh");
    std::os::unix::fs::symlink(Path::new(env!("CARGO_BIN_EXE_tiller")), &link).unwrap();
    std::fs::write(place.path().join("talk.script"), "say Hi.\n").unwrap();
    let arguments = [
        "--mode",
        "rpc",
        "--provider",
        "tiller",
        "--model",
        "script",
        "--session-dir",
        "kept",
        "--thinking",
        "low",
        "--append-system-prompt",
        "Be kind.",
        "--provider-session-id",
        "abc",
        "--tools",
        "read,bash,todo_write",
        "--no-skills",
        "--no-rules",
        "--no-title",
        "--script",
        "talk.script",
    ];
    let mut client = Client::start(place.command_of(&link, &arguments), place.clone());
    assert_eq!(client.record().unwrap()["type"], "ready");
    let mut host = Host { client, requests: 0 };
    let state = host.state();
    assert_eq!(state["thinkingLevel"], "low");
    assert!(state["systemPrompt"].as_str().unwrap().contains("Be kind."));
    let tools = state["dumpTools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert_eq!(tools.collect::<Vec<_>>(), ["read", "bash", "todo_write"]);
    assert!(state["sessionFile"].as_str().unwrap().contains("/kept/"));
    host.hang_up();

    let output = place.output(&["--wire", "xcsh", "--mode", "rpc", "@notes.md"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
