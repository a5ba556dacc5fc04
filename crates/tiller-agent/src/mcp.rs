//! An MCP server as a user configures it: an entry of `mcpServers`, and what it means once it is
//! checked. The crates that read entries, that receive them from clients and that run the servers
//! share these types.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How long a request to a server may take, unless its entry says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// A longer limit is a mistake: the overall maximum of a call is shorter.
const TIMEOUT_MAX_SECONDS: f64 = 24.0 * 60.0 * 60.0;
/// Longer names leave too little of a tool's name, which has 64 characters.
const NAME_MAX_CHARS: usize = 40;

/// An entry of `mcpServers`, as Claude, Cursor and pi write it. With `command` it is a program, with
/// `url` an HTTP server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object with `command` or `url`")]
pub struct McpServerEntry {
    /// `stdio`, `http` or `streamable-http`. By default as `command` or `url` says.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The program: a path, or a name to search in `PATH`. Not a shell command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Added to the environment of the program. A value may be `${NAME}` or `!command`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The folder of the program. By default that of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address of a streamable HTTP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Sent with each request. A value may be `Bearer ${NAME}` or `!command`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How many seconds a request may take. Progress of a call starts the time again. By default 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// `false`: the server is listed, and not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How the model reaches the tools. By default `direct`, and `deferred` from 40 tools on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Exposure>,
    /// The same for single tools: names, or patterns with `*`.
    #[serde(default, skip_serializing_if = "ToolExposures::is_empty")]
    pub tool_exposure: ToolExposures,
    /// What the server offers, in a sentence. For the search in deferred tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// OAuth is not supported; the entry is accepted, so that a file can be shared with pi.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub oauth: Option<serde_json::Value>,
}

/// How the model reaches a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// The model is offered the tool.
    Direct,
    /// The model finds the tool with a search, and is offered it from then on.
    Deferred,
    /// The model cannot reach the tool.
    Hidden,
    /// Callable from scripts, in pi. Here like no exposure at all.
    #[serde(alias = "codemode-deferred")]
    Codemode,
}

impl Exposure {
    /// The exposure that counts here: `codemode` leaves it to tiller.
    pub fn known(self) -> Option<Exposure> {
        (self != Exposure::Codemode).then_some(self)
    }
}

/// Exposures of single tools, in the order of the file: the first pattern that matches counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolExposures(pub Vec<(String, Exposure)>);

impl ToolExposures {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for ToolExposures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (pattern, exposure) in &self.0 {
            map.serialize_entry(pattern, exposure)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolExposures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ToolExposures, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = ToolExposures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with an exposure for each name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolExposures, A::Error> {
                let mut exposures = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    exposures.push(entry);
                }
                Ok(ToolExposures(exposures))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl JsonSchema for ToolExposures {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolExposures".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, Exposure>::json_schema(generator)
    }
}

/// A server whose entry was checked. Its values may still name variables and commands.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    pub name: String,
    pub transport: McpTransport,
    pub timeout: Duration,
    pub is_enabled: bool,
    pub exposure: Option<Exposure>,
    pub tool_exposure: ToolExposures,
    pub description: Option<String>,
}

/// Where a server's entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpSource {
    /// `mcp.json` in the user's agent folder.
    User,
    /// `.pi/mcp.json` in the project.
    Project,
    /// The file of `--mcp-config`.
    File,
    /// The client has sent it with `set_mcp_servers`.
    Client,
}

/// What a server of a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpServerState {
    /// Its entry says `"enabled": false`, or all of its tools are hidden.
    Disabled,
    /// It was not needed so far.
    Idle,
    Starting,
    Ready,
    /// It has failed, and is started again after a pause.
    Restarting,
    /// It has failed. A call to one of its tools starts it again.
    Failed,
}

/// A server in the event that reports a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerSummary {
    pub name: String,
    pub state: McpServerState,
    /// How many tools it has, hidden ones included.
    pub tool_count: usize,
    /// Why it does not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum McpTransport {
    /// A program with JSON lines on its stdin and stdout.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    /// Streamable HTTP.
    Http { url: String, headers: Vec<(String, String)> },
}

