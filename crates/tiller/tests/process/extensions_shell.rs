//! Extensions and the client's own shell commands, where a real shell runs or an engine hangs.

use serde_json::{Value, json};

use crate::client::Client;
use crate::extensions::{of_type, with};

fn bash(client: &mut Client, command: &str) -> (Vec<Value>, Value) {
    client.say(&json!({"id": command, "type": "bash", "command": command}));
    let mut records =
        client.until(|record| record["id"] == command && record["type"] == "response");
    let response = records.pop().unwrap();
    (records, response)
}

#[test]
fn user_bash_hook_without_a_result_lets_the_shell_run() {
    let extension = "export default (pi) => pi.on(\"user_bash\", ({ command }) => void pi.appendEntry(\"asked\", command));";
    let mut client = with("say Nothing.\n", extension);
    let (records, response) = bash(&mut client, "echo real");
    assert_eq!(of_type(&records, "entry_appended")[0]["entry"]["data"], "echo real");
    assert_eq!(response["data"]["output"], "real\n");
    client.say(&json!({"id": "m", "type": "get_messages"}));
    let messages = client.response("m")["data"]["messages"].clone();
    assert_eq!(messages[0]["command"], "echo real");
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
