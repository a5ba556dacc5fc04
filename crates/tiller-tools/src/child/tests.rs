//! Programs with pipes, and the events they produce.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;

/// An upper bound for events that are certain to happen, not a pause.
const PATIENCE: Duration = Duration::from_secs(30);

fn program(command: &str, args: &[&str]) -> Program {
    Program {
        command: command.to_owned(),
        args: args.iter().map(|arg| arg.to_string()).collect(),
        cwd: "/".into(),
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap()), ("A".into(), "b".into())],
        stdin: false,
        argv0: None,
        inherited: Vec::new(),
    }
}

fn script(script: &str) -> Program {
    program("sh", &["-c", script])
}

fn start(program: Program) -> (Handle, Receiver<ProgramEvent>) {
    let (sender, receiver) = channel();
    let sink = Box::new(move |happening| sender.send(happening).unwrap());
    (spawn(program, sink).unwrap(), receiver)
}

/// All events up to `Closed`, with neighbouring chunks of a kind joined.
fn all(receiver: &Receiver<ProgramEvent>) -> Vec<ProgramEvent> {
    let mut all: Vec<ProgramEvent> = Vec::new();
    loop {
        let happening = receiver.recv_timeout(PATIENCE).unwrap();
        match (all.last_mut(), &happening) {
            (Some(ProgramEvent::Stdout(before)), ProgramEvent::Stdout(more))
            | (Some(ProgramEvent::Stderr(before)), ProgramEvent::Stderr(more)) => {
                before.extend(more)
            }
            _ => all.push(happening),
        }
        if all.last() == Some(&ProgramEvent::Closed) {
            // The thread and the sink are gone, so no event can follow.
            assert!(receiver.recv_timeout(PATIENCE).is_err());
            return all;
        }
    }
}

fn check(program: Program, expected: Expect) {
    let (_handle, receiver) = start(program);
    expected.assert_eq(&print(&all(&receiver)));
}

