//! Events of the past, in one connection and in the next.

use std::process::Stdio;

use tiller_client::protocol::{PromptStatus, Record};
use tiller_client::{Client, ClientError, Position};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::support::{Gate, Place, bounded, until, until_in};

#[test]
fn reader_continues_without_gap_or_duplicate() {
    let place = Place::new();
    bounded(async {
        let client = place.client("chunk words\nsay one two three\n\nsay four\n").await;
        let mut all = client.events().await;
        let mut turn = client.prompt("Count").await.unwrap();
        let is_update = |record: &Record<'_>| matches!(record, Record::MessageUpdate { .. });
        let first = until(&mut turn, is_update).await;
        turn.result().await.unwrap().check().unwrap();
        let mut replay = client.replay(first.position()).await.unwrap();
        client.prompt("More").await.unwrap().result().await.unwrap().check().unwrap();

        let mut results = 0;
        while results < 2 {
            let event = all.next().await.unwrap().unwrap();
            results += u32::from(matches!(event.record(), Record::PromptResult { .. }));
            if event.seq() > first.seq() {
                assert_eq!(replay.next().await.unwrap().unwrap(), event);
            }
        }
    });
}

#[test]
fn replay_of_several_pages_in_the_middle_of_an_answer_misses_nothing() {
    let place = Place::new();
    bounded(async {
        let client = place.client("repeat 3000 \"word{i} \"\n").await;
        let mut turn = client.prompt("Go").await.unwrap();
        let mut replay = client.replay(0).await.unwrap();
        let mut text = String::new();
        loop {
            let event = replay.next().await.unwrap().unwrap();
            text.push_str(event.text_delta().unwrap_or_default());
            if matches!(event.record(), Record::PromptResult { .. }) {
                break;
            }
        }
        let expected: String = (1..=3000).map(|i| format!("word{i} ")).collect();
        assert_eq!(text, expected);
        assert_eq!(turn.result().await.unwrap().text, text);
    });
}

#[test]
fn events_that_are_gone_are_refused() {
    let place = Place::new();
    bounded(async {
        let client = place.client("repeat 11000 x\n").await;
        client.prompt("Go").await.unwrap().result().await.unwrap().check().unwrap();
        let lost = client.replay(1).await.err().unwrap();
        assert_eq!(lost.to_string(), "tiller no longer has all events after 1");
        let other = Position { seq: 5, epoch: Some("another".into()) };
        assert!(matches!(client.replay(other).await, Err(ClientError::EventsLost { .. })));
    });
}

/// Relays bytes between tiller and the newest connection, as a host's own transport would. Without
/// a connection, output of tiller is lost.
async fn relay(mut tiller: Child, mut connections: mpsc::Receiver<DuplexStream>) {
    let (mut stdin, mut stdout) = (tiller.stdin.take().unwrap(), tiller.stdout.take().unwrap());
    let mut output = [0; 4096];
    let mut input = [0; 4096];
    let Some(first) = connections.recv().await else { return };
    let (mut reader, mut writer) = split(first);
    let mut is_open = true;
    loop {
        tokio::select! {
            next = connections.recv() => match next {
                Some(next) => {
                    (reader, writer) = split(next);
                    is_open = true;
                }
                None => return,
            },
            length = stdout.read(&mut output) => match length.unwrap() {
                0 => return,
                // The connection may be gone.
                length => writer.write_all(&output[..length]).await.unwrap_or_default(),
            },
            length = reader.read(&mut input), if is_open => match length.unwrap() {
                0 => is_open = false,
                length => stdin.write_all(&input[..length]).await.unwrap(),
            },
        }
    }
}

#[test]
fn next_connection_to_a_running_tiller_continues_after_the_last_event() {
    let (place, gate) = (Place::new(), Gate::default());
    let script = place.write("model.script", "say One.\ncall gate {}\n\nsay Two.\n");
    bounded(async {
        let tiller = Command::new(env!("CARGO_BIN_EXE_tiller"))
            .args(["--mode", "rpc", "--model", "tiller/script", "--no-session", "--script"])
            .arg(&script)
            .current_dir(place.path())
            .env("HOME", place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (connections, receiver) = mpsc::channel(1);
        let relaying = tokio::spawn(relay(tiller, receiver));
        let attach = async |builder: tiller_client::Builder| {
            let (near, far) = duplex(4096);
            connections.send(far).await.unwrap();
            let (reader, writer) = split(near);
            builder.attach(reader, writer).await.unwrap()
        };

        let client = attach(Client::builder().tool(gate.tool())).await;
        let mut turn = client.prompt("Go").await.unwrap();
        let is_update = |record: &Record<'_>| matches!(record, Record::MessageUpdate { .. });
        let last = until(&mut turn, is_update).await.position();
        gate.entered().await;
        drop(client);
        assert_eq!(turn.result().await, Err(ClientError::Closed));

        let client = attach(Client::builder()).await;
        let mut replay = client.replay(last.clone()).await.unwrap();
        let next = replay.next().await.unwrap().unwrap();
        assert_eq!(next.seq(), last.seq + 1);
        client.abort().await.unwrap();
        let is_result = |record: &Record<'_>| matches!(record, Record::PromptResult { .. });
        let result = until_in(&mut replay, is_result).await;
        let Record::PromptResult { status, .. } = result.record() else { panic!("{result:?}") };
        assert_eq!(*status, PromptStatus::Aborted);
        drop(client);
        drop(connections);
        relaying.await.unwrap();
    });
}
