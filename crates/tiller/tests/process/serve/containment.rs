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
