//! `ls`: lists one directory; directories get a trailing slash.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};
use tokio_util::sync::CancellationToken;

use crate::listing::Listing;
use crate::{blocking, os_error, path, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "List the names in a directory, sorted, dotfiles included. Directories end \
        with `/`. Returns at most 500 names (see `limit`) and 50KB.";
    typed::spec::<LsInput>("ls", description)
});

pub fn tool() -> Tool {
    typed::tool(&SPEC, run).effect(ToolEffect::Reads).snippet("List the names in a directory")
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
struct LsInput {
    /// Directory to list (default: the working directory)
    #[serde(default)]
    path: Option<String>,
    /// How many names to return (default: 500)
    #[serde(default)]
    limit: Option<f64>,
}

const DEFAULT_LIMIT: usize = 500;

async fn run(input: LsInput, cx: ToolContext) -> ToolResult {
    let dir = path::resolve(&cx.cwd, input.path.as_deref().unwrap_or("."));
    let limit = typed::count(input.limit).unwrap_or(DEFAULT_LIMIT);
    let cancel = cx.cancel.clone();
    let (names, more) = blocking::run(&cx, move || names_in(&dir, limit, &cancel)).await?;
    if names.is_empty() {
        return Ok(ToolOutput::text("(empty directory)"));
    }
    let mut listing = Listing::new(names.join("\n"));
    if more {
        let double = limit.saturating_mul(2);
        let note = format!("{limit} entries limit reached. Use limit={double} for more");
        listing.note("entryLimitReached", limit, note);
    }
    listing.cut_to_fit();
    Ok(listing.finish())
}

/// The first `limit` names in order, and whether there are more.
fn names_in(
    dir: &Path,
    limit: usize,
    cancel: &CancellationToken,
) -> Result<(Vec<String>, bool), Failure> {
    let metadata = fs::metadata(dir)
        .map_err(|_| Failure::new(format!("Path not found: {}", dir.display())))?;
    if !metadata.is_dir() {
        return Err(Failure::new(format!("Not a directory: {}", dir.display())));
    }
    let cannot = |err: &std::io::Error| {
        let why = os_error::describe(err);
        Failure::new(format!("Cannot read directory: {why}, scandir '{}'", dir.display()))
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir).map_err(|err| cannot(&err))? {
        if cancel.is_cancelled() {
            return Err(Failure::aborted());
        }
        let entry = entry.map_err(|err| cannot(&err))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push((name.to_lowercase(), name, entry.file_type().ok()));
    }
    // The kernel's order is arbitrary; a stable one keeps prompt caches warm.
    entries.sort_unstable_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));

    let mut names = Vec::new();
    for (_, name, file_type) in entries {
        // Links count as their targets; dangling links are left out.
        let is_dir = match file_type {
            Some(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => match fs::metadata(dir.join(&name)) {
                Ok(metadata) => metadata.is_dir(),
                Err(_) => continue,
            },
        };
        if names.len() == limit {
            return Ok((names, true));
        }
        names.push(if is_dir { format!("{name}/") } else { name });
    }
    Ok((names, false))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::testing::Scratch;

    #[tokio::test]
    async fn names_in_order() {
        let scratch = Scratch::new();
        let calls = [json!({})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {}
            (empty directory)
        "#]]
        .assert_eq(&report);
        scratch.write("b.txt", "").write("A.txt", "").write(".hidden", "").write("sub/x", "");
        symlink("sub", scratch.path("link")).unwrap();
        symlink("nowhere", scratch.path("broken")).unwrap();
        let calls = [
            json!({}),
            json!({"limit": 2, "path": "."}),
            json!({"limit": 1, "path": "sub"}),
            json!({"limit": 0, "path": "sub"}),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {}
            .hidden
            A.txt
            b.txt
            link/
            sub/
            > {"limit":2,"path":"."}
            .hidden
            A.txt

            [2 entries limit reached. Use limit=4 for more]
            details {"entryLimitReached":2}
            > {"limit":1,"path":"sub"}
            x
            > {"limit":0,"path":"sub"}
            x
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn errors_for_missing_and_unlistable_paths() {
        let scratch = Scratch::new();
        scratch.write("f", "");
        let calls = [json!({"path": "gone"}), json!({"path": "f"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"gone"}
            error: Path not found: $CWD/gone
            > {"path":"f"}
            error: Not a directory: $CWD/f
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn long_list_is_cut_at_the_byte_limit() {
        let scratch = Scratch::new();
        for i in 0..600 {
            scratch.write(&format!("{i:0100}"), "");
        }
        let text = scratch.call(tool(), json!({"limit": 1000})).await;
        assert!(text.contains("\n\n[50.0KB limit reached]\n"), "{text}");
        assert!(text.contains(r#""outputLines":506"#), "{text}");
    }
}
