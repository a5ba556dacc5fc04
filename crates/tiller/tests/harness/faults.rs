//! A conversation on a disk that fails at each call in turn: nothing is announced that is not
//! stored, memory and file agree, and in the end every call has a result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tiller_session::Session;

use super::faulty::{CODES, Fault, Faulty, Taken};
use super::server::TestServer;
use super::transcript::{Line, Transcript};

const TRANSCRIPT: &str = r#"
-- options --
wire pi-delta
sessions kept
settings {"session":{"durability":"entry"},"retry":{"enabled":false}}
tools ls read nap

-- notes.md --
hello

-- conversation --
model>  call ls {} \
model>  call read {"path":"notes.md"}
model>  say one
model>  call nap {"ms":5}
model>  say two
model>  say three
model>  say four
client> {"id":"1","type":"prompt","message":"first"}
tiller>
client> {"id":"2","type":"set_session_name","name":"a name"}
client> {"id":"3","type":"steer","message":"wait"}
tiller>
client> {"id":"4","type":"prompt","message":"second"}
clock>  20ms
client> {"id":"5","type":"set_thinking_level","level":"low"}
tiller>
"#;

/// The prompt after the disk works again.
const LAST: &str = r#"{"id":"6","type":"prompt","message":"last"}"#;
const MESSAGES: &str = r#"{"id":"m","type":"get_messages"}"#;

/// Long enough for every tool.
const WHILE: Line = Line::Clock(50);

/// Makes every call fail, alone and with all later ones. Returns how many calls failed.
pub fn sweep() -> usize {
    let transcript = Transcript::parse(TRANSCRIPT).unwrap();
    let (calls, _) = play(&transcript, None);
    assert!(calls > 20, "only {calls} calls");
    let mut faults = 0;
    for at in 0..calls {
        for (_, code) in CODES {
            for (kind, times) in [1, 2, 3, 6].into_iter().enumerate() {
                let parts = [Taken::Bytes(0), Taken::Bytes(40), Taken::AllBut(1)];
                let fault = Fault { at, times, code, taken: parts[(at + kind) % 3] };
                faults += play(&transcript, Some(fault)).1;
            }
        }
    }
    faults
}

fn play(transcript: &Transcript, fault: Option<Fault>) -> (usize, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let disk = Faulty::new(fault);
    let played = runtime.block_on(converse(transcript, &disk));
    played.unwrap_or_else(|why| panic!("{why}, with {fault:?}"));
    disk.calls()
}

async fn converse(transcript: &Transcript, disk: &Arc<Faulty>) -> Result<(), String> {
    let mut server = TestServer::start_on(transcript, disk.clone())?;
    let mut played = String::new();
    let with_log = |why: String, played: &str| format!("{played}\n{why}");
    for group in &transcript.groups {
        server.take(group)?;
        server.take(&[WHILE])?;
        server.settle(&mut played).await.map_err(|why| with_log(why, &played))?;
        check(&mut server).await.map_err(|why| with_log(why, &played))?;
    }
    disk.heal();
    for line in [LAST, LAST] {
        server.take(&[Line::Client(line.to_owned()), WHILE])?;
        server.settle(&mut played).await.map_err(|why| with_log(why, &played))?;
    }
    check(&mut server).await.map_err(|why| with_log(why, &played))?;
    let session = stored(server.folder()).ok_or("nothing was stored in the end")?;
    let open = session.unanswered_calls().unwrap();
    if !open.is_empty() || !has_all_results(&messages(&session)) {
        return Err(with_log(format!("a call without a result: {open:?}"), &played));
    }
    Ok(())
}

/// What was announced is stored, and the server's messages are those of the file.
async fn check(server: &mut TestServer) -> Result<(), String> {
    let reported: Vec<Value> = server.ended_messages().to_vec();
    server.take(&[Line::Client(MESSAGES.to_owned())])?;
    server.settle(&mut String::new()).await?;
    let known = server.answer("get_messages")["data"]["messages"].clone();
    let stored = stored(server.folder()).map(|session| messages(&session)).unwrap_or_default();
    let stored: Vec<Value> = stored.iter().map(core_of).collect();
    let known: Vec<Value> = known.as_array().into_iter().flatten().map(core_of).collect();
    if known != stored {
        return Err(format!("memory has {known:?}, the disk has {stored:?}"));
    }
    match reported.iter().find(|message| !stored.contains(&core_of(message))) {
        Some(message) => Err(format!("told and not stored: {message}")),
        None => Ok(()),
    }
}

/// A message without the fields that a wire level adds.
fn core_of(message: &Value) -> Value {
    let names = ["role", "content", "toolCallId", "isError", "stopReason", "timestamp"];
    names.iter().map(|name| (name.to_string(), message[name].clone())).collect()
}

/// The session that a new process would find.
fn stored(folder: &Path) -> Option<Session> {
    let mut found: Vec<PathBuf> = Vec::new();
    for project in std::fs::read_dir(folder.join(".sessions")).ok()? {
        let files = std::fs::read_dir(project.unwrap().path()).unwrap();
        found.extend(files.map(|file| file.unwrap().path()));
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    assert!(found.len() <= 1, "{found:?}");
    Some(Session::open_read_only(found.first()?).unwrap())
}

fn messages(session: &Session) -> Vec<Value> {
    let mut bytes = Vec::new();
    session.write_messages(&mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn has_all_results(messages: &[Value]) -> bool {
    let blocks = messages.iter().flat_map(|message| message["content"].as_array());
    let calls = blocks.flatten().filter(|block| block["type"] == "toolCall");
    let results: Vec<&Value> = messages.iter().map(|message| &message["toolCallId"]).collect();
    calls.into_iter().all(|call| results.contains(&&call["id"]))
}
