//! Crate dependencies form a star: `tiller-agent` in the middle depends on no other crate of ours,
//! the crates around it only on the middle and on what [`ALSO`] lists, and `tiller` on all.

use super::Problem;
use super::tree::{File, Tree};

const MIDDLE: &str = "tiller-agent";
const WHOLE: &str = "tiller";

/// A crate around the middle, and what else it may depend on.
const ALSO: &[(&str, &[&str])] = &[
    // Another protocol is translated to this one.
    ("tiller-acp", &["tiller-protocol"]),
    // A client in Rust writes commands and parses records.
    ("tiller-client", &["tiller-protocol"]),
    // The registry of models makes their providers, and a key may come from a command.
    ("tiller-config", &["tiller-llm", "tiller-tools"]),
    // MCP servers are programs, or are reached by HTTP.
    ("tiller-mcp", &["tiller-llm", "tiller-tools"]),
    // A database stores sessions.
    ("tiller-postgres", &["tiller-session"]),
    // The page is drawn from a session file.
    ("tiller-export", &["tiller-session"]),
    // A session connects all of them. Tests ask a built-in model.
    (
        "tiller-server",
        &[
            "tiller-config",
            "tiller-demo",
            "tiller-export",
            "tiller-js",
            "tiller-llm",
            "tiller-mcp",
            "tiller-protocol",
            "tiller-sandbox",
            "tiller-session",
            "tiller-tools",
        ],
    ),
];

/// An external dependency, and the crates that may use it.
const DOORS: &[(&str, &[&str])] = &[
    ("agent-client-protocol-schema", &["tiller-acp"]),
    ("reqwest", &["tiller-llm"]),
    ("rustls", &["tiller-llm", "tiller-postgres"]),
    ("tokio-postgres", &["tiller-postgres"]),
    ("rmcp", &["tiller-mcp"]),
    ("landlock", &["tiller-sandbox"]),
    // A test of the program simulates a kernel without Landlock.
    ("seccompiler", &["tiller-sandbox", "tiller"]),
    ("clap", &["tiller"]),
];

/// A crate, and all that it may depend on. Clients in Rust depend on these without the rest.
const ONLY: &[(&str, &[&str])] = &[
    (
        "tiller-acp",
        &[
            MIDDLE,
            "tiller-protocol",
            "agent-client-protocol-schema",
            "expect-test",
            "serde",
            "serde_json",
        ],
    ),
    // The last two are optional: for WebSockets.
    (
        "tiller-client",
        &["tiller-protocol", "serde", "serde_json", "tokio", "futures-util", "tokio-tungstenite"],
    ),
    (
        "tiller-protocol",
        &[MIDDLE, "expect-test", "schemars", "serde", "serde_json", "serde_path_to_error", "sha2"],
    ),
];

pub(super) fn dependencies(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, manifest) in manifests(tree) {
        for (line, dependency) in depends_on(manifest) {
            let ours = dependency == WHOLE || dependency.starts_with("tiller-");
            let allowed = match name {
                WHOLE => dependency != WHOLE,
                MIDDLE => false,
                // The types of the clients are made from the schema of the protocol.
                "xtask" => dependency == "tiller-protocol",
                _ => {
                    dependency == MIDDLE
                        || ALSO.iter().any(|(one, more)| *one == name && more.contains(&dependency))
                }
            };
            if ours && !allowed {
                let what = format!("`{name}` may not depend on `{dependency}`: crates form a star");
                problems.push(Problem::new(&manifest.path, line, what));
            }
            let only = ONLY.iter().find(|(one, _)| *one == name).map(|(_, only)| *only);
            if let Some(only) = only
                && !dependency.is_empty()
                && !only.contains(&dependency)
            {
                let what = format!("`{name}` may depend on {} only", only.join(", "));
                problems.push(Problem::new(&manifest.path, line, what));
            }
            let owners = DOORS.iter().find(|(door, _)| *door == dependency);
            if let Some((_, owners)) = owners.filter(|(_, owners)| !owners.contains(&name)) {
                let owners = owners.join("` and `");
                let what = format!("only `{owners}` may depend on `{dependency}`");
                problems.push(Problem::new(&manifest.path, line, what));
            }
        }
    }
    problems
}

