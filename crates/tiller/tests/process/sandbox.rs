//! The sandbox of the real program: what its tools may do, and what it says about itself. The
//! attempts to leave it are in `crates/tiller-sandbox/tests/red_team`.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::client::{Client, Place, finish};
use super::skip;

/// Whether this kernel can enforce a sandbox. Where it can, everything else is a failure.
fn is_there() -> bool {
    let place = project();
    let mut command = place.command(&["sandbox", "check", "--json"]);
    command.current_dir(place.path().join("project"));
    let output = finish(command, "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let landlock = report["mechanisms"]["landlock"].as_u64().unwrap();
    if landlock < 6 {
        let why = format!("the kernel has version {landlock} of Landlock, not 6");
        skip::skip("SANDBOX", &why);
        return false;
    }
    assert_eq!(report["enforced"], true, "{report}");
    assert_eq!(output.status.code(), Some(0));
    true
}

/// A project in a folder of its own, so that the home folder is outside.
fn project() -> Place {
    let place = Place::new().with("outside.txt", "outside");
    fs::create_dir_all(place.path().join("project")).unwrap();
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    place.with(".pi/agent/auth.json", "{}").with("project/inside.txt", "inside")
}

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut all =
        vec!["--mode", "rpc", "--no-session", "--cwd", "project", "--script", "../talk.script"];
    all.extend(arguments);
    let mut command = place.command(&all);
    command.env("TMPDIR", place.path());
    command
}

fn start(place: &Place, arguments: &[&str]) -> Client {
    Client::start(command(place, arguments), place.clone())
}

