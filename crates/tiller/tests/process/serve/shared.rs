//! A session with several clients: who may do what, and who gets which record.

use serde_json::{Value, json};

use super::client::{ServeClient, types_of};
use super::server::{ServeProcess, wait_until};
use crate::client::Place;

const TWO_ANSWERS: &str = "say One.\n\nsay Two.";

#[test]
fn responses_and_prompt_results_go_to_their_sender() {
    let server = ServeProcess::script(TWO_ANSWERS, &[]);
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        client.ask(json!({"type": "hello", "promptResults": true}));
    }
    let [first, second] = &mut clients;
    let handle = first.open_in_memory();
    second.ask(json!({"type": "attach", "sessionId": handle}));
    let listed = second.ask(json!({"type": "list_open_sessions"}));
    assert_eq!(listed["sessions"][0]["clients"], 2);
    first.prompt(&handle, "Hello");
    first.take_type(&handle, "prompt_result");
    let others = second.until_settled(&handle);
    assert!(types_of(&others, &handle).contains(&"message_end"));
    let more = second.arrived_of(&handle);
    for record in others.iter().chain(&more) {
        let kind = record["type"].as_str().unwrap();
        assert!(!matches!(kind, "response" | "prompt_result"), "{record}");
    }
    second.prompt(&handle, "Again");
    second.take_type(&handle, "prompt_result");
    first.until_settled(&handle);
    let more = first.arrived_of(&handle);
    assert!(more.iter().all(|record| record["type"] != "prompt_result"), "{more:?}");
}

#[test]
fn client_that_watches_gets_everything_and_changes_nothing() {
    let server = ServeProcess::script(TWO_ANSWERS, &[]);
    let mut owner = server.connect();
    let handle = owner.open_in_memory();
    let mut watcher = server.connect();
    watcher.ask(json!({"type": "attach", "sessionId": handle, "mode": "watch"}));
    for command in [
        json!({"type": "prompt", "message": "Hello"}),
        json!({"type": "abort"}),
        json!({"type": "set_session_name", "name": "Mine"}),
        json!({"type": "set_host_tools", "tools": []}),
        json!({"type": "bash", "command": "touch changed"}),
        json!({"type": "close_session"}),
    ] {
        let mut command = command;
        command["sessionId"] = json!(handle);
        watcher.refused(command, "watching");
    }
    for kind in ["get_state", "get_messages", "get_tools", "get_capabilities", "hello"] {
        watcher.ask(json!({"type": kind, "sessionId": handle}));
    }
    owner.prompt(&handle, "Hello");
    let records = watcher.until_settled(&handle);
    assert!(types_of(&records, &handle).contains(&"agent_end"));
    assert!(!server.path("changed").exists());
    // The same client may take control.
    watcher.ask(json!({"type": "attach", "sessionId": handle, "mode": "control"}));
    watcher.prompt(&handle, "Again");
    owner.take_type(&handle, "agent_settled");
}

