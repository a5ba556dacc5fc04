//! Edge cases of level `xcsh`: records that only its clients get, very many host tools, and session
//! files written by xcsh.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Place;
use crate::xcsh::Host;

#[test]
fn bash_result_has_its_full_size() {
    let mut host = Host::start(&Place::new(), "say Hi.\n", &["--no-session"]);
    let short = host.ask(json!({"type": "bash", "command": "echo one; printf two"}));
    assert_eq!(short["output"], "one\ntwo");
    assert_eq!(extents(&short), [2, 7, 2, 7]);
    let long = host.ask(json!({"type": "bash", "command": "seq 10000"}));
    assert_eq!(long["truncated"], true);
    let shown = long["output"].as_str().unwrap();
    let [lines, bytes, shown_lines, shown_bytes] = extents(&long);
    assert_eq!((lines, bytes), (10001, 48894));
    assert_eq!(shown_lines, shown.matches('\n').count() + 1);
    assert_eq!(shown_bytes, shown.len());
    host.hang_up();

    // Clients of pi do not get this.
    let mut client = Place::new().rpc("say Hi.\n", &[]);
    client.say(&json!({"id": 1, "type": "bash", "command": "echo one"}));
    let response = client.until(|record| record["type"] == "response").pop().unwrap();
    assert_eq!(response["data"].get("totalLines"), None, "{response}");
}

fn extents(result: &Value) -> [usize; 4] {
    ["totalLines", "totalBytes", "outputLines", "outputBytes"]
        .map(|name| usize::try_from(result[name].as_u64().unwrap()).unwrap())
}

#[test]
fn names_and_levels_use_xcsh_spelling() {
    let mut host = Host::start(&Place::new(), "say Hi.\n", &["--no-session"]);
    host.ask(
        json!({"type": "set_session_name", "name": " tide\ttables \u{1}  that\r\n do  not lie "}),
    );
    assert_eq!(host.state()["sessionName"], "tide tables that do not lie");
    let blank = json!({"type": "set_session_name", "name": "\t\u{7f} \n"});
    assert_eq!(host.refused(blank), "Session name cannot be empty");
    host.ask(json!({"type": "set_model", "provider": "tiller", "modelId": "demo"}));
    host.ask(json!({"type": "set_thinking_level", "level": "low"}));
    let (_, before) = host.call(json!({"type": "set_thinking_level", "level": "high"}));
    let changed =
        json!({"type": "thinking_level_changed", "level": "high", "thinkingLevel": "high"});
    assert_eq!(before, [changed]);
    host.hang_up();
}

/// Every name is checked once, whatever their number.
#[test]
fn host_with_very_many_tools_is_fast() {
    let mut host = Host::start(&Place::new(), "say Hi.\n", &["--no-session"]);
    let tools = |last: &str| {
        let names = (0..20_000).map(|number| format!("tool_{number}")).chain([last.to_owned()]);
        let tools = names.map(
            |name| json!({"name": name, "description": "d", "parameters": {"type": "object"}}),
        );
        json!({"type": "set_host_tools", "tools": tools.collect::<Vec<_>>()})
    };
    let begun = Instant::now();
    assert_eq!(host.refused(tools("tool_0")), "RPC host tool names must be unique");
    assert_eq!(
        host.refused(tools("bash")),
        "RPC host tool \"bash\" conflicts with an existing tool"
    );
    let names = host.ask(tools("last"))["toolNames"].clone();
    assert_eq!(names.as_array().unwrap().len(), 20_001);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    host.ask(json!({"type": "set_host_tools", "tools": []}));
    host.hang_up();
}

/// Our model sees what xcsh's model saw, in roles that every client knows, and the file does not
/// change.
#[test]
fn xcsh_session_can_be_resumed() {
    let place = Place::new();
    let entries = [
        json!({"type": "model_change", "model": "tiller/script", "role": "default"}),
        json!({"type": "service_tier_change", "serviceTier": null}),
        json!({"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "See @a.txt"}],
            "attribution": "user", "timestamp": 1}}),
        json!({"type": "message", "message": {"role": "fileMention", "timestamp": 1,
            "files": [{"path": "a.txt", "content": "alpha", "lineCount": 1}]}}),
        json!({"type": "message", "message": {"role": "developer", "content": "stay calm", "timestamp": 1}}),
        json!({"type": "message", "message": {"role": "pythonExecution", "code": "print(1)", "output": "1\n",
            "exitCode": 0, "cancelled": false, "truncated": false, "timestamp": 1}}),
        json!({"type": "message", "message": {"role": "hookMessage", "customType": "lint", "content": "clean",
            "display": true, "timestamp": 1}}),
        json!({"type": "mode_change", "mode": "plan", "data": {"mine": 1}}),
    ];
    let header = json!({"type": "session", "version": 3, "id": "15cf8825e2c6f988", "title": "Theirs",
        "timestamp": "2026-11-15T20:39:16.762Z", "cwd": place.path()});
    let mut text = format!("{header}\n");
    for (at, mut entry) in entries.into_iter().enumerate() {
        entry["id"] = json!(format!("e{at}"));
        entry["parentId"] = at.checked_sub(1).map(|before| format!("e{before}")).into();
        entry["timestamp"] = json!("2026-11-15T20:39:17.000Z");
        text += &format!("{entry}\n");
    }
    let file = place.path().join("theirs.jsonl");
    std::fs::write(&file, &text).unwrap();

    let mut host = Host::start(&place, "say On we go.\n", &["--tools", "read"]);
    host.ask(json!({"type": "switch_session", "sessionPath": file}));
    let state = host.state();
    assert_eq!((&state["sessionName"], &state["messageCount"]), (&json!("Theirs"), &json!(5)));
    let roles = |host: &mut Host| {
        let messages = host.ask(json!({"type": "get_messages"}))["messages"].clone();
        let messages = messages.as_array().unwrap().clone();
        assert_eq!(messages[1]["content"][0]["text"], "<file path=\"a.txt\">\nalpha\n</file>");
        assert_eq!(messages[2]["content"], "stay calm");
        assert_eq!(messages[3]["command"], "print(1)");
        messages.iter().map(|it| it["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let theirs = ["user", "custom", "custom", "bashExecution", "custom"];
    assert_eq!(roles(&mut host), theirs, "straight from the file");
    host.prompt_and_wait("Go on!");
    assert_eq!(roles(&mut host)[..5], theirs, "and as the model has seen them");
    let messages = host.ask(json!({"type": "get_branch_messages"}))["messages"].clone();
    host.ask(json!({"type": "branch", "entryId": messages[1]["entryId"]}));
    let branch = host.state()["sessionFile"].as_str().unwrap().to_owned();
    host.hang_up();
    assert!(std::fs::read_to_string(&file).unwrap().starts_with(&text));
    let branch = std::fs::read_to_string(branch).unwrap();
    for line in text.lines().skip(1) {
        assert!(branch.contains(line), "{line}\n is not in\n{branch}");
    }
}