fn print(all: &[ProgramEvent]) -> String {
    let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    let lines = all.iter().map(|happening| match happening {
        ProgramEvent::Stdout(bytes) => format!("out {}", text(bytes)),
        ProgramEvent::Stderr(bytes) => format!("err {}", text(bytes)),
        ProgramEvent::Exit { code, signal } => format!("exit {code:?} {signal:?}"),
        ProgramEvent::Closed => "closed".to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn output_is_reported_before_exit() {
    check(
        script("echo one; echo two"),
        expect![[r#"
            out "one\ntwo\n"
            exit Some(0) None
            closed"#]],
    );
    check(
        script("echo wrong >&2; exit 3"),
        expect![[r#"
            err "wrong\n"
            exit Some(3) None
            closed"#]],
    );
    check(
        script("exit 143"),
        expect![[r#"
            exit Some(143) None
            closed"#]],
    );
    check(
        script("kill -TERM $$"),
        expect![[r#"
            exit None Some(15)
            closed"#]],
    );
}

#[test]
fn program_gets_arguments_environment_and_files() {
    let mut given = script(r#"echo "$0 $A $(pwd) [$HOME]"; cat"#);
    given.args.push("name".to_owned());
    check(
        given,
        expect![[r#"
            out "name b / []\n"
            exit Some(0) None
            closed"#]],
    );
    let mut other = script("echo $0");
    other.argv0 = Some("another".to_owned());
    check(
        other,
        expect![[r#"
            out "another\n"
            exit Some(0) None
            closed"#]],
    );
}

/// Background children may still write after the program has ended.
#[test]
fn closed_is_reported_when_background_children_end() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let (_handle, receiver) = start(script(&format!("({wait}; echo late) & echo early; exit 0")));
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(ProgramEvent::Exit { .. })) {
        seen.push(receiver.recv_timeout(PATIENCE).unwrap());
    }
    std::fs::write(&go, "").unwrap();
    seen.extend(all(&receiver));
    expect![[r#"
        out "early\n"
        exit Some(0) None
        out "late\n"
        closed"#]]
    .assert_eq(&print(&seen));
}

#[test]
fn stdin_is_echoed_and_closed() {
    let (handle, receiver) = start(Program { stdin: true, ..program("cat", &[]) });
    handle.write(b"hello ".to_vec());
    handle.write(b"there".to_vec());
    handle.close_stdin();
    handle.write(b" lost".to_vec());
    expect![[r#"
        out "hello there"
        exit Some(0) None
        closed"#]]
    .assert_eq(&print(&all(&receiver)));
    // Dropping the handle closes stdin, with or without a write before.
    for words in ["", "words"] {
        let (handle, receiver) = start(Program { stdin: true, ..program("cat", &[]) });
        if !words.is_empty() {
            handle.write(words.into());
        }
        drop(handle);
        let all = all(&receiver);
        assert!(all.ends_with(&[
            ProgramEvent::Exit { code: Some(0), signal: None },
            ProgramEvent::Closed
        ]));
        assert_eq!(all.len(), if words.is_empty() { 2 } else { 3 });
    }
}

/// More than all pipes hold passes through, in both directions at once.
#[test]
fn large_input_is_echoed() {
    let much: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (handle, receiver) = start(Program { stdin: true, ..program("cat", &[]) });
    for piece in much.chunks(100_000) {
        handle.write(piece.to_vec());
    }
    handle.close_stdin();
    let all = all(&receiver);
    assert!(all[0] == ProgramEvent::Stdout(much));
}

/// Writing to a program that does not read, or has ended, does not block.
#[test]
fn write_does_not_block_on_a_program_that_does_not_read() {
    let (handle, receiver) = start(Program { stdin: true, ..script("exec sleep 60") });
    for _ in 0..100 {
        handle.write(vec![0; 100_000]);
    }
    handle.kill(15);
    assert_eq!(print(&all(&receiver)), "exit None Some(15)\nclosed");
    handle.write(vec![0; 100_000]);
    handle.kill(9);
}

/// A sink that blocks stops the program, so memory does not grow.
#[test]
fn slow_sink_makes_the_program_wait() {
    let (sender, receiver) = sync_channel(0);
    let sink = Box::new(move |happening| drop(sender.send(happening)));
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let program = script(&format!(
        "i=0; while [ $i -lt 200 ]; do head -c 100000 /dev/zero; i=$((i+1)); echo $i > {}; done",
        count.display()
    ));
    let handle = spawn(program, sink).unwrap();
    let written = || -> usize {
        let text = std::fs::read_to_string(&count).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let mut received = 0;
    loop {
        match receiver.recv_timeout(PATIENCE).unwrap() {
            ProgramEvent::Stdout(bytes) => received += bytes.len(),
            ProgramEvent::Exit { .. } => {}
            ProgramEvent::Closed => break,
            ProgramEvent::Stderr(bytes) => panic!("{}", String::from_utf8_lossy(&bytes)),
        }
        // One pipe, and one chunk in the reader thread.
        let ahead = (written() * 100_000).saturating_sub(received);
        assert!(ahead <= 64 * 1024 + CHUNK_MAX_BYTES + 100_000, "{ahead}");
    }
    assert_eq!(received, 20_000_000);
    drop(handle);
}

#[test]
fn signals_reach_the_program_and_its_group() {
    // The shell itself, without a child: a child would be signalled too, and some shells print a
    // message then.
    let (handle, receiver) =
        start(script("trap 'echo caught; exit 7' USR1; echo ready; while :; do :; done"));
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), ProgramEvent::Stdout(b"ready\n".to_vec()));
    // Signal 0, and a number that is not a signal.
    handle.kill(0);
    handle.kill(1000);
    handle.kill(-3);
    handle.kill(nix::libc::SIGUSR1);
    assert_eq!(print(&all(&receiver)), "out \"caught\\n\"\nexit Some(7) None\nclosed");
    let (handle, receiver) = start(script("sleep 60 & sleep 60 & echo ready; wait"));
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), ProgramEvent::Stdout(b"ready\n".to_vec()));
    handle.kill(9);
    assert_eq!(print(&all(&receiver)), "exit None Some(9)\nclosed");
}

#[test]
fn pid_is_the_programs_own() {
    let (handle, receiver) = start(script("echo $$"));
    let all = all(&receiver);
    assert_eq!(all[0], ProgramEvent::Stdout(format!("{}\n", handle.pid()).into()));
}

#[test]
fn spawn_errors_are_reported() {
    let check = |program: Program| {
        let sink = Box::new(|happening| panic!("{happening:?}"));
        let err = spawn(program, sink).err().unwrap();
        err.raw_os_error().unwrap()
    };
    use nix::libc::{EACCES, ENOENT, ENOTDIR};
    assert_eq!(check(program("no-such-program", &[])), ENOENT);
    assert_eq!(check(program("/", &[])), EACCES);
    let nowhere = Program { cwd: "/no/such/folder".into(), ..program("true", &[]) };
    assert_eq!(check(nowhere), ENOENT);
    let file = std::env::current_exe().unwrap();
    assert!(Path::new(&file).is_file());
    assert_eq!(check(Program { cwd: file, ..program("true", &[]) }), ENOTDIR);
}
