//! How clients and their processes end.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tiller_client::protocol::{Bash, PromptReason, PromptStatus, Record};
use tiller_client::{Client, ClientError};

use crate::support::{Place, bounded, until_in};

fn pid(client: &Client) -> Pid {
    Pid::from_raw(client.pid().unwrap().try_into().unwrap()).unwrap()
}

/// The process has ended, and its status was collected.
fn assert_gone(pid: Pid) {
    assert_eq!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
}

#[test]
fn close_ends_the_process() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say hi\n").await;
        let pid = pid(&client);
        assert_eq!(client.close().await.unwrap().code(), Some(0));
        assert_gone(pid);
    });
}

#[test]
fn close_during_a_run_delivers_its_end() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say I go on\nhang\n").await;
        let mut events = client.events().await;
        let mut turn = client.prompt("Go").await.unwrap();
        turn.next_text().await.unwrap().unwrap();
        client.close().await.unwrap();
        let result = turn.result().await.unwrap();
        assert_eq!(result.status, PromptStatus::Aborted);
        assert_eq!(result.reason, Some(PromptReason::Shutdown));
        until_in(&mut events, |record| matches!(record, Record::AgentSettled { .. })).await;
        assert_eq!(events.next().await, Ok(None));
        assert_eq!(turn.steer("More").await.unwrap_err(), ClientError::Closed);
    });
}

#[test]
fn killed_server_fails_everything_that_is_pending() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say I go on\nhang\n").await;
        let mut events = client.events().await;
        let mut turn = client.prompt("Go").await.unwrap();
        turn.next_text().await.unwrap().unwrap();
        let pid = pid(&client);
        let sleep = Bash { command: "sleep 600".into(), exclude_from_context: false };
        let (pending, ()) = tokio::join!(client.bash(sleep), async {
            // The response comes behind the shell command.
            client.get_state().await.unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        });
        let Err(error) = pending else { panic!("{pending:?}") };
        let ClientError::ServerExited { status: Some(status), .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(turn.result().await.unwrap_err(), error);
        assert_eq!(client.get_state().await.unwrap_err(), error);
        while let Ok(event) = events.next().await {
            assert!(event.is_some(), "the stream must end with an error");
        }
        assert_gone(pid);
    });
}

#[test]
fn bad_command_line_is_explained() {
    let place = Place::new();
    bounded(async {
        let error = place.scripted("say hi\n").arg("--no-such-option").start().await.unwrap_err();
        let ClientError::ServerExited { status: Some(status), stderr_tail } = &error else {
            panic!("{error}")
        };
        assert_eq!(status.code(), Some(2));
        assert!(stderr_tail.contains("--no-such-option"), "{stderr_tail}");
        assert!(error.to_string().starts_with("tiller has ended (exit status: 2): "), "{error}");
    });
}

#[test]
fn missing_program_is_explained() {
    bounded(async {
        let error = Client::builder().program("/no/such/tiller").start().await.unwrap_err();
        assert!(error.to_string().starts_with("cannot start /no/such/tiller: "), "{error}");
    });
}

#[test]
fn program_that_is_not_tiller_is_refused() {
    let place = Place::new();
    bounded(async {
        // It prints its arguments.
        let error = place.builder().program("/bin/echo").start().await.unwrap_err();
        let expected = "expected a record in JSON from tiller, got: --mode rpc --wire pi-delta";
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn process_that_does_not_end_is_killed() {
    let place = Place::new();
    // Answers `hello` as tiller does, and then ignores the end of its stdin.
    let script = format!(
        "#!/bin/sh\nread line\nprintf '%s\\n' \"$line\" | '{}' \"$@\"\nexec sleep 600\n",
        env!("CARGO_BIN_EXE_tiller")
    );
    let program = place.write("stubborn", &script);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    bounded(async {
        let builder = place.builder().program(&program).model("tiller/demo");
        let client = builder.start().await.unwrap();
        let pid = pid(&client);
        let status = client.close_within(Duration::from_millis(50)).await.unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_gone(pid);
    });
}

/// Processes that another process may collect are watched by a descriptor, which needs Linux.
#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::OwnedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;
    use crate::support::runtime;

    /// Opened while the process lives, so that its number cannot mean another one.
    fn watch(pid: Pid) -> OwnedFd {
        pidfd_open(pid, PidfdFlags::empty()).unwrap()
    }

    /// Waits for the end of a process.
    async fn ended(process: OwnedFd) {
        let wait = move || {
            let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
            poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).unwrap()
        };
        assert_eq!(tokio::task::spawn_blocking(wait).await.unwrap(), 1, "it still runs");
    }

    #[test]
    fn dropped_client_leaves_no_process() {
        let place = Place::new();
        bounded(async {
            let client = place.client("hang\n").await;
            let turn = client.prompt("Go").await.unwrap();
            let mut events = client.events().await;
            let command = "echo $$; exec sleep 600".to_owned();
            let sleep = Bash { command, exclude_from_context: false };
            let is_output =
                |record: &Record<'_>| matches!(record, Record::BashExecutionUpdate { .. });
            let output = tokio::select! {
                done = client.bash(sleep) => panic!("{done:?}"),
                output = until_in(&mut events, is_output) => output,
            };
            let Record::BashExecutionUpdate { delta, .. } = output.record() else {
                panic!("{output:?}")
            };
            let child = Pid::from_raw(delta.trim().parse().unwrap()).unwrap();
            let (tiller, child) = (watch(pid(&client)), watch(child));
            drop(client);
            ended(tiller).await;
            ended(child).await;
            drop(turn);
        });
    }

    #[test]
    fn end_of_the_runtime_leaves_no_process() {
        let place = Place::new();
        let runtime = runtime();
        let client = runtime.block_on(place.client("hang\n"));
        let tiller = watch(pid(&client));
        drop(runtime);
        bounded(ended(tiller));
        drop(client);
    }
}
