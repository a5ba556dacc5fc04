//! How the model reaches a tool: as its server's entry says, and otherwise by how many tools there
//! are in all.

use tiller_agent::mcp::{Exposure, McpServer};

/// With more tools than this in all, those without a configured exposure are deferred: their
/// descriptions would fill the context, and models choose badly among so many.
pub const DIRECT_MAX: usize = 40;

/// The exposure that the entry configures for a tool. An exact name counts before any pattern, and
/// the first pattern that matches before later ones.
pub(crate) fn configured(server: &McpServer, tool: &str) -> Option<Exposure> {
    let entries = &server.tool_exposure.0;
    let exact = entries.iter().find(|(name, _)| name == tool);
    let entry = exact.or_else(|| entries.iter().find(|(pattern, _)| matches(pattern, tool)));
    match entry {
        Some((_, exposure)) => exposure.known(),
        None => server.exposure,
    }
}

/// The exposure in force. `total` counts all tools that would be offered at once.
pub(crate) fn effective(configured: Option<Exposure>, total: usize) -> Exposure {
    match configured {
        Some(exposure) => exposure,
        None if total > DIRECT_MAX => Exposure::Deferred,
        None => Exposure::Direct,
    }
}

/// Whether a server can have a tool that the model reaches. Without one it is not started.
pub(crate) fn is_reachable(server: &McpServer) -> bool {
    let hidden = Some(Exposure::Hidden);
    server.exposure != hidden
        || server.tool_exposure.0.iter().any(|(_, exposure)| Some(*exposure) != hidden)
}

/// Whether a server can have a tool that is offered without a search, so that the first request
/// waits for it.
pub(crate) fn may_be_direct(server: &McpServer) -> bool {
    let is_direct = |exposure: Option<Exposure>| matches!(exposure, None | Some(Exposure::Direct));
    is_direct(server.exposure)
        || server.tool_exposure.0.iter().any(|(_, exposure)| is_direct(exposure.known()))
}

/// Whether a pattern, in which `*` stands for any characters, matches the whole text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, from_value, json};
    use tiller_agent::mcp::McpServerEntry;

    use super::*;

    fn server(mut entry: Value) -> McpServer {
        entry["command"] = json!("x");
        from_value::<McpServerEntry>(entry).unwrap().check("s").unwrap()
    }

    #[test]
    fn exact_name_counts_before_patterns_and_the_first_pattern_before_others() {
        let server = server(json!({
            "exposure": "deferred",
            "toolExposure": {
                "get_*": "hidden", "*_all": "direct", "get_one": "direct", "odd": "codemode",
            },
        }));
        let mut table = String::new();
        for tool in ["get_one", "get_two", "get_all", "list_all", "other", "odd"] {
            table += &format!("{tool}: {:?}\n", configured(&server, tool));
        }
        expect![[r#"
            get_one: Some(Direct)
            get_two: Some(Hidden)
            get_all: Some(Hidden)
            list_all: Some(Direct)
            other: Some(Deferred)
            odd: None
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn tools_without_an_exposure_are_deferred_when_there_are_many() {
        assert_eq!(effective(None, 40), Exposure::Direct);
        assert_eq!(effective(None, 41), Exposure::Deferred);
        assert_eq!(effective(Some(Exposure::Direct), 41), Exposure::Direct);
        assert_eq!(effective(Some(Exposure::Hidden), 1), Exposure::Hidden);
    }

    #[test]
    fn hidden_server_is_started_only_for_tools_that_are_not() {
        let facts = |entry| {
            let server = server(entry);
            (is_reachable(&server), may_be_direct(&server))
        };
        assert_eq!(facts(json!({})), (true, true));
        assert_eq!(facts(json!({"exposure": "deferred"})), (true, false));
        assert_eq!(facts(json!({"exposure": "codemode"})), (true, true));
        assert_eq!(facts(json!({"exposure": "hidden"})), (false, false));
        let shown = json!({"exposure": "hidden", "toolExposure": {"a": "direct"}});
        assert_eq!(facts(shown), (true, true));
        let found = json!({"exposure": "hidden", "toolExposure": {"a": "deferred"}});
        assert_eq!(facts(found), (true, false));
    }

    #[test]
    fn star_matches_any_characters() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
