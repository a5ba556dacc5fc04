//! A session that misbehaves delays no other. How a failing session ends is tested in
//! `tiller-server`, since no client can make one fail.

use serde_json::json;

use super::flood_of_connections::assert_answers;
use super::server::{ServeProcess, wait_until};
use crate::client::Place;

const HOSTILE: &str = "export default (pi) => {
  const command = (name, handler) => pi.registerCommand(name, { description: name, handler });
  command('loop', async () => { for (;;); });
  command('flood', async (_, ctx) => {
    for (;;) {
      for (let n = 0; n < 100; n++) ctx.ui.notify('x'.repeat(1000), 'info');
      await new Promise((done) => setTimeout(done, 0));
    }
  });
};";

#[test]
fn extension_that_loops_or_floods_delays_no_other_session() {
    let place = Place::new().with("hostile.js", HOSTILE);
    let server =
        ServeProcess::script_in(place, "say Hello.\n\nsay Still.", &["--", "-e", "hostile.js"]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    for name in ["loop", "flood"] {
        let mut hostile = server.connect();
        let other = hostile.open_in_memory();
        let message = format!("/{name}");
        hostile.say(&json!({"type": "prompt", "message": message, "sessionId": other}));
        if name == "flood" {
            // Its client reads nothing from here on.
            hostile.take(|record| record["method"] == "notify");
        }
        assert_answers(&format!("beside /{name}"), &mut client, &handle, || true);
        client.prompt(&handle, "Hello");
        client.until_settled(&handle);
        // The session itself can be closed.
        client.ask(json!({"type": "close_session", "sessionId": other}));
        let listed = client.ask(json!({"type": "list_open_sessions"}));
        assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    }
    server.stop();
}

/// A client without a reader holds back its session, and its end frees the session.
#[test]
fn session_whose_client_does_not_read_can_be_joined_and_closed() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut silent = server.connect();
    silent.say(&json!({"id": "o", "type": "open_session", "inMemory": true}));
    let mut client = server.connect();
    let find = |client: &mut super::client::ServeClient| {
        let listed = client.ask(json!({"type": "list_open_sessions"}));
        listed["sessions"][0]["sessionId"].as_str().map(str::to_owned)
    };
    wait_until("the session is open", || find(&mut server.connect()).is_some());
    let handle = find(&mut client).unwrap();
    let large = "x".repeat(8 << 20);
    for number in 0..6 {
        let name = format!("{number}");
        let bash = json!({"type": "set_session_name", "name": name, "sessionId": handle});
        silent.say(&bash);
        let prompt = json!({"type": "prompt", "message": large, "sessionId": handle});
        if number < 2 {
            silent.say(&prompt);
        }
    }
    client.ask(json!({"type": "attach", "sessionId": handle}));
    client.ask(json!({"type": "get_state", "sessionId": handle}));
    client.ask(json!({"type": "close_session", "sessionId": handle}));
    server.stop();
}

/// Commands wait for a session that is held back by its client. More than 16 MiB are refused.
#[test]
fn too_many_commands_that_wait_are_refused() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut silent = server.connect();
    silent.say(&json!({"id": "o", "type": "open_session", "inMemory": true}));
    let session = || {
        let listed = server.connect().ask(json!({"type": "list_open_sessions"}));
        listed["sessions"][0].clone()
    };
    wait_until("the session is open", || session()["sessionId"].is_string());
    let handle = session()["sessionId"].as_str().unwrap().to_owned();
    // Two records carry it, and the run waits until they are read.
    let large = "x".repeat(12 << 20);
    silent.say(&json!({"type": "prompt", "message": large, "sessionId": handle}));
    wait_until("the message is there", || session()["messageCount"] == 1);
    let padding = "x".repeat(8 << 10);
    let count = 3000;
    for id in 0..count {
        silent.say(&json!({"id": id, "type": "get_state", "pad": padding, "sessionId": handle}));
    }
    let mut codes = Vec::new();
    let mut answered = std::collections::HashSet::new();
    while answered.len() < count {
        let response = silent.take(|record| record["id"].is_u64());
        answered.insert(response["id"].as_u64().unwrap());
        codes.push(response["code"].as_str().unwrap_or_default().to_owned());
    }
    let refused = codes.iter().filter(|code| *code == "session_busy").count();
    let handled = codes.iter().filter(|code| code.is_empty()).count();
    assert!(refused > 0 && handled > 1000, "{refused} refused, {handled} handled");
    assert_eq!(refused + handled, count);
    silent.ask(json!({"type": "get_state", "sessionId": handle}));
    silent.cut();
    wait_until("no client is attached", || session()["clients"] == 0);
}
