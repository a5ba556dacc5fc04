//! `TILLER_LOG` and `--log-file`: what is logged, and what is not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::client::{Place, finish};
use super::loopback::{Loopback, Reply, says};

const EXTENSION: &str = r#"
    export default function (pi) {
        pi.on("input", () => undefined);
    }"#;

/// A folder with a model at this server, a key printed by a command, and an extension.
fn place(server: &Loopback) -> Place {
    let place = Place::new().with("ext.ts", EXTENSION);
    let folder = place.path().join(".pi/agent");
    fs::create_dir_all(&folder).unwrap();
    let provider = json!({"api": "openai-completions", "baseUrl": server.url,
        "apiKey": "!printf 'sk-sec%s-printed' ret", "headers": {"x-team": "sk-secret-team"},
        "models": [{"id": "m"}]});
    let models = json!({"providers": {"p": provider}});
    fs::write(folder.join("models.json"), models.to_string()).unwrap();
    place
}

fn records(place: &Place, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(place.path().join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn log_has_requests_responses_hooks_children_and_times_but_no_key() {
    let server = Loopback::start(vec![Reply::Events(says(&["Hello."]))]);
    let place = place(&server);
    let message = "The token is sk-secret-environment";
    let mut command = place.command(&["-p", "--no-session", "--no-tools", "-e", "ext.ts"]);
    command.args(["--model", "p/m", message]);
    command.env("TILLER_LOG", "run.log").env("MY_API_KEY", "sk-secret-environment");
    let output = finish(command, "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello.\n");
    let asked = server.asked();
    assert!(asked.head.contains("sk-secret-printed") && asked.head.contains("sk-secret-team"));

    let path = place.path().join("run.log");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    let leak = text.find("sk-secret").map(|at| &text[at.saturating_sub(100)..at + 30]);
    assert_eq!(leak, None);

    let records = records(&place, "run.log");
    let mut by_event: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for record in &records {
        assert!(record["time"].is_string() && record["pid"].is_u64(), "{record}");
        by_event.entry(record["event"].as_str().unwrap()).or_default().push(record);
    }
    let request = by_event["request"][0];
    assert_eq!(request["model"], "p/m");
    assert_eq!(request["headers"]["authorization"], "[redacted]");
    assert_eq!(request["headers"]["x-team"], "[redacted]");
    assert_eq!(request["body"]["model"], "m");
    let response = by_event["response"][0];
    assert_eq!((&response["request"], &response["status"]), (&request["request"], &json!(200)));
    let end = by_event["responseEnd"][0];
    assert_eq!((&end["request"], &end["end"]), (&request["request"], &json!("complete")));
    assert!(end["body"].as_str().unwrap().contains("Hello."), "{end}");
    assert!(end["ms"].as_f64() >= response["ms"].as_f64());
    let child = by_event["childStart"][0];
    assert!(child["arguments"].to_string().contains("printf"), "{child}");
    let ended = by_event["childEnd"][0];
    assert_eq!((&ended["child"], &ended["exitCode"]), (&child["child"], &json!(0)));
    assert!(by_event["hook"].iter().any(|hook| hook["hook"] == "input" && hook["ms"].is_f64()));
    assert_eq!(records.first().unwrap()["event"], "start");
    assert_eq!(records.last().unwrap()["event"], "end");
    assert_eq!(records.last().unwrap()["exitCode"], 0);
}

#[test]
fn failed_request_is_logged_with_its_reason() {
    let body = r#"{"error":{"message":"no such thing"}}"#;
    let server = Loopback::start(vec![Reply::Refusal(400, body.to_owned())]);
    let place = place(&server);
    let arguments = ["-p", "--no-session", "--model", "p/m", "--log-file", "run.log", "Hi"];
    assert_eq!(place.output(&arguments, "").status.code(), Some(1));
    let records = records(&place, "run.log");
    let end = records.iter().find(|record| record["event"] == "responseEnd").unwrap();
    assert_eq!(end["end"], "failed");
    assert!(end["error"].as_str().unwrap().contains("no such thing"), "{end}");
}

#[test]
fn log_that_cannot_be_opened_is_a_warning_and_the_run_goes_on() {
    let place = Place::new();
    std::os::unix::fs::symlink("elsewhere", place.path().join("link")).unwrap();
    let arguments = ["-p", "--no-session", "--model", "tiller/demo", "--no-tools", "Hi"];
    let mut command = place.command(&arguments);
    command.env("TILLER_LOG", "link");
    let output = finish(command, "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("Warning: cannot log to ") && said.contains("/link: "), "{said}");
    assert_eq!(output.status.code(), Some(0));
    assert!(!place.path().join("elsewhere").exists());
}

#[test]
fn no_log_is_written_by_default() {
    let place = Place::new();
    let arguments = ["-p", "--no-session", "--model", "tiller/demo", "--no-tools", "Hi"];
    assert!(place.output(&arguments, "").status.success());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