/// The output of a command of the client.
fn bash(client: &mut Client, command: &str) -> String {
    client.say(&json!({"id": "b", "type": "bash", "command": command}));
    let answer = client.until_type("response").pop().unwrap();
    answer["data"]["output"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The results of the tools that a script calls.
fn results(place: &Place, script: &str, arguments: &[&str]) -> Vec<Value> {
    let place = place.clone().with("talk.script", script);
    let mut client = start(&place, arguments);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Go"}));
    let records = client.until_type("agent_settled");
    client.close_stdin();
    while client.record().is_some() {}
    let ends = records.into_iter().filter(|record| record["type"] == "tool_execution_end");
    ends.collect()
}

fn text(end: &Value) -> &str {
    end["result"]["content"][0]["text"].as_str().unwrap()
}

fn ask(client: &mut Client, command: &str) -> Value {
    client.say(&json!({"id": "q", "type": command}));
    client.until_type("response").pop().unwrap()["data"].clone()
}

const WORKSPACE: &[&str] = &["--sandbox", "workspace-write"];

#[test]
fn tools_change_files_in_the_workspace_and_nowhere_else() {
    if !is_there() {
        return;
    }
    let place = project();
    let script = "call write {\"path\":\"new/a.txt\",\"content\":\"a\"}\n\n\
        call edit {\"path\":\"inside.txt\",\"edits\":[{\"oldText\":\"inside\",\"newText\":\"changed\"}]}\n\n\
        call write {\"path\":\"../outside.txt\",\"content\":\"a\"}\n\n\
        call edit {\"path\":\"../outside.txt\",\"edits\":[{\"oldText\":\"outside\",\"newText\":\"x\"}]}\n\n\
        call read {\"path\":\"../.pi/agent/auth.json\"}\n\n\
        call bash {\"command\":\"echo x > ../outside.txt\"}\n\n\
        call bash {\"command\":\"echo x > $TMPDIR/a && cat $TMPDIR/a inside.txt\"}\n\n\
        call read {\"path\":\"../outside.txt\"}\n\nsay Done.";
    let ends = results(&place, script, WORKSPACE);
    let allowed = "(the sandbox is workspace-write: files can be changed in ";
    let errors: Vec<bool> = ends.iter().map(|end| end["isError"] == true).collect();
    assert_eq!(errors, [false, false, true, true, true, true, false, false], "{ends:?}");
    for denied in &ends[2..6] {
        assert!(text(denied).contains(allowed), "{denied}");
    }
    assert!(text(&ends[2]).starts_with("EACCES: permission denied, open '"), "{}", ends[2]);
    assert_eq!(ends[2]["result"]["details"]["sandbox"], "denied");
    assert_eq!(ends[5]["result"]["details"]["sandbox"], "suspected");
    assert_eq!(text(&ends[6]), "x\nchanged");
    assert_eq!(text(&ends[7]), "outside");
    assert_eq!(fs::read_to_string(place.path().join("outside.txt")).unwrap(), "outside");
    assert_eq!(fs::read_to_string(place.path().join("project/new/a.txt")).unwrap(), "a");
    // The folder for temporary files is gone.
    let left = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("tmp-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn file_tools_cannot_read_the_environment_of_tiller() {
    if !is_there() {
        return;
    }
    let paths = [
        "/proc/self/environ",
        "/proc/thread-self/environ",
        "/proc/self/task/../environ",
        "/proc/self/cwd/link",
        "/proc/self/mem",
        "/proc/kcore",
        "/dev/fd/0",
        "link",
    ];
    let calls = paths.map(|path| format!("call read {{\"path\":\"{path}\"}}\n\n")).concat();
    let search = "call grep {\"pattern\":\"sk-\",\"path\":\"/proc/self/environ\"}\n\n";
    let place = project().with("talk.script", &format!("{calls}{search}say Done."));
    std::os::unix::fs::symlink("/proc/self/environ", place.path().join("project/link")).unwrap();
    let mut command = command(&place, &[WORKSPACE, &["-t", "read,grep"]].concat());
    command.env("ANTHROPIC_API_KEY", "sk-secret");
    let mut client = Client::start(command, place.clone());
    client.say(&json!({"id": "1", "type": "prompt", "message": "Go"}));
    let records = client.until_type("agent_settled");
    let ends: Vec<&Value> =
        records.iter().filter(|record| record["type"] == "tool_execution_end").collect();
    assert_eq!(ends.len(), paths.len() + 1);
    for end in ends {
        assert!(!text(end).contains("sk-secret"), "{end}");
    }
}

#[test]
fn read_only_sandbox_lets_tools_change_nothing() {
    if !is_there() {
        return;
    }
    let script = "call write {\"path\":\"a.txt\",\"content\":\"a\"}\n\n\
        call bash {\"command\":\"cat inside.txt; rm inside.txt\"}\n\nsay Done.";
    let place = project();
    let ends = results(&place, script, &["--sandbox", "read-only"]);
    assert!(text(&ends[0]).starts_with("EACCES"), "{}", ends[0]);
    assert!(text(&ends[1]).starts_with("inside"), "{}", ends[1]);
    assert!(place.path().join("project/inside.txt").exists());
    assert!(!place.path().join("project/a.txt").exists());
}

#[test]
fn probe_says_what_is_enforced() {
    if !is_there() {
        return;
    }
    let place = project().with("talk.script", "say Hi.");
    let mut client = start(&place, WORKSPACE);
    let report = ask(&mut client, "get_sandbox");
    assert_eq!(report["mode"], "workspace-write");
    assert_eq!(report["enforced"], true, "{report}");
    for access in ["writes", "reads", "network", "signals"] {
        assert_eq!(report[access]["enforced"], true, "{access}: {report}");
    }
    assert!(report["notCovered"].as_array().unwrap().len() > 3);
    let attempts = report["canary"].as_array().unwrap();
    assert!(attempts.len() > 8 && attempts.iter().all(|attempt| attempt["blocked"] == true));
    let summary = json!({"mode": "workspace-write", "enforced": true});
    assert_eq!(ask(&mut client, "get_state")["sandbox"], summary);
    assert_eq!(ask(&mut client, "hello")["sandbox"], summary);
    // Without a sandbox there is a report, and nothing in the state.
    let mut client = start(&place, &[]);
    let report = ask(&mut client, "get_sandbox");
    assert_eq!((&report["mode"], &report["enforced"]), (&json!("off"), &json!(false)));
    assert_eq!(ask(&mut client, "get_state").get("sandbox"), None);
}

#[test]
fn commands_cannot_reach_tiller_or_their_guardian() {
    if !is_there() {
        return;
    }
    let place = project().with("talk.script", "say Hi.");
    let mut command = command(&place, WORKSPACE);
    command.env("ANTHROPIC_API_KEY", "sk-secret");
    let mut client = Client::start(command, place.clone());
    let tiller = client.id();
    for attempt in [
        "cat /proc/$PPID/environ".to_owned(),
        format!("cat /proc/{tiller}/environ"),
        "kill -9 $PPID".to_owned(),
        format!("kill -9 {tiller}"),
        format!("kill -STOP {tiller}"),
        "env".to_owned(),
        "cat /proc/self/environ".to_owned(),
    ] {
        let output = bash(&mut client, &format!("{{ {attempt}; }} 2>&1; echo over"));
        assert!(output.trim_end().ends_with("over"), "{attempt}: {output}");
        assert!(!output.contains("sk-secret"), "{attempt}: {output}");
    }
    // Only the standard streams are inherited; the fourth is the listing's own.
    let files = bash(&mut client, "ls /proc/self/fd | tr '\\n' ' '");
    assert_eq!(files.trim(), "0 1 2 3");
}

#[test]
fn working_directory_with_keys_in_it_refuses_tools() {
    if !is_there() {
        return;
    }
    let place = project();
    let output = place.output(&["sandbox", "check"], "");
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    let folder = place.path().canonicalize().unwrap();
    let problem = format!(
        "problem     {} contains {}, which must be hidden; choose another working directory",
        folder.display(),
        folder.join(".pi/agent/auth.json").display()
    );
    assert!(report.contains(&problem), "{report}");
}

#[test]
fn full_output_of_a_command_can_be_read() {
    if !is_there() {
        return;
    }
    let place = project().with("talk.script", "say Hi.");
    let mut command = command(&place, WORKSPACE);
    // Not /tmp, where the home folder of this test is: new files beside it cannot be read.
    command.env("TMPDIR", "/var/tmp");
    let mut client = Client::start(command, place.clone());
    client.say(&json!({"id": "b", "type": "bash", "command": "seq 1 100000"}));
    let answer = client.until_type("response").pop().unwrap();
    let path = answer["data"]["fullOutputPath"].as_str().unwrap();
    assert_eq!(bash(&mut client, &format!("tail -n 1 {path}")).trim(), "100000");
    fs::remove_file(path).unwrap();
}

#[test]
fn network_is_off_unless_it_is_allowed() {
    if !is_there() {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connect = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&1 && echo connected");
    let place = project().with("talk.script", "say Hi.");
    let output = bash(&mut start(&place, WORKSPACE), &connect);
    assert!(output.contains("not permitted"), "{output}");
    let arguments = [WORKSPACE, &["--sandbox-network", "on"]].concat();
    assert_eq!(bash(&mut start(&place, &arguments), &connect).trim(), "connected");
}

#[test]
fn link_that_changes_during_writes_leads_nowhere() {
    if !is_there() {
        return;
    }
    let calls = "call write {\"path\":\"target/outside.txt\",\"content\":\"x\"}\n\n".repeat(60);
    let place = project().with("talk.script", &format!("{calls}say Done."));
    let mut client = start(&place, WORKSPACE);
    // The name is that of a folder in the workspace and of one outside, by turns.
    let swap = "mkdir own; (while [ ! -e stop ]; do ln -sfn own target; ln -sfn .. target; done) \
        >/dev/null 2>&1 & echo swapping";
    assert_eq!(bash(&mut client, swap).trim(), "swapping");
    client.say(&json!({"id": "1", "type": "prompt", "message": "Go"}));
    let records = client.until_type("agent_settled");
    bash(&mut client, "touch stop");
    let ends = records.iter().filter(|record| record["type"] == "tool_execution_end");
    let (denied, done): (Vec<&Value>, Vec<&Value>) = ends.partition(|end| end["isError"] == true);
    assert_eq!(denied.len() + done.len(), 60);
    assert_eq!(fs::read_to_string(place.path().join("outside.txt")).unwrap(), "outside");
}

#[test]
fn daemon_in_the_sandbox_ends_with_tiller() {
    if !is_there() {
        return;
    }
    let place = project().with("talk.script", "say Hi.");
    let mut client = start(&place, WORKSPACE);
    let pid = bash(&mut client, "(setsid sh -c 'echo $$; exec sleep 1000' &)");
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists(), "{pid}");
    client.close_stdin();
    while client.record().is_some() {}
    assert!(!process.exists());
}

#[test]
fn extensions_are_refused_where_a_sandbox_is_on() {
    if !is_there() {
        return;
    }
    let place = project().with("talk.script", "say Hi.");
    let place = place.with(
        "ext.ts",
        "export default (pi) => pi.registerCommand('x', { handler: async () => {} });",
    );
    let mut client = start(&place, &[WORKSPACE, &["-e", "../ext.ts"]].concat());
    let problems = ask(&mut client, "get_diagnostics")["diagnostics"].to_string();
    assert!(problems.contains("extensions are not loaded where a sandbox is on"), "{problems}");
    assert_eq!(ask(&mut client, "get_commands")["commands"], json!([]));
}

#[test]
fn settings_of_a_project_only_restrict_the_sandbox() {
    if !is_there() {
        return;
    }
    let user = r#"{"sandbox":{"mode":"workspace-write","network":true}}"#;
    let strict = r#"{"sandbox":{"mode":"read-only","network":false,"writeRoots":["/"]}}"#;
    let loose = r#"{"sandbox":{"mode":"off","network":true,"bestEffort":true}}"#;
    let place = project().with("talk.script", "say Hi.").with(".pi/agent/settings.json", user);
    fs::create_dir_all(place.path().join("project/.pi")).unwrap();
    let state = |project: &str, arguments: &[&str]| {
        let place = place.clone().with("project/.pi/settings.json", project);
        let report = ask(&mut start(&place, arguments), "get_sandbox");
        (
            report["mode"].clone(),
            report["network"]["allowed"].clone(),
            report["writes"]["roots"].as_array().unwrap().len(),
        )
    };
    assert_eq!(state(strict, &["--approve"]), (json!("read-only"), json!(false), 0));
    assert_eq!(state(loose, &["--approve"]), (json!("workspace-write"), json!(true), 1));
    assert_eq!(
        state(strict, &["--approve", "--sandbox", "off"]),
        (json!("read-only"), json!(false), 0)
    );
    assert_eq!(
        state("{}", &["--sandbox-network", "off"]),
        (json!("workspace-write"), json!(false), 1)
    );
    let wrong = r#"{"sandbox":{"mode":"workspace"}}"#;
    let place = place.clone().with(".pi/agent/settings.json", wrong);
    let report = ask(&mut start(&place, &[]), "get_sandbox");
    assert_eq!(report["mode"], "read-only");
}

/// A kernel without Landlock, for a program and all that it starts.
#[cfg(target_os = "linux")]
fn without_landlock(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    const CREATE_RULESET: i64 = 444;
    let rules = (CREATE_RULESET..=CREATE_RULESET + 2).map(|call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(nix::errno::Errno::ENOSYS as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    // SAFETY: makes two system calls.
    #[allow(unsafe_code)]
    unsafe {
        command
            .pre_exec(move || seccompiler::apply_filter(&program).map_err(std::io::Error::other));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn kernel_without_landlock_refuses_tools_and_says_so() {
    let script = "call write {\"path\":\"a.txt\",\"content\":\"a\"}\n\n\
        call bash {\"command\":\"echo hi\"}\n\ncall read {\"path\":\"inside.txt\"}\n\nsay Done.";
    let place = project().with("talk.script", script);
    let run = |arguments: &[&str]| {
        let mut command = command(&place, arguments);
        without_landlock(&mut command);
        let mut client = Client::start(command, place.clone());
        let report = ask(&mut client, "get_sandbox");
        client.say(&json!({"id": "1", "type": "prompt", "message": "Go"}));
        let records = client.until_type("agent_settled");
        let ends = records.into_iter().filter(|record| record["type"] == "tool_execution_end");
        let ends: Vec<String> = ends.map(|end| text(&end).to_owned()).collect();
        (report, ends)
    };
    let (report, ends) = run(WORKSPACE);
    assert_eq!(report["enforced"], false);
    assert_eq!(report["mechanisms"]["landlock"], 0);
    for access in ["writes", "reads", "network", "signals"] {
        assert_eq!(report[access]["enforced"], false, "{access}: {report}");
    }
    let why = "the kernel has no Landlock, so it cannot restrict access to files";
    assert_eq!(report["problem"], why);
    let refusal = format!("Tools do not run because the sandbox is not enforced: {why}.");
    assert_eq!(ends, vec![refusal; 3]);
    assert!(!place.path().join("project/a.txt").exists());
    // With less than was asked for, tools run, and the report does not claim more.
    let (report, ends) = run(&[WORKSPACE, &["--sandbox-best-effort"]].concat());
    assert_eq!(report["enforced"], false);
    assert_eq!(report["writes"]["enforced"], false);
    assert_eq!(report["network"]["enforced"], true, "{report}");
    assert_eq!(ends, ["Successfully wrote 1 bytes to a.txt", "hi\n", "inside"]);
}

#[test]
fn mcp_servers_are_not_started_where_a_sandbox_is_on() {
    if !is_there() {
        return;
    }
    let entry = json!({"command": "sh", "args": ["-c", "touch started; cat"]});
    let file = json!({"mcpServers": {"files": entry}}).to_string();
    let place = project().with(".pi/agent/mcp.json", &file).with("talk.script", "say Done.");
    let mut client = start(&place, WORKSPACE);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Go"}));
    client.until_type("agent_settled");
    let servers = ask(&mut client, "get_mcp_servers");
    let server = &servers["servers"][0];
    assert_eq!((&server["name"], &server["state"]), (&json!("files"), &json!("disabled")));
    let why = server["error"].as_str().unwrap();
    assert!(why.contains("while tools run in a sandbox"), "{why}");
    client.say(&json!({"id": "2", "type": "set_mcp_servers", "mcpServers": {"more": entry}}));
    let refused = client.until_type("response").pop().unwrap();
    assert_eq!((&refused["success"], &refused["error"]), (&json!(false), &json!(why)));
    assert!(!place.path().join("project/started").exists());
}
