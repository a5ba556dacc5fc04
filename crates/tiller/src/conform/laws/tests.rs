use serde_json::json;

use super::*;

fn lines(values: &[Value]) -> Vec<ServerLine> {
    values.iter().map(|value| ServerLine::read(value.to_string().as_bytes()).unwrap()).collect()
}

fn kinds(kinds: &str) -> Vec<ServerLine> {
    lines(&kinds.split(' ').map(|kind| json!({"type": kind})).collect::<Vec<_>>())
}

#[test]
fn pairs_that_cross_or_stay_open_are_reported() {
    for (given, expected) in [
        ("agent_start turn_start message_start message_end turn_end agent_end", Ok(())),
        ("agent_start turn_start turn_end turn_start turn_end agent_end", Ok(())),
        ("agent_start message_start", Err("message_start inside of agent_start")),
        ("agent_start turn_start agent_end", Err("agent_end without agent_start before it")),
        ("agent_start turn_start turn_end", Err("agent_start without its end")),
        ("agent_start turn_start message_update", Err("message_update outside of a message")),
    ] {
        assert_eq!(pairs_nest(&kinds(given)), expected.map_err(str::to_owned), "{given}");
    }
}

#[test]
fn deltas_that_do_not_join_are_reported() {
    let delta = |kind: &str, text: &str| {
        json!({"type": "message_update",
            "assistantMessageEvent": {"type": kind, "contentIndex": 0, "delta": text}})
    };
    let end = |block: Value| json!({"type": "message_end", "message": {"role": "assistant", "content": [block]}});
    let text = |text: &str| end(json!({"type": "text", "text": text}));
    let call = end(json!({"type": "toolCall", "arguments": {"a": 1}}));
    let halves = |kind| [delta(kind, "{\"a\""), delta(kind, ":1}")];
    for (last, kind, holds) in [
        (text("{\"a\":1}"), "text_delta", true),
        (text("{\"a\":2}"), "text_delta", false),
        (call, "toolcall_delta", true),
    ] {
        let [first, second] = halves(kind);
        assert_eq!(deltas_join(&lines(&[first, second, last])).is_ok(), holds, "{kind}");
    }
}

#[test]
fn results_are_one_per_call_and_in_order() {
    let call = |id: &str| json!({"type": "toolCall", "id": id, "name": "bash"});
    let answer = json!({"type": "message_end",
        "message": {"role": "assistant", "content": [call("a"), call("b")]}});
    let start = |id: &str| json!({"type": "tool_execution_start", "toolCallId": id});
    let end = |id: &str| json!({"type": "tool_execution_end", "toolCallId": id});
    let result = |id: &str| json!({"type": "message_end", "message": {"role": "toolResult", "toolCallId": id}});
    let run = |results: &[&str]| {
        let mut all = vec![answer.clone(), start("a"), start("b"), end("b"), end("a")];
        all.extend(results.iter().map(|id| result(id)));
        calls_have_results(&lines(&all))
    };
    assert_eq!(run(&["a", "b"]), Ok(()));
    for wrong in [&["b", "a"][..], &["a"], &["a", "b", "b"]] {
        assert!(run(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn call_of_an_aborted_answer_has_a_result_but_does_not_run() {
    let answer = |reason: &str| {
        json!({"type": "message_end", "message": {"role": "assistant", "stopReason": reason,
            "content": [{"type": "toolCall", "id": "a", "name": "bash"}]}})
    };
    let start = json!({"type": "tool_execution_start", "toolCallId": "a"});
    let end = json!({"type": "tool_execution_end", "toolCallId": "a"});
    let result =
        json!({"type": "message_end", "message": {"role": "toolResult", "toolCallId": "a"}});
    let run = |records: &[&Value]| {
        let records: Vec<Value> = records.iter().map(|record| (*record).clone()).collect();
        calls_have_results(&lines(&records)).is_ok()
    };
    assert!(run(&[&answer("aborted"), &result]));
    assert!(!run(&[&answer("aborted")]));
    assert!(!run(&[&answer("aborted"), &start, &end, &result]));
    assert!(!run(&[&answer("toolUse"), &result]));
    assert!(run(&[&answer("toolUse"), &start, &end, &result]));
}

#[test]
fn system_prompt_is_no_message_of_the_conversation() {
    let messages = json!({"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"}]});
    assert_eq!(outlines(&messages), ["user Hello"]);
}

#[test]
fn request_with_an_open_call_is_reported() {
    let call = json!({"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id});
    let user = json!({"role": "user", "content": "go on"});
    for (messages, expected) in [
        (json!([user, call, result("b"), result("a"), user]), Ok(())),
        (json!([call, result("a"), user]), Err("no result for the call b")),
        (json!([call, result("a")]), Err("no result for the call b")),
        (json!([result("z")]), Err("a result for z, which was not called")),
    ] {
        let request = json!({"messages": messages});
        assert_eq!(history_is_complete(&request), expected.map_err(str::to_owned));
    }
}

#[test]
fn warning_is_not_a_crash() {
    assert_eq!(crash("Warning: no model\nnote: x\n"), None);
    let panic = "thread 'main' panicked at src/main.rs:1:1:";
    assert_eq!(crash(&format!("Warning: a\n{panic}\n")), Some(panic));
}
