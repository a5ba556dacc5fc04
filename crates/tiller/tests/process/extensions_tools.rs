//! The model's tools and prompt, as changed by extensions.

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::extensions::{of_type, with};

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
fn tools_are_named_in_the_prompt() {
    let script = "expect system has - one: Does one things\nexpect system has - Call one with care\nsay Yes.\n";
    let extension = format!("export default (pi) => pi.registerTool({});", tool("one"));
    let mut client = with(script, &extension);
    assert_eq!(answers(&run(&mut client, "Go")), ["Yes."]);
}

#[test]
fn tools_can_be_selected_and_added_during_a_run() {
    let script = "expect tools read bash edit write choose\ncall choose {}\n\n\
                  expect tools grep choose\nexpect system lacks - bash:\ncall choose {}\n\n\
                  expect tools grep choose late\nsay Done.\n\nexpect tools grep choose late\nsay Still.\n";
    let extension = format!(
        r#"export default function (pi) {{
            let calls = 0;
            pi.registerTool({{ ...{}, async execute() {{
                if (calls++ === 0) pi.setActiveTools(["grep", "choose", "nobody"]);
                else pi.registerTool({});
                pi.appendEntry("note", {{ active: pi.getActiveTools(), all: pi.getAllTools().map(({{ name }}) => name) }});
                return {{ content: [] }};
            }} }});
        }}"#,
        tool("choose"),
        tool("late")
    );
    let mut client = with(script, &extension);
    let records = run(&mut client, "Go");
    assert_eq!(answers(&records)[2], "Done.", "{:?}", answers(&records));
    let noted = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    assert_eq!(noted["active"], json!(["grep", "choose"]));
    let all = json!(["read", "bash", "edit", "write", "grep", "find", "ls", "choose"]);
    assert_eq!(noted["all"], all);
    assert_eq!(answers(&run(&mut client, "And now")), ["Still."]);
}

#[test]
fn replaced_builtin_tool_keeps_its_place() {
    let script = "expect tools read bash edit write one\ncall bash {}\n\nsay Done.\n";
    let extension = format!(
        r#"export default function (pi) {{
            pi.registerTool({});
            pi.registerTool({{ ...{}, async execute() {{
                pi.appendEntry("note", pi.getAllTools().map(({{ name, description }}) => `${{name}} ${{description}}`));
                return {{ content: [] }};
            }} }});
        }}"#,
        tool("one"),
        tool("bash")
    );
    let mut client = with(script, &extension);
    let records = run(&mut client, "Go");
    assert_eq!(answers(&records)[1], "Done.", "{:?}", answers(&records));
    let noted = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    assert_eq!((&noted[1], &noted[7]), (&json!("bash A tool"), &json!("one A tool")));
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

#[test]
fn duplicate_tool_is_reported_and_the_first_wins() {
    let place = Place::new()
        .with("a.ts", &format!("export default (pi) => pi.registerTool({});", tool("same")))
        .with("b.ts", &format!("export default (pi) => pi.registerTool({});", tool("same")));
    let mut client = place.rpc("say Yes.\n", &["-e", "a.ts", "-e", "b.ts"]);
    client.say(&json!({"id": "1", "type": "get_commands"}));
    let records = client.until(|record| record["id"] == "1");
    let errors = of_type(&records, "extension_error");
    assert_eq!(errors.len(), 1, "{records:?}");
    let error = errors[0]["error"].as_str().unwrap();
    assert!(
        error.starts_with("Tool \"same\" conflicts with ") && error.ends_with("a.ts"),
        "{error}"
    );
}

#[test]
fn commands_of_the_same_name_are_numbered() {
    let command = |word: &str| {
        format!(
            "export default (pi) => pi.registerCommand(\"hi\", {{ handler: async (_, ctx) => ctx.ui.notify(\"{word}\") }});"
        )
    };
    let place = Place::new().with("a.ts", &command("first")).with("b.ts", &command("second"));
    let mut client = place.rpc("say No command.\n", &["-e", "a.ts", "-e", "b.ts"]);
    for (name, word) in [("/hi:1", "first"), ("/hi:2", "second")] {
        client.say(&json!({"id": name, "type": "prompt", "message": name}));
        let records = client.until(|record| record["id"] == name);
        assert_eq!(of_type(&records, "extension_ui_request")[0]["message"], word);
    }
    // The plain name no longer exists.
    assert_eq!(answers(&run(&mut client, "/hi")), ["No command."]);
}

