//! `find`: finds files and directories by name.

use std::fs;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::DirEntry;
use schemars::JsonSchema;
use serde::Deserialize;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};
use tiller_agent::truncate::MAX_BYTES;
use tokio_util::sync::CancellationToken;

use crate::listing::Listing;
use crate::walk::{self, SearchHit, SmallestPaths, below};
use crate::{blocking, path, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "Find files and directories by name. `pattern` is a glob: `*.ts` matches a \
        name anywhere, `src/**/*.ts` a path. A pattern in lower case matches either case. Returns \
        paths below the searched directory, sorted, at most 1000 (see `limit`) and 50KB. Keeps to \
        .gitignore.";
    typed::spec::<FindInput>("find", description)
});

pub fn tool() -> Tool {
    typed::tool(&SPEC, run)
        .effect(ToolEffect::Reads)
        .snippet("Find files by name, past what git ignores")
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
struct FindInput {
    /// Glob to match names with, such as `*.ts`, `**/*.json` or `src/**/*.spec.ts`
    pattern: String,
    /// Directory to search (default: the working directory)
    #[serde(default)]
    path: Option<String>,
    /// How many paths to return (default: 1000)
    #[serde(default)]
    limit: Option<f64>,
}

const DEFAULT_LIMIT: usize = 1000;

async fn run(input: FindInput, cx: ToolContext) -> ToolResult {
    let pattern = Pattern::new(&input.pattern)?;
    let root = path::resolve(&cx.cwd, input.path.as_deref().unwrap_or("."));
    let limit = typed::count(input.limit).unwrap_or(DEFAULT_LIMIT);
    let cancel = cx.cancel.clone();
    blocking::run(&cx, move || find(&root, &pattern, limit, &cancel)).await
}

fn find(root: &Path, pattern: &Pattern, limit: usize, cancel: &CancellationToken) -> ToolResult {
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => (),
        Ok(_) => return Err(Failure::new(format!("Not a directory: {}", root.display()))),
        Err(_) => return Err(Failure::new(format!("Path not found: {}", root.display()))),
    }
    let mut builder = walk::builder(root);
    // Ignored files, such as build products, are left out, inside a repository or not.
    builder.require_git(false).add_custom_ignore_filename(".fdignore");
    let firsts = SmallestPaths::new(limit, 2 * MAX_BYTES);
    walk::walk(&builder, root, &firsts, cancel, || {
        |entry: &DirEntry| {
            if !pattern.matches(root, entry) {
                return None;
            }
            let slash = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
            Some(Found(format!("{}{slash}", below(root, entry).display())))
        }
    });
    let paths: Vec<String> = firsts.into_answers().into_values().map(|found| found.0).collect();
    if paths.is_empty() {
        return Ok(ToolOutput::text("No files found matching pattern"));
    }
    let mut listing = Listing::new(paths[..paths.len().min(limit)].join("\n"));
    if paths.len() > limit {
        let double = limit.saturating_mul(2);
        let note = format!(
            "{limit} results limit reached. Use limit={double} for more, or refine pattern"
        );
        listing.note("resultLimitReached", limit, note);
    }
    listing.cut_to_fit();
    Ok(listing.finish())
}

struct Found(String);

impl SearchHit for Found {
    fn count(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.0.len() + 1
    }
}

/// A glob, and what it is matched against.
struct Pattern {
    glob: GlobMatcher,
    /// The whole path, or only the file name.
    matches_path: bool,
}

impl Pattern {
    fn new(pattern: &str) -> Result<Pattern, Failure> {
        let matches_path = pattern.contains('/');
        // A path pattern matches at any depth, unless it is absolute or begins with `**/`.
        let anchored = if matches_path && !pattern.starts_with('/') && !pattern.starts_with("**/") {
            format!("**/{pattern}")
        } else {
            pattern.trim_start_matches('/').to_owned()
        };
        let glob = GlobBuilder::new(anchored.trim_end_matches('/'))
            .literal_separator(true)
            .case_insensitive(!pattern.chars().any(char::is_uppercase))
            .build()
            .map_err(|err| Failure::new(format!("Invalid pattern: {err}")))?;
        Ok(Pattern { glob: glob.compile_matcher(), matches_path })
    }