/// Every crate inherits the workspace's lints.
pub(super) fn lints(tree: &Tree) -> Vec<Problem> {
    let unguarded = |manifest: &File| !manifest.text.contains("[lints]\nworkspace = true");
    let manifests = manifests(tree).map(|(_, manifest)| manifest);
    let problem = |manifest: &File| {
        Problem::new(&manifest.path, 1, "expected `[lints]` with `workspace = true`")
    };
    manifests.filter(|manifest| unguarded(manifest)).map(problem).collect()
}

/// Our crates by folder name. The fuzz targets are a separate workspace.
fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &File)> {
    tree.files().iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml").filter(|folder| *folder != "fuzz")?;
        Some((folder.strip_prefix("crates/").unwrap_or(folder), file))
    })
}

/// The names in all dependency sections, including those of tests and build scripts.
fn depends_on(manifest: &File) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut lists_names = false;
    for (number, line) in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            lists_names = section.ends_with("dependencies");
            if let Some((_, name)) = section.split_once("dependencies.") {
                names.push((number, name));
            }
        } else if lists_names {
            let end = line.find(|c: char| !(c.is_alphanumeric() || "-_".contains(c)));
            names.push((number, &line[..end.unwrap_or(line.len())]));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check;
    use super::*;

    #[test]
    fn crates_may_depend_only_on_agent() {
        check(
            dependencies,
            &[
                ("crates/tiller-agent/Cargo.toml", "[dependencies]\nserde = \"1\"\n"),
                (
                    "crates/tiller-llm/Cargo.toml",
                    "[dependencies]\ntiller-agent.workspace = true\nreqwest = \"1\"\n\n\
                     [dev-dependencies]\ntiller-tools = { path = \"../tiller-tools\" }\n",
                ),
                (
                    "crates/tiller-export/Cargo.toml",
                    "[dependencies]\ntiller-session.workspace = true\ntiller-llm = \"1\"\n",
                ),
                (
                    "crates/tiller/Cargo.toml",
                    "[dependencies]\ntiller-llm.workspace = true\nclap.workspace = true\n\
                     [target.'cfg(unix)'.dependencies.reqwest]\nversion = \"1\"\n",
                ),
                ("xtask/Cargo.toml", "[dependencies]\ntiller = \"1\"\n[lints]\ntiller = 1\n"),
            ],
            expect![[r#"
                crates/tiller-llm/Cargo.toml:6: `tiller-llm` may not depend on `tiller-tools`: crates form a star
                crates/tiller-export/Cargo.toml:3: `tiller-export` may not depend on `tiller-llm`: crates form a star
                crates/tiller/Cargo.toml:4: only `tiller-llm` may depend on `reqwest`
                xtask/Cargo.toml:2: `xtask` may not depend on `tiller`: crates form a star"#]],
        );
    }

    #[test]
    fn protocol_may_not_depend_on_a_runtime() {
        check(
            dependencies,
            &[(
                "crates/tiller-protocol/Cargo.toml",
                "[dependencies]\ntiller-agent = \"1\"\n\n# Why.\ntokio = \"1\"\n",
            )],
            expect![
                "crates/tiller-protocol/Cargo.toml:5: `tiller-protocol` may depend on tiller-agent, expect-test, schemars, serde, serde_json, serde_path_to_error, sha2 only"
            ],
        );
    }

    #[test]
    fn client_may_not_depend_on_the_agent() {
        check(
            dependencies,
            &[(
                "crates/tiller-client/Cargo.toml",
                "[dependencies]\ntiller-protocol = \"1\"\ntiller-agent = \"1\"\n",
            )],
            expect![
                "crates/tiller-client/Cargo.toml:3: `tiller-client` may depend on tiller-protocol, serde, serde_json, tokio, futures-util, tokio-tungstenite only"
            ],
        );
    }

    #[test]
    fn agent_may_depend_on_no_other_crate() {
        check(
            dependencies,
            &[("crates/tiller-agent/Cargo.toml", "[build-dependencies]\ntiller-js = \"1\"\n")],
            expect![
                "crates/tiller-agent/Cargo.toml:2: `tiller-agent` may not depend on `tiller-js`: crates form a star"
            ],
        );
    }

    #[test]
    fn crate_without_workspace_lints_is_reported() {
        check(
            lints,
            &[
                ("Cargo.toml", "[workspace]\n"),
                ("crates/a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"),
                ("crates/b/Cargo.toml", "[package]\n"),
            ],
            expect!["crates/b/Cargo.toml:1: expected `[lints]` with `workspace = true`"],
        );
    }
}