#[test]
fn prompt_parts_can_be_changed_for_a_run() {
    let script = "expect system has - Mind the gap\nexpect system has <mood>\nexpect system lacks - bash:\n\
                  expect tools read edit write\nsay Yes.\n\nexpect system lacks Mind the gap\nsay Yes.\n";
    let mut client = with(
        script,
        r#"
        export default function (pi) {
            let runs = 0;
            pi.on("before_agent_start", ({ systemPromptOptions: options }) => {
                if (runs++ > 0) return;
                options.promptGuidelines.push("Mind the gap");
                options.sections.mood = "cheerful";
                options.selectedTools = options.selectedTools.filter((name) => name !== "bash");
            });
            pi.on("before_agent_start", (event, ctx) => {
                if (runs > 1) return;
                const seen = event.systemPrompt.includes("<mood>\ncheerful\n</mood>");
                return { message: { customType: "seen", content: `${seen} ${ctx.getSystemPrompt() === event.systemPrompt}`, display: true } };
            });
        }"#,
    );
    let records = run(&mut client, "Go");
    assert_eq!(answers(&records), ["Yes."]);
    let said = of_type(&records, "message_end");
    assert_eq!(said[1]["message"]["content"], "true true");
    assert_eq!(answers(&run(&mut client, "Again")), ["Yes."]);
}

#[test]
fn message_update_events_carry_the_growing_message() {
    let script = "think Hm.\nsay One\ndelta \" two\"\ncall ls {\"path\": \".\"}\n\nsay Done.\n";
    let mut client = with(
        script,
        r#"
        export default function (pi) {
            const seen = [];
            pi.on("message_update", ({ message, assistantMessageEvent: { type, partial, delta } }) => {
                seen.push([type, delta, partial === message, JSON.stringify(message.content.at(-1))]);
            });
            pi.on("turn_end", () => { pi.appendEntry("note", seen.splice(0)); });
        }"#,
    );
    let records = run(&mut client, "Go");
    let seen = of_type(&records, "entry_appended")[0]["entry"]["data"].clone();
    let seen: Vec<_> =
        seen.as_array().unwrap().iter().map(|one| (one[0].as_str().unwrap(), &one[3])).collect();
    let types: Vec<&str> = seen.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        types,
        [
            "thinking_start",
            "thinking_delta",
            "thinking_end",
            "text_start",
            "text_delta",
            "text_delta",
            "text_end",
            "toolcall_start",
            "toolcall_delta",
            "toolcall_end"
        ]
    );
    // One object grows, so it may be ahead of its event, but never behind.
    assert!(seen[6].1.as_str().unwrap().contains("One two"), "{seen:?}");
    assert!(seen[9].1.as_str().unwrap().contains("\"path\":\".\""), "{seen:?}");
}

#[test]
fn extension_message_runs_commands_only_on_request() {
    let place = Place::new().with(
        "ext.ts",
        r#"
        export default function (pi) {
            pi.registerCommand("hi", { handler: async (args, ctx) => ctx.ui.notify(`hi ${args}`) });
            pi.registerCommand("say", { handler: async (how) => pi.sendUserMessage("/hi there", { expandPromptTemplates: how === "expanded" }) });
        }"#,
    );
    let mut client = place.rpc("expect user /hi there\nsay As it is.\n", &["-e", "ext.ts"]);
    client.say(&json!({"type": "prompt", "message": "/say literal"}));
    assert_eq!(answers(&client.until_type("agent_settled")), ["As it is."]);
    client.say(&json!({"type": "prompt", "message": "/say expanded"}));
    let shown = client.until_type("extension_ui_request").pop().unwrap();
    assert_eq!(shown["message"], "hi there");
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
