//! Tools of extensions: flags of the command line, and tools that run a process.

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::extensions::of_type;

fn run(client: &mut Client, text: &str) -> Vec<Value> {
    client.say(&json!({"type": "prompt", "message": text}));
    client.until_type("agent_settled")
}

/// The texts of all answers; an unmet expectation of the script shows here.
fn answers(records: &[Value]) -> Vec<&str> {
    let messages = of_type(records, "message_end").into_iter().map(|record| &record["message"]);
    let answers = messages.filter(|message| message["role"] == "assistant");
    answers
        .map(|one| one["errorMessage"].as_str().or(one["content"][0]["text"].as_str()))
        .map(Option::unwrap_or_default)
        .collect()
}

fn tool(name: &str) -> String {
    format!(
        "{{ name: \"{name}\", label: \"{name}\", description: \"A tool\", \
         promptSnippet: \"Does  {name}\\n things\", promptGuidelines: [\"Call {name} with care\"], \
         parameters: {{ type: \"object\", properties: {{}} }}, \
         async execute() {{ return {{ content: [] }}; }} }}"
    )
}

#[test]
fn tool_flags_apply_to_extension_tools() {
    let extension = format!(
        "export default (pi) => {{ pi.registerTool({}); pi.registerTool({}); }};",
        tool("one"),
        tool("two")
    );
    let check = |arguments: &[&str], expected: &str| {
        let place = Place::new().with("ext.ts", &extension);
        let arguments: Vec<&str> = ["-e", "ext.ts"].iter().chain(arguments).copied().collect();
        let mut client = place.rpc(&format!("expect tools {expected}\nsay Yes.\n"), &arguments);
        assert_eq!(answers(&run(&mut client, "Go")), ["Yes."], "{arguments:?}");
    };
    check(&["--tools", "read,two"], "read two");
    check(&["--exclude-tools", "bash,one"], "read edit write two");
    check(&["--no-builtin-tools"], "one two");
    check(&["--no-tools", "--tools", "two,ls,read"], "two ls read");
    check(&["--tools", "two,read", "--no-builtin-tools"], "two read");
}

/// A built-in tool run by an extension ends when its caller is gone: the run is aborted, or the
/// extension is reloaded.
#[test]
fn built_in_tool_ends_with_its_caller() {
    let extension = r#"
        import { createBashTool } from "@mariozechner/pi-coding-agent";
        export default (pi) => {
            const bash = createBashTool(process.cwd());
            pi.registerTool({ ...bash, execute: (...all) => bash.execute(...all) });
            const command = "echo $$ > started; mv started pid; exec sleep 1000";
            pi.registerCommand("sleep", { handler: () => bash.execute("1", { command }) });
        };
    "#;
    let call = r#"call bash {"command": "echo $$ > started; mv started pid; exec sleep 1000"}"#;
    for (says, ends) in [("Sleep", "abort"), ("/sleep", "reload")] {
        let place = Place::new().with("ext.ts", extension);
        let file = place.path().join("pid");
        let mut client = place.rpc(&format!("{call}\n\nsay Done.\n"), &["-e", "ext.ts"]);
        client.say(&json!({"type": "prompt", "message": says}));
        wait_until(|| file.exists());
        let pid = std::fs::read_to_string(&file).unwrap();
        let process = std::path::PathBuf::from(format!("/proc/{}", pid.trim()));
        assert!(process.exists());
        client.say(&json!({"id": "end", "type": ends}));
        assert_eq!(client.response("end")["success"], true);
        wait_until(|| !process.exists());
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 30, "it does not come to that");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