#[test]
fn takeover_detaches_the_others() {
    let server = ServeProcess::script(TWO_ANSWERS, &[]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    let mut second = server.connect();
    second.ask(json!({"type": "attach", "sessionId": handle}));
    let mut third = server.connect();
    third.ask(json!({"type": "attach", "sessionId": handle, "mode": "takeover"}));
    for client in [&mut first, &mut second] {
        let detached = client.take_type(&handle, "session_detached");
        assert_eq!(detached["reason"], "taken_over");
        client.refused(json!({"type": "get_state", "sessionId": handle}), "unknown_session");
    }
    third.prompt(&handle, "Hello");
    third.until_settled(&handle);
    for client in [&mut first, &mut second] {
        assert_eq!(client.arrived(), [] as [Value; 0]);
    }
    // A client that takes over from itself is not detached.
    third.ask(json!({"type": "attach", "sessionId": handle, "mode": "takeover"}));
    third.ask(json!({"type": "get_state", "sessionId": handle}));
    assert_eq!(third.arrived(), [] as [Value; 0]);
}

#[test]
fn client_that_detaches_gets_nothing_after_the_response() {
    let server = ServeProcess::script("pace 1ms\nrepeat 400 \"word {i} \"", &[]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    let mut second = server.connect();
    second.ask(json!({"type": "attach", "sessionId": handle}));
    first.prompt(&handle, "Hello");
    second.take_type(&handle, "message_update");
    let id = second.send(json!({"type": "detach", "sessionId": handle}));
    second.until(|record| record["id"] == id.as_str());
    first.until_settled(&handle);
    assert_eq!(second.arrived(), [] as [Value; 0]);
    let listed = second.ask(json!({"type": "list_open_sessions"}));
    assert_eq!(listed["sessions"][0]["clients"], 1);
    // A session without clients goes on.
    first.cut();
    wait_until("no client is left", || {
        let mut probe = server.connect();
        let listed = probe.ask(json!({"type": "list_open_sessions"}));
        listed["sessions"][0]["clients"] == 0
    });
    second.ask(json!({"type": "attach", "sessionId": handle}));
}

#[test]
fn other_clients_get_session_closed() {
    let server = ServeProcess::script(TWO_ANSWERS, &[]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    let mut second = server.connect();
    second.ask(json!({"type": "attach", "sessionId": handle}));
    first.ask(json!({"type": "close_session", "sessionId": handle}));
    let closed = second.take(|record| record["type"] == "session_closed");
    assert_eq!(closed, json!({"type": "session_closed", "sessionId": handle, "reason": "closed"}));
    second.refused(json!({"type": "get_state", "sessionId": handle}), "unknown_session");
    assert_eq!(first.arrived(), [] as [Value; 0]);
}

const HOST_TOOL: &str = "call look_up {\"word\": \"port\"}\n\nsay Looked.";

fn register(client: &mut ServeClient, handle: &str) {
    let tool =
        json!({"name": "look_up", "description": "Look up", "parameters": {"type": "object"}});
    client.ask(json!({"type": "set_host_tools", "tools": [tool], "sessionId": handle}));
}

#[test]
fn host_tools_are_called_at_their_owner() {
    let server = ServeProcess::script(HOST_TOOL, &[]);
    let mut owner = server.connect();
    let handle = owner.open_in_memory();
    let mut other = server.connect();
    other.ask(json!({"type": "attach", "sessionId": handle}));
    register(&mut owner, &handle);
    other.prompt(&handle, "Look");
    let call = owner.take_type(&handle, "host_tool_call");
    let content = json!([{"type": "text", "text": "left side"}]);
    owner.say(&json!({
        "type": "host_tool_result", "id": call["id"], "result": {"content": content},
        "sessionId": handle,
    }));
    let records = other.until_settled(&handle);
    assert!(records.iter().all(|record| record["type"] != "host_tool_call"));
    let ended = records.iter().find(|record| record["type"] == "tool_execution_end").unwrap();
    assert_eq!(ended["result"]["content"], content);
}

#[test]
fn calls_of_host_tools_fail_when_their_owner_leaves() {
    for leaves_by_detach in [true, false] {
        let server = ServeProcess::script(HOST_TOOL, &[]);
        let mut owner = server.connect();
        let handle = owner.open_in_memory();
        let mut other = server.connect();
        other.ask(json!({"type": "attach", "sessionId": handle}));
        register(&mut owner, &handle);
        other.prompt(&handle, "Look");
        owner.take_type(&handle, "host_tool_call");
        if leaves_by_detach {
            owner.ask(json!({"type": "detach", "sessionId": handle}));
        } else {
            owner.cut();
        }
        let records = other.until_settled(&handle);
        let ended = records.iter().find(|record| record["type"] == "tool_execution_end").unwrap();
        assert_eq!(ended["isError"], true, "{ended}");
        let tools = other.ask(json!({"type": "get_tools", "sessionId": handle}));
        assert!(!tools.to_string().contains("look_up"), "{tools}");
    }
}

const ASKS: &str = "export default (pi) => pi.registerCommand('ask', {
    description: 'Ask',
    handler: async (_, ctx) => {
      const yes = await ctx.ui.confirm('Sure?', 'Really?');
      ctx.ui.notify(`The answer is ${yes}`, 'info');
    },
  });";

#[test]
fn dialog_that_one_client_answers_is_closed_at_the_others() {
    let place = Place::new().with("ask.js", ASKS);
    let server = ServeProcess::script_in(place, "say Hello.", &["--", "-e", "ask.js"]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    let mut second = server.connect();
    second.ask(json!({"type": "attach", "sessionId": handle}));
    let is_dialog =
        |record: &Value| record["type"] == "extension_ui_request" && record["method"] == "confirm";
    first.send(json!({"type": "prompt", "message": "/ask", "sessionId": handle}));
    let dialog = first.take(is_dialog);
    assert_eq!(second.take(is_dialog)["id"], dialog["id"]);
    // A client that joins now is asked, too.
    let mut third = server.connect();
    third.ask(json!({"type": "attach", "sessionId": handle}));
    assert_eq!(third.take(is_dialog)["id"], dialog["id"]);
    for answer in [&mut second, &mut third] {
        answer.say(&json!({
            "type": "extension_ui_response", "id": dialog["id"], "confirmed": true,
            "sessionId": handle,
        }));
    }
    for client in [&mut first, &mut second, &mut third] {
        let closed = client.take_type(&handle, "extension_ui_closed");
        assert_eq!(closed["id"], dialog["id"]);
        let notice = client.take(|record| record["method"] == "notify");
        assert_eq!(notice["message"], "The answer is true");
        let more = client.arrived_of(&handle);
        assert!(more.iter().all(|record| record["type"] != "extension_ui_closed"), "{more:?}");
    }
    // The dialog is no longer open for a client that joins.
    let mut fourth = server.connect();
    fourth.ask(json!({"type": "attach", "sessionId": handle}));
    let records = fourth.arrived_of(&handle);
    assert!(!records.iter().any(is_dialog), "{records:?}");
}

#[test]
fn question_about_a_call_is_denied_when_the_last_client_leaves() {
    let script = "call write {\"path\":\"a.txt\",\"content\":\"a\"}\n\nsay Done.";
    let server = ServeProcess::script(script, &["--", "--approvals", "ask"]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    let mut second = server.connect();
    second.ask(json!({"type": "attach", "sessionId": handle}));
    let is_question = |record: &Value| record["toolName"] == "write";
    first.prompt(&handle, "Go");
    let question = first.take(is_question);
    assert_eq!(second.take(is_question)["id"], question["id"]);
    // While a client is left, the question stays open.
    first.cut();
    assert!(second.arrived_of(&handle).iter().all(|it| it["type"] != "extension_ui_closed"));
    second.cut();
    let mut third = server.connect();
    third.ask(json!({"type": "attach", "sessionId": handle}));
    let denied = |client: &mut ServeClient| {
        let data = client.ask(json!({"type": "get_messages", "sessionId": handle}));
        data.to_string().contains("it needs the user's approval, and the client is gone")
    };
    wait_until("the call is denied", || denied(&mut third));
    assert!(!server.path("a.txt").exists());
}

/// Large prompts are events for all clients; the one that does not read is detached.
#[test]
fn client_that_does_not_read_is_detached_while_another_goes_on() {
    let server = ServeProcess::script(&"say Read.\n\n".repeat(30), &[]);
    let mut active = server.connect();
    let handle = active.open_in_memory();
    active.start_reading();
    let mut silent = server.connect();
    silent.say(&json!({"id": "a", "type": "attach", "sessionId": handle}));
    wait_until("the silent client is attached", || {
        let listed = server.connect().ask(json!({"type": "list_open_sessions"}));
        listed["sessions"][0]["clients"] == 2
    });
    let large = "x".repeat(2 << 20);
    let mut rounds = 0;
    loop {
        active.prompt(&handle, &large);
        active.until_settled(&handle);
        rounds += 1;
        let listed = active.ask(json!({"type": "list_open_sessions"}));
        if listed["sessions"][0]["clients"] == 1 {
            break;
        }
        assert!(rounds < 25, "the silent client is still attached");
    }
    active.prompt(&handle, "Still here?");
    active.until_settled(&handle);
    let detached = silent.take_type(&handle, "session_detached");
    assert_eq!(detached["reason"], "too_slow");
    silent.ask(json!({"type": "attach", "sessionId": handle}));
}
