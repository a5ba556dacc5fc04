//! Extensions and the client's own shell commands.

use serde_json::{Value, json};

use crate::client::Client;
use crate::extensions::{of_type, with};

const SHELL: &str = r#"
    export default function (pi) {
        const answers = {
            forbidden() { throw new Error("not that"); },
            instead: () => ({ result: { output: "made up", exitCode: 3, cancelled: false, truncated: false } }),
            wrong: () => ({ result: { output: "half a result" } }),
            own: () => ({ operations: { async exec(command, cwd, { onData }) {
                onData(Buffer.from("one\n"));
                await new Promise((resolve) => setTimeout(resolve, 1));
                onData("\u001b[31mtwo\u001b[0m\n");
                return { exitCode: 7 };
            } } }),
            fails: () => ({ operations: { async exec() { throw new Error("no such machine"); } } }),
            waits: () => ({ operations: { exec: (command, cwd, { onData, signal }) => {
                onData("waiting\n");
                return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
            } } }),
            deaf: () => ({ operations: { exec: (command, cwd, { onData }) => { onData("deaf\n"); return new Promise(() => {}); } } }),
        };
        pi.on("user_bash", ({ command, excludeFromContext, cwd }) => {
            pi.appendEntry("asked", { command, excludeFromContext, cwd: typeof cwd });
            return answers[command]?.();
        });
    }"#;

fn bash(client: &mut Client, command: &str) -> (Vec<Value>, Value) {
    client.say(&json!({"id": command, "type": "bash", "command": command}));
    let mut records =
        client.until(|record| record["id"] == command && record["type"] == "response");
    let response = records.pop().unwrap();
    (records, response)
}

#[test]
fn user_bash_hook_blocks_answers_or_passes_a_command() {
    let mut client = with("say Nothing.\n", SHELL);
    let (records, response) = bash(&mut client, "forbidden");
    assert_eq!(response["error"], "not that");
    let errors = of_type(&records, "extension_error");
    assert_eq!(
        (&errors[0]["event"], &errors[0]["error"]),
        (&json!("user_bash"), &json!("not that"))
    );
    let asked = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    assert_eq!(asked["excludeFromContext"], false);
    assert_eq!(asked["cwd"], "string");
    let (_, response) = bash(&mut client, "instead");
    let made_up =
        json!({"output": "made up", "exitCode": 3, "cancelled": false, "truncated": false});
    assert_eq!(response["data"], made_up);
    let (records, response) = bash(&mut client, "wrong");
    assert_eq!(
        response["error"],
        "Invalid user_bash handler result: return undefined for local execution or exactly one \
         valid { operations } or { result } object"
    );
    assert_eq!(of_type(&records, "extension_error").len(), 1);
    let (_, response) = bash(&mut client, "echo real");
    assert_eq!(response["data"]["output"], "real\n");
    client.say(&json!({"id": "m", "type": "get_messages"}));
    let messages = client.response("m")["data"]["messages"].clone();
    assert_eq!(messages[0]["output"], "made up");
    assert_eq!(messages[1]["command"], "echo real");
}

#[test]
fn user_bash_hook_runs_a_command_itself() {
    let mut client = with("say Nothing.\n", SHELL);
    let (records, response) = bash(&mut client, "own");
    let deltas: Vec<_> = of_type(&records, "bash_execution_update");
    let deltas: Vec<_> = deltas.iter().map(|update| update["delta"].as_str().unwrap()).collect();
    // Pieces that the server reads late arrive as one.
    assert_eq!(deltas.concat(), "one\ntwo\n");
    assert_eq!(
        response["data"],
        json!({"output": "one\ntwo\n", "exitCode": 7, "cancelled": false, "truncated": false})
    );
    let (_, response) = bash(&mut client, "fails");
    assert_eq!(response["error"], "no such machine");
}

#[test]
fn command_run_by_an_extension_can_be_aborted() {
    let mut client = with("say Nothing.\n", SHELL);
    for (command, output) in [("waits", "waiting\n"), ("deaf", "")] {
        client.say(&json!({"id": command, "type": "bash", "command": command}));
        client.until_type("bash_execution_update");
        client.say(&json!({"type": "abort_bash"}));
        let response = client.until(|record| record["id"] == command).pop().unwrap();
        assert_eq!(
            response["data"],
            json!({"output": output, "cancelled": true, "truncated": false})
        );
    }
}

#[test]
fn hanging_user_bash_hook_fails_closed() {
    let mut client =
        with("say Nothing.\n", "export default (pi) => pi.on(\"user_bash\", () => { for (;;); });");
    let (_, response) = bash(&mut client, "touch made");
    assert_eq!(response["success"], false);
    client.say(&json!({"id": "l", "type": "get_state"}));
    assert_eq!(client.response("l")["success"], true);
}
