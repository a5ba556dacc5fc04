use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::*;
use crate::project::{Dirs, ResourceFlags};

/// Files of a scratch folder, which is the user's home; `project` is the project.
struct Scratch(TempDir);

impl Scratch {
    fn new(files: &[(&str, &str)]) -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Scratch(folder)
    }

    fn check(&self, flags: ResourceFlags, expected: Expect) {
        let home = self.0.path();
        let dirs = Dirs {
            cwd: home.join("project"),
            agent_dir: home.join(".pi/agent"),
            home: Some(home.to_owned()),
        };
        let resources = Project::find(dirs, flags).resources();
        let mut printed = String::new();
        for ConfiguredServer { server, source } in &resources.mcp {
            let McpServer { name, transport, is_enabled, exposure, .. } = server;
            let reached = match transport {
                McpTransport::Stdio { command, .. } => command,
                McpTransport::Http { url, .. } => url,
            };
            let exposure = exposure.map(|exposure| format!(" {exposure:?}")).unwrap_or_default();
            let off = if *is_enabled { "" } else { " off" };
            printed += &format!("{name} {source:?} {reached}{exposure}{off}\n");
        }
        for problem in &resources.problems {
            printed += &format!("! {}\n", problem.replace(&*home.to_string_lossy(), "~"));
        }
        expected.assert_eq(&printed);
    }
}

fn trusted() -> ResourceFlags {
    ResourceFlags { approve: Some(true), ..ResourceFlags::default() }
}

const USER: &str = r#"{
    // As Claude and Cursor write it.
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files"]},
        "docs": {"url": "https://example.com/mcp"},
        "mail": {"command": "mail-mcp"},
    },
}"#;

const PROJECT: &str = r#"{"mcpServers": {
    "files": {"command": "own-files"},
    "docs": {"enabled": false, "exposure": "deferred"},
    "tests": {"command": "tests"},
    "unknown": {"enabled": false}
}}"#;