impl McpServerEntry {
    /// Whether the entry only changes a server that another file defines.
    pub fn is_override(&self) -> bool {
        self.command.is_none() && self.url.is_none() && self.kind.is_none()
    }

    /// The same server as this override changes it.
    pub fn overridden_by(mut self, change: McpServerEntry) -> McpServerEntry {
        self.enabled = change.enabled.or(self.enabled);
        self.exposure = change.exposure.or(self.exposure);
        if !change.tool_exposure.is_empty() {
            self.tool_exposure = change.tool_exposure;
        }
        self
    }

    /// Checks the entry. The error says what is wrong and what to do.
    pub fn check(self, name: &str) -> Result<McpServer, String> {
        check_name(name)?;
        let timeout = match self.timeout {
            None => TIMEOUT,
            Some(seconds) if seconds > 0.0 && seconds <= TIMEOUT_MAX_SECONDS => {
                Duration::from_secs_f64(seconds)
            }
            Some(_) => return Err("`timeout` must be a number of seconds from 0 to 86400".into()),
        };
        let is_http = match (self.kind.as_deref(), &self.command, &self.url) {
            (Some("sse"), _, _) => {
                return Err("the transport `sse` is not supported: use the server's streamable \
                            HTTP address, often /mcp in place of /sse, with `type` \"http\""
                    .into());
            }
            (Some("stdio"), Some(_), _) | (None, Some(_), None) => false,
            (Some("http" | "streamable-http"), _, Some(_)) | (None, None, Some(_)) => true,
            (Some("stdio"), None, _) => return Err("`type` \"stdio\" needs `command`".into()),
            (Some("http" | "streamable-http"), _, None) => {
                return Err("`type` \"http\" needs `url`".into());
            }
            (Some(other), _, _) => {
                return Err(format!("`type` must be \"stdio\" or \"http\", not {other:?}"));
            }
            (None, Some(_), Some(_)) => {
                return Err("`command` and `url` exclude each other: keep one of them".into());
            }
            (None, None, None) => return Err("`command` or `url` is missing".into()),
        };
        let transport = if is_http {
            let url = self.url.unwrap_or_default();
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err("`url` must begin with http:// or https://".into());
            }
            McpTransport::Http { url, headers: self.headers.into_iter().collect() }
        } else {
            let command = self.command.unwrap_or_default();
            if command.trim().is_empty() {
                return Err("`command` is empty".into());
            }
            let cwd = self.cwd.map(PathBuf::from);
            let env: Vec<(String, String)> = self.env.into_iter().collect();
            if env.iter().any(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
                return Err("`env` has a name that no variable can have".into());
            }
            McpTransport::Stdio { command, args: self.args, env, cwd }
        };
        Ok(McpServer {
            name: name.to_owned(),
            transport,
            timeout,
            is_enabled: self.enabled.unwrap_or(true),
            exposure: self.exposure.and_then(Exposure::known),
            tool_exposure: self.tool_exposure,
            description: self.description.filter(|text| !text.trim().is_empty()),
        })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err("a server's name may contain only letters, digits, `_` and `-`".into());
    }
    if name.len() > NAME_MAX_CHARS {
        return Err(format!("a server's name may have at most {NAME_MAX_CHARS} characters"));
    }
    Ok(())
}