    fn matches(&self, root: &Path, entry: &DirEntry) -> bool {
        if self.matches_path {
            self.glob.is_match(below(root, entry))
        } else {
            self.glob.is_match(entry.file_name())
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::testing::Scratch;

    fn tree() -> Scratch {
        let scratch = Scratch::new();
        for name in [
            "src/main.rs",
            "src/lib.rs",
            "src/deep/Main.rs",
            "src-old/main.rs",
            ".hidden/x.rs",
            ".git/config.rs",
            "target/out.rs",
            "README.md",
            "a b.txt",
            "docs/src/guide.md",
        ] {
            scratch.write(name, "");
        }
        scratch.write(".gitignore", "target\n");
        scratch
    }

    #[tokio::test]
    async fn names_and_paths() {
        let calls = [
            json!({"pattern": "*.rs"}),
            json!({"pattern": "main*"}),
            json!({"pattern": "Main*"}),
            json!({"pattern": "src"}),
            json!({"pattern": "src/*.rs"}),
            json!({"pattern": "src/**/*.rs"}),
            json!({"pattern": "**/*.md"}),
            json!({"pattern": "*.rs", "path": "src"}),
            json!({"pattern": "{README,a b}.*"}),
            json!({"pattern": "*.rs", "limit": 2}),
            json!({"pattern": "*.rs", "limit": 6}),
            json!({"pattern": "*.none"}),
        ];
        let report = tree().report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"*.rs"}
            .hidden/x.rs
            src/deep/Main.rs
            src/lib.rs
            src/main.rs
            src-old/main.rs
            > {"pattern":"main*"}
            src/deep/Main.rs
            src/main.rs
            src-old/main.rs
            > {"pattern":"Main*"}
            src/deep/Main.rs
            > {"pattern":"src"}
            docs/src/
            src/
            > {"pattern":"src/*.rs"}
            src/lib.rs
            src/main.rs
            > {"pattern":"src/**/*.rs"}
            src/deep/Main.rs
            src/lib.rs
            src/main.rs
            > {"pattern":"**/*.md"}
            README.md
            docs/src/guide.md
            > {"pattern":"*.rs","path":"src"}
            deep/Main.rs
            lib.rs
            main.rs
            > {"pattern":"{README,a b}.*"}
            README.md
            a b.txt
            > {"pattern":"*.rs","limit":2}
            .hidden/x.rs
            src/deep/Main.rs

            [2 results limit reached. Use limit=4 for more, or refine pattern]
            details {"resultLimitReached":2}
            > {"pattern":"*.rs","limit":6}
            .hidden/x.rs
            src/deep/Main.rs
            src/lib.rs
            src/main.rs
            src-old/main.rs
            > {"pattern":"*.none"}
            No files found matching pattern
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn errors_for_invalid_patterns_and_paths() {
        let calls = [
            json!({"pattern": "*", "path": "gone"}),
            json!({"pattern": "*", "path": "README.md"}),
            json!({"pattern": "a{b"}),
        ];
        let report = tree().report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"*","path":"gone"}
            error: Path not found: $CWD/gone
            > {"pattern":"*","path":"README.md"}
            error: Not a directory: $CWD/README.md
            > {"pattern":"a{b"}
            error: Invalid pattern: error parsing glob 'a{b': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
        "#]].assert_eq(&report);
    }

    #[tokio::test]
    async fn many() {
        let scratch = Scratch::new();
        for i in 0..1200 {
            scratch.write(&format!("{:060}/{i:04}", i % 40), "");
        }
        let text = scratch.call(tool(), json!({"pattern": "[0-9][0-9][0-9][0-9]"})).await;
        let expected = "\n\n[1000 results limit reached. Use limit=2000 for more, or refine \
            pattern. 50.0KB limit reached]\n";
        assert!(text.contains(expected), "{text}");
        for _ in 0..3 {
            let again = scratch.call(tool(), json!({"pattern": "[0-9][0-9][0-9][0-9]"})).await;
            assert_eq!(again, text);
        }
    }
}