#[test]
fn project_replaces_and_changes_the_users_servers() {
    let scratch = Scratch::new(&[(".pi/agent/mcp.json", USER), ("project/.pi/mcp.json", PROJECT)]);
    scratch.check(
        trusted(),
        expect![[r#"
            files Project own-files
            docs User https://example.com/mcp Deferred off
            mail User mail-mcp
            tests Project tests
            ! MCP server "unknown" in ~/project/.pi/mcp.json is skipped: `command` or `url` is missing
        "#]],
    );
}

#[test]
fn project_without_trust_adds_no_server() {
    let scratch = Scratch::new(&[(".pi/agent/mcp.json", USER), ("project/.pi/mcp.json", PROJECT)]);
    let flags = ResourceFlags { approve: Some(false), ..ResourceFlags::default() };
    scratch.check(
        flags,
        expect![[r#"
            files User npx
            docs User https://example.com/mcp
            mail User mail-mcp
        "#]],
    );
}

#[test]
fn flags_add_a_file_or_leave_all_out() {
    let file = r#"{"mcpServers": {"mail": {"command": "other-mail"}}}"#;
    let scratch = Scratch::new(&[(".pi/agent/mcp.json", USER), ("project/more.json", file)]);
    let mcp_config = Some(PathBuf::from("more.json"));
    scratch.check(
        ResourceFlags { mcp_config, ..trusted() },
        expect![[r#"
            files User npx
            docs User https://example.com/mcp
            mail File other-mail
        "#]],
    );
    scratch.check(ResourceFlags { no_mcp: true, ..trusted() }, expect![""]);
    let missing = ResourceFlags { mcp_config: Some(PathBuf::from("none.json")), ..trusted() };
    scratch.check(
        missing,
        expect![[r#"
            files User npx
            docs User https://example.com/mcp
            mail User mail-mcp
            ! --mcp-config: ~/project/none.json does not exist
        "#]],
    );
}

#[test]
fn file_that_cannot_be_used_is_reported() {
    let cases = [
        "{",
        "[]",
        r#"{"mcpServers": []}"#,
        r#"{"autoEnableCodemode": false}"#,
        r#"{"mcpServers": {"a-b": {"command": "x"}, "a_b": {"command": "y"}, "c": 1,
            "d": {"type": "sse", "url": "http://h/sse"}, "e f": {"command": "x"}}}"#,
    ];
    let mut printed = Vec::new();
    for text in cases {
        let scratch = Scratch::new(&[(".pi/agent/mcp.json", text), ("project/x", "")]);
        let home = scratch.0.path();
        let dirs = Dirs {
            cwd: home.join("project"),
            agent_dir: home.join(".pi/agent"),
            home: Some(home.to_owned()),
        };
        let resources = Project::find(dirs, trusted()).resources();
        let names: Vec<&str> = resources.mcp.iter().map(|one| one.server.name.as_str()).collect();
        printed.push(format!("{names:?}"));
        let problems = resources.problems.iter();
        printed.extend(problems.map(|text| text.replace(&*home.to_string_lossy(), "~")));
    }
    expect![[r#"
        []
        ~/.pi/agent/mcp.json is ignored: EOF while parsing an object at line 1 column 1
        []
        ~/.pi/agent/mcp.json is ignored: expected an object with `mcpServers`
        []
        ~/.pi/agent/mcp.json is ignored: `mcpServers` must be an object
        []
        ["a-b"]
        MCP server "a_b" in ~/.pi/agent/mcp.json is skipped: its tools would have the names of those of "a-b"
        MCP server "c" in ~/.pi/agent/mcp.json is skipped: invalid type: integer `1`, expected an object with `command` or `url`
        MCP server "d" in ~/.pi/agent/mcp.json is skipped: the transport `sse` is not supported: use the server's streamable HTTP address, often /mcp in place of /sse, with `type` "http"
        MCP server "e f" in ~/.pi/agent/mcp.json is skipped: a server's name may contain only letters, digits, `_` and `-`"#]].assert_eq(&printed.join("\n"));
}

async fn resolved(entry: Value) -> String {
    let variables = [("HOME", "/home/me"), ("TOKEN", "secret"), ("EMPTY", "")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let entry: McpServerEntry = serde_json::from_value(entry).unwrap();
    match resolve(entry.check("s").unwrap(), &variables).await {
        Ok(server) => format!("{:?}\n", server.transport),
        Err(why) => format!("! {why}\n"),
    }
}

#[tokio::test]
async fn values_name_variables_and_commands() {
    let mut printed = String::new();
    for entry in [
        serde_json::json!({"command": "~/bin/x", "args": ["~/data", "a~/b", "${TOKEN}"],
            "cwd": "~/work", "env": {"A": "x ${TOKEN} $TOKEN $", "B": "!echo out"}}),
        serde_json::json!({"url": "http://h", "headers": {"Authorization": "Bearer ${TOKEN}"}}),
        serde_json::json!({"url": "http://h", "headers": {"Authorization": "Bearer ${NONE}"}}),
        serde_json::json!({"url": "http://h", "headers": {"A": "${EMPTY}"}}),
        serde_json::json!({"url": "http://h", "headers": {"A": "${sk-1"}}),
        serde_json::json!({"command": "x", "env": {"A": "!exit 3"}}),
    ] {
        printed += &resolved(entry).await;
    }
    expect![[r#"
        Stdio { command: "/home/me/bin/x", args: ["/home/me/data", "a~/b", "${TOKEN}"], env: [("A", "x secret $TOKEN $"), ("B", "out")], cwd: Some("/home/me/work") }
        Http { url: "http://h", headers: [("Authorization", "Bearer secret")] }
        ! the header Authorization: the variable NONE is not set
        ! the header A: the variable EMPTY is not set
        ! the header A: `${` without `}`
        ! the variable A: the command `exit …` failed with exit code 3
    "#]].assert_eq(&printed);
}