/// Server names that differ only in `-` and `_` are the same server, because their tools would have
/// the same names.
pub fn same_name(one: &str, other: &str) -> bool {
    let plain = |c: char| if c == '-' { '_' } else { c };
    one.chars().map(plain).eq(other.chars().map(plain))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, from_value, json};

    use super::*;

    fn check(entries: &[(&str, Value)], expected: Expect) {
        let print = |(name, entry): &(&str, Value)| {
            let entry: Result<McpServerEntry, String> =
                from_value(entry.clone()).map_err(|err| err.to_string());
            match entry.and_then(|entry| entry.check(name)) {
                Ok(server) => format!("{name}: {:?}\n", server.transport),
                Err(why) => format!("{name}! {why}\n"),
            }
        };
        expected.assert_eq(&entries.iter().map(print).collect::<String>());
    }

    #[test]
    fn entry_is_a_program_or_an_address() {
        check(
            &[
                ("a", json!({"command": "npx", "args": ["-y", "x"], "env": {"K": "${V}"}})),
                ("b", json!({"url": "https://example.com/mcp", "headers": {"A": "b"}})),
                ("c", json!({"type": "streamable-http", "url": "http://localhost:1/mcp"})),
                ("d", json!({"type": "stdio", "command": "x", "cwd": "sub", "oauth": {}})),
                ("e", json!({"type": "http", "command": "ignored", "url": "http://h"})),
            ],
            expect![[r#"
                a: Stdio { command: "npx", args: ["-y", "x"], env: [("K", "${V}")], cwd: None }
                b: Http { url: "https://example.com/mcp", headers: [("A", "b")] }
                c: Http { url: "http://localhost:1/mcp", headers: [] }
                d: Stdio { command: "x", args: [], env: [], cwd: Some("sub") }
                e: Http { url: "http://h", headers: [] }
            "#]],
        );
    }

    #[test]
    fn entry_that_cannot_be_used_says_what_to_do() {
        check(
            &[
                ("a", json!({})),
                ("a", json!({"command": "x", "url": "http://h"})),
                ("a", json!({"type": "sse", "url": "http://h/sse"})),
                ("a", json!({"type": "websocket", "url": "ws://h"})),
                ("a", json!({"type": "stdio"})),
                ("a", json!({"type": "http"})),
                ("a", json!({"url": "localhost:3000"})),
                ("a", json!({"command": " "})),
                ("a", json!({"command": "x", "timeout": 0})),
                ("a", json!({"command": "x", "timeout": 1e300})),
                ("a", json!({"command": "x", "args": "-y"})),
                ("a", json!({"command": "x", "env": {"A=B": "c"}})),
                ("a", json!({"command": "x", "exposure": "shy"})),
                ("a b", json!({"command": "x"})),
                ("", json!({"command": "x"})),
                (&"a".repeat(41), json!({"command": "x"})),
            ],
            expect![[r#"
                a! `command` or `url` is missing
                a! `command` and `url` exclude each other: keep one of them
                a! the transport `sse` is not supported: use the server's streamable HTTP address, often /mcp in place of /sse, with `type` "http"
                a! `type` must be "stdio" or "http", not "websocket"
                a! `type` "stdio" needs `command`
                a! `type` "http" needs `url`
                a! `url` must begin with http:// or https://
                a! `command` is empty
                a! `timeout` must be a number of seconds from 0 to 86400
                a! `timeout` must be a number of seconds from 0 to 86400
                a! invalid type: string "-y", expected a sequence
                a! `env` has a name that no variable can have
                a! unknown variant `shy`, expected one of `direct`, `deferred`, `hidden`, `codemode`, `codemode-deferred`
                a b! a server's name may contain only letters, digits, `_` and `-`
                ! a server's name may contain only letters, digits, `_` and `-`
                aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! a server's name may have at most 40 characters
            "#]],
        );
    }

    #[test]
    fn override_changes_only_exposure_and_whether_it_is_enabled() {
        let entry = |value| from_value::<McpServerEntry>(value).unwrap();
        let user = entry(json!({
            "command": "x", "env": {"A": "b"}, "exposure": "direct", "toolExposure": {"b*": "hidden", "a": "direct"},
        }));
        let change = entry(json!({"enabled": false, "exposure": "deferred"}));
        assert!(change.is_override() && !user.is_override());
        let both = serde_json::to_string(&user.overridden_by(change)).unwrap();
        expect![[r#"{"command":"x","env":{"A":"b"},"enabled":false,"exposure":"deferred","toolExposure":{"b*":"hidden","a":"direct"}}"#]]
            .assert_eq(&both);
    }

    #[test]
    fn names_that_differ_in_dashes_are_the_same() {
        assert!(same_name("my-server", "my_server"));
        assert!(!same_name("my-server", "my-servers"));
    }
}
