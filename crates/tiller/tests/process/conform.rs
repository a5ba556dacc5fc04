//! `tiller conform` against this program, and against servers that are wrong, silent or absent.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Place};
use crate::extensions_sidecar::is_alive;

const TILLER: &str = env!("CARGO_BIN_EXE_tiller");

/// Runs the suite with `--json`. Returns the result and the exit code.
fn conform(flags: &[&str], server: &[&str]) -> (Value, Option<i32>) {
    let arguments = [&["conform", "--json"], flags, &["--"], server].concat();
    let output = Place::new().output(&arguments, "");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "", "nothing on stderr that is no terminal");
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

/// The names of the checks with this status.
fn names<'a>(report: &'a Value, status: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["status"] == status).map(|c| c["name"].as_str().unwrap()).collect()
}

/// A long limit: it is reached only by a server that does not answer.
fn expect_all_ok(level: &str) {
    let flags = ["--wire", level, "--wait", "30"];
    let (report, code) = conform(&flags, &[TILLER, "--mode", "rpc"]);
    let checks = report["checks"].as_array().unwrap();
    let other: Vec<&Value> = checks.iter().filter(|check| check["status"] != "ok").collect();
    assert!(other.is_empty(), "{other:#?}");
    assert_eq!((code, &report["wire"]), (Some(0), &json!(level)));
    assert_eq!(report["passed"], checks.len());
    assert!(checks.len() > 90, "{}", checks.len());
}

#[test]
fn tiller_passes_every_check_at_level_pi() {
    expect_all_ok("pi");
}

#[test]
fn tiller_passes_every_check_at_level_pi_delta() {
    expect_all_ok("pi-delta");
}

#[test]
fn tiller_passes_every_check_at_level_xcsh() {
    expect_all_ok("xcsh");
}

#[test]
fn result_is_one_object_with_the_chosen_checks() {
    let (report, code) = conform(&["--only", "blank lines"], &[TILLER, "--mode", "rpc"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        report,
        json!({
            "server": format!("{TILLER} --mode rpc"),
            "wire": "pi",
            "checks": [
                {"group": "start", "name": "the server answers get_state and a prompt",
                    "status": "ok"},
                {"group": "framing", "name": "blank lines are ignored", "status": "ok"},
            ],
            "passed": 2,
            "failed": 0,
            "skipped": 0,
        })
    );
}

#[test]
fn table_has_a_line_per_check() {
    let arguments = ["conform", "--only", "CRLF", "--", TILLER, "--mode", "rpc"];
    let output = Place::new().output(&arguments, "");
    let table = String::from_utf8(output.stdout).unwrap();
    let rows = table.lines().filter(|line| line.ends_with("  ok")).count();
    assert_eq!(rows, 2, "{table}");
    assert!(table.ends_with("\n2 passed, 0 failed, 0 skipped\n"), "{table}");
}

#[test]
fn server_that_omits_a_response_fails_that_check() {
    // Passes on every record of tiller but the refusals of lines that are no JSON.
    const FILTER: &str = r#""$1" --mode rpc | while IFS= read -r line; do
        case $line in
            *'"command":"parse"'*) ;;
            *) printf '%s\n' "$line" ;;
        esac
    done"#;
    let flags = ["--only", "JSON is refused"];
    let (report, code) = conform(&flags, &["sh", "-c", FILTER, "sh", TILLER]);
    assert_eq!(names(&report, "failed"), ["invalid JSON is refused as parse"]);
    assert_eq!(names(&report, "ok"), ["the server answers get_state and a prompt"]);
    assert_eq!((code, &report["failed"]), (Some(1), &json!(1)));
}

#[test]
fn server_that_does_not_start_fails_the_first_check() {
    for (server, why) in
        [("false", "the server ended"), ("/no/such/server", "cannot start /no/such/server")]
    {
        let (report, code) = conform(&[], &[server]);
        assert_eq!(code, Some(1));
        let first = &report["checks"][0];
        let detail = first["detail"].as_str().unwrap();
        assert!(first["status"] == "failed" && detail.contains(why), "{first}");
        let checks = report["checks"].as_array().unwrap().len();
        assert_eq!((&report["failed"], &report["skipped"]), (&json!(1), &json!(checks - 1)));
    }
}

/// The process ids in a file, one per line.
fn pids(file: &Path) -> Vec<u64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn wait_until(what: &str, is_met: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_met() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn silent_server_is_ended_with_its_children() {
    const SILENT: &str = r#"sleep 300 & echo $! >> "$1"
        setsid sleep 300 & echo $! >> "$1"
        echo $$ >> "$1"; cat"#;
    let place = Place::new();
    let file = place.path().join("pids");
    let server = ["sh", "-c", SILENT, "sh", file.to_str().unwrap()];
    let (report, code) = conform(&["--wait", "1"], &server);
    assert_eq!((code, &report["failed"]), (Some(1), &json!(1)));
    assert_eq!(pids(&file).len(), 3);
    wait_until("a child of the server is left", || {
        pids(&file).into_iter().all(|pid| !is_alive(pid))
    });
}

#[test]
fn signal_ends_the_suite_and_its_server() {
    let place = Place::new();
    let file = place.path().join("pids");
    let script = r#"echo $$ > "$1"; exec sleep 300"#;
    let server = ["sh", "-c", script, "sh", file.to_str().unwrap()];
    let command = place.command(&[&["conform", "--wait", "600", "--"], &server[..]].concat());
    let mut client = Client::start(command, place.clone());
    wait_until("the server does not start", || !pids(&file).is_empty());
    client.signal("TERM");
    assert_eq!(client.exit_code(), Some(143));
    wait_until("the server is left", || pids(&file).into_iter().all(|pid| !is_alive(pid)));
}

#[test]
fn invalid_command_line_exits_with_2() {
    for arguments in [
        &["conform"][..],
        &["conform", "--json"],
        &["conform", "--wire", "pii", "--", "cat"],
        &["conform", "--wait", "0", "--", "cat"],
        &["conform", "--frobnicate", "--", "cat"],
    ] {
        let output = Place::new().output(arguments, "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
        assert!(stderr.starts_with("Error: "), "{arguments:?}: {stderr}");
    }
}
