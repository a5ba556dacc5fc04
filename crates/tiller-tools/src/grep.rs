//! `grep`: finds matching lines in a file or in all files of a tree.

mod lines;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::DirEntry;
use ignore::overrides::{Override, OverrideBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};
use tiller_agent::truncate::MAX_BYTES;
use tokio_util::sync::CancellationToken;

use crate::grep::lines::{LINE_MAX_CHARS, Lines};
use crate::listing::Listing;
use crate::walk::{self, SmallestPaths};
use crate::{blocking, path, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "Search files for lines that match a regular expression. Returns lines as \
        `path:number: text`, sorted by path, at most 100 matches (see `limit`) and 50KB; lines are \
        cut at 500 characters. Keeps to .gitignore and leaves out binary files.";
    typed::spec::<GrepInput>("grep", description)
});

pub fn tool() -> Tool {
    typed::tool(&SPEC, run)
        .effect(ToolEffect::Reads)
        .snippet("Search files for a pattern, past what git ignores")
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GrepInput {
    /// Regular expression to search for, or the text itself with `literal`
    pattern: String,
    /// File or directory to search (default: the working directory)
    #[serde(default)]
    path: Option<String>,
    /// Search only files whose path matches this glob, such as `*.ts` or `src/**/*.rs`
    #[serde(default)]
    glob: Option<String>,
    /// Match upper and lower case alike (default: false)
    #[serde(default)]
    ignore_case: Option<bool>,
    /// Take `pattern` as the text itself, not as a regular expression (default: false)
    #[serde(default)]
    literal: Option<bool>,
    /// How many lines to show before and after each match (default: 0)
    #[serde(default)]
    context: Option<f64>,
    /// How many matches to return (default: 100)
    #[serde(default)]
    limit: Option<f64>,
}

const DEFAULT_LIMIT: usize = 100;
/// The upper limit of `context`.
const CONTEXT_MAX: usize = 1000;
/// The longest line the searcher buffers; a file with a longer one is skipped.
const LINE_MAX_BYTES: usize = 32 * 1024 * 1024;

async fn run(input: GrepInput, cx: ToolContext) -> ToolResult {
    let search = Search {
        matcher: matcher(&input)?,
        context: typed::count(input.context).unwrap_or(0).min(CONTEXT_MAX),
        limit: typed::count(input.limit).unwrap_or(DEFAULT_LIMIT),
        cancel: cx.cancel.clone(),
    };
    let root = path::resolve(&cx.cwd, input.path.as_deref().unwrap_or("."));
    blocking::run(&cx, move || {
        let metadata = fs::metadata(&root)
            .map_err(|_| Failure::new(format!("Path not found: {}", root.display())))?;
        let found = if metadata.is_dir() {
            search.tree(&root, glob(&root, input.glob.as_deref())?)
        } else if metadata.is_file() {
            search.file(&root)
        } else {
            // Opening a pipe could block forever.
            return Err(Failure::new(format!("Not a regular file: {}", root.display())));
        };
        Ok(search.answer(found))
    })
    .await
}

fn matcher(input: &GrepInput) -> Result<RegexMatcher, Failure> {
    RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .fixed_strings(input.literal.unwrap_or(false))
        .build(&input.pattern)
        .map_err(|err| Failure::new(format!("{err}\nSet literal to search for the text itself.")))
}

fn glob(root: &Path, glob: Option<&str>) -> Result<Override, Failure> {
    let mut builder = OverrideBuilder::new(root);
    let added = match glob {
        Some(glob) => builder.add(glob).map(drop),
        None => Ok(()),
    };
    added.and_then(|()| builder.build()).map_err(|err| Failure::new(format!("Invalid glob: {err}")))
}

struct Search {
    matcher: RegexMatcher,
    context: usize,
    limit: usize,
    cancel: CancellationToken,
}

impl Search {
    fn tree(&self, root: &Path, glob: Override) -> Vec<(PathBuf, Lines)> {
        let mut builder = walk::builder(root);
        builder.overrides(glob).add_custom_ignore_filename(".rgignore");
        let firsts = SmallestPaths::new(self.limit, 2 * MAX_BYTES);
        walk::walk(&builder, root, &firsts, &self.cancel, || {
            let mut searcher = self.searcher(BinaryDetection::quit(0));
            move |entry: &DirEntry| {
                let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
                is_file.then(|| self.lines(&mut searcher, entry.path())).flatten()
            }
        });
        firsts.into_answers().into_iter().collect()
    }

    /// A file that is named explicitly is searched even if it is binary.
    fn file(&self, path: &Path) -> Vec<(PathBuf, Lines)> {
        let mut searcher = self.searcher(BinaryDetection::convert(0));
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        self.lines(&mut searcher, path).map(|lines| (name, lines)).into_iter().collect()
    }

    fn searcher(&self, binary: BinaryDetection) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .binary_detection(binary)
            .heap_limit(Some(LINE_MAX_BYTES))
            // One more than the limit shows that there are more.
            .max_matches(Some((self.limit as u64).saturating_add(1)))
            .build()
    }

    /// The lines of one file to return, if there are any.
    fn lines(&self, searcher: &mut Searcher, path: &Path) -> Option<Lines> {
        let file = Cancellable { file: File::open(path).ok()?, cancel: &self.cancel };
        let mut lines = Lines::default();
        // If a read fails midway, the lines found so far are kept.
        searcher.search_reader(&self.matcher, file, &mut lines).ok();
        (lines.matches > 0).then_some(lines)
    }

    fn answer(&self, found: Vec<(PathBuf, Lines)>) -> ToolOutput {
        if found.is_empty() {
            return ToolOutput::text("No matches found");
        }
        let mut text = String::new();
        let mut left = self.limit;
        let mut more = false;
        let mut cut = false;
        for (path, lines) in found {
            more |= lines.matches > left;
            for line in lines.up_to(left, self.context) {
                let path = path.display();
                let number = line.number;
                let newline = if text.is_empty() { "" } else { "\n" };
                text += &if line.is_match {
                    format!("{newline}{path}:{number}: {}", line.text)
                } else {
                    format!("{newline}{path}-{number}- {}", line.text)
                };
                cut |= line.cut;
            }
            left = left.saturating_sub(lines.matches);
        }
        let mut listing = Listing::new(text);
        if more {
            let limit = self.limit;
            let double = self.limit.saturating_mul(2);
            let note = format!(
                "{limit} matches limit reached. Use limit={double} for more, or refine pattern"
            );
            listing.note("matchLimitReached", limit, note);
        }
        listing.cut_to_fit();
        if cut {
            let note = format!(
                "Some lines truncated to {LINE_MAX_CHARS} chars. Use read tool to see full lines"
            );
            listing.note("linesTruncated", true, note);
        }
        listing.finish()
    }
}

/// A file that reports its end once the call is cancelled.
struct Cancellable<'c> {
    file: File,
    cancel: &'c CancellationToken,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Ok(0);
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::testing::Scratch;

    fn tree() -> Scratch {
        let scratch = Scratch::new();
        scratch
            .write("b.txt", "one\ntwo Needle\nthree\nfour needle\nfive\n")
            .write("a/deep.rs", "needle()\r\nother\r\n")
            .write("a-b.rs", "needle")
            .write(".hidden", "a needle\n")
            .write(".git/needle", "needle\n")
            .write("ignored.txt", "needle\n")
            .write(".ignore", "ignored.txt\n")
            .write("binary", b"needle\0\nneedle\n")
            .write("utf16", b"\xff\xfen\0e\0e\0d\0l\0e\0");
        scratch
    }

    #[tokio::test]
    async fn a_tree() {
        let calls = [
            json!({"pattern": "needle"}),
            json!({"pattern": "need.e", "ignoreCase": true, "path": "b.txt"}),
            json!({"pattern": "needle()", "literal": true}),
            json!({"pattern": "needle", "glob": "*.rs"}),
            json!({"pattern": "needle", "glob": "a/**"}),
            json!({"pattern": "needle", "glob": "!*.{rs,txt}"}),
            json!({"pattern": "^needle$", "path": "binary"}),
            json!({"pattern": "needle", "path": "ignored.txt"}),
            json!({"pattern": "nowhere"}),
        ];
        let report = tree().report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"needle"}
            .hidden:1: a needle
            a/deep.rs:1: needle()
            a-b.rs:1: needle
            b.txt:4: four needle
            utf16:1: needle
            > {"pattern":"need.e","ignoreCase":true,"path":"b.txt"}
            b.txt:2: two Needle
            b.txt:4: four needle
            > {"pattern":"needle()","literal":true}
            a/deep.rs:1: needle()
            > {"pattern":"needle","glob":"*.rs"}
            a/deep.rs:1: needle()
            a-b.rs:1: needle
            > {"pattern":"needle","glob":"a/**"}
            a/deep.rs:1: needle()
            > {"pattern":"needle","glob":"!*.{rs,txt}"}
            .hidden:1: a needle
            utf16:1: needle
            > {"pattern":"^needle$","path":"binary"}
            binary:1: needle
            binary:3: needle
            > {"pattern":"needle","path":"ignored.txt"}
            ignored.txt:1: needle
            > {"pattern":"nowhere"}
            No matches found
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn lines_around() {
        let calls = [
            json!({"pattern": "needle", "path": "b.txt", "context": 1}),
            json!({"pattern": "(?i)needle", "path": "b.txt", "context": 1}),
            json!({"pattern": "(?i)needle", "path": "b.txt", "context": 1, "limit": 1}),
            json!({"pattern": "(?i)needle", "path": "b.txt", "context": 5, "limit": 1}),
        ];
        let report = tree().report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"needle","path":"b.txt","context":1}
            b.txt-3- three
            b.txt:4: four needle
            b.txt-5- five
            > {"pattern":"(?i)needle","path":"b.txt","context":1}
            b.txt-1- one
            b.txt:2: two Needle
            b.txt-3- three
            b.txt:4: four needle
            b.txt-5- five
            > {"pattern":"(?i)needle","path":"b.txt","context":1,"limit":1}
            b.txt-1- one
            b.txt:2: two Needle
            b.txt-3- three

            [1 matches limit reached. Use limit=2 for more, or refine pattern]
            details {"matchLimitReached":1}
            > {"pattern":"(?i)needle","path":"b.txt","context":5,"limit":1}
            b.txt-1- one
            b.txt:2: two Needle
            b.txt-3- three

            [1 matches limit reached. Use limit=2 for more, or refine pattern]
            details {"matchLimitReached":1}
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn limits() {
        let scratch = Scratch::new();
        scratch.write("a", "x\nx\n").write("b", "x\nx\n").write("c", "x\n");
        let calls = [
            json!({"pattern": "x", "limit": 1}),
            json!({"pattern": "x", "limit": 2}),
            json!({"pattern": "x", "limit": 3}),
            json!({"pattern": "x", "limit": 5}),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"x","limit":1}
            a:1: x

            [1 matches limit reached. Use limit=2 for more, or refine pattern]
            details {"matchLimitReached":1}
            > {"pattern":"x","limit":2}
            a:1: x
            a:2: x

            [2 matches limit reached. Use limit=4 for more, or refine pattern]
            details {"matchLimitReached":2}
            > {"pattern":"x","limit":3}
            a:1: x
            a:2: x
            b:1: x

            [3 matches limit reached. Use limit=6 for more, or refine pattern]
            details {"matchLimitReached":3}
            > {"pattern":"x","limit":5}
            a:1: x
            a:2: x
            b:1: x
            b:2: x
            c:1: x
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn long_lines_are_cut_between_characters() {
        let scratch = Scratch::new();
        scratch.write("f", format!("{}needle{}\n", "é".repeat(498), "x".repeat(50)));
        let text = scratch.call(tool(), json!({"pattern": "needle"})).await;
        let shown = format!(
            "f:1: {}ne... [truncated]\n\n\
            [Some lines truncated to 500 chars. Use read tool to see full lines]\n\
            details {{\"linesTruncated\":true}}\n",
            "é".repeat(498)
        );
        assert_eq!(text, shown);
    }

    #[tokio::test]
    async fn long_results_are_cut() {
        let scratch = Scratch::new();
        scratch.write("f", format!("{}\n", "x".repeat(600)).repeat(200));
        let text = scratch.call(tool(), json!({"pattern": "x", "limit": 150})).await;
        let note = "[150 matches limit reached. Use limit=300 for more, or refine pattern. \
            50.0KB limit reached. Some lines truncated to 500 chars. Use read tool to see full lines]";
        assert!(text.contains(note), "{text}");
        assert!(
            text.contains(r#"details {"matchLimitReached":150,"truncation":{"content":"f:1: xxx"#)
        );
        assert!(text.ends_with("},\"linesTruncated\":true}\n"), "{text}");
    }

    #[tokio::test]
    async fn errors_for_invalid_patterns_and_paths() {
        let calls = [
            json!({"pattern": "x", "path": "gone"}),
            json!({"pattern": "a(b"}),
            json!({"pattern": "x", "glob": "{a"}),
        ];
        let report = tree().report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"x","path":"gone"}
            error: Path not found: $CWD/gone
            > {"pattern":"a(b"}
            error: regex parse error:
                (?:a(b)
                ^
            error: unclosed group
            Set literal to search for the text itself.
            > {"pattern":"x","glob":"{a"}
            error: Invalid glob: error parsing glob '{a': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
        "#]].assert_eq(&report);
    }

    #[tokio::test]
    async fn git_ignores_only_inside_a_repository() {
        let scratch = Scratch::new();
        scratch.write(".gitignore", "out\n").write("out", "needle\n").write("in", "needle\n");
        let calls = [json!({"pattern": "needle"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"needle"}
            in:1: needle
            out:1: needle
        "#]]
        .assert_eq(&report);
        fs::create_dir(scratch.path(".git")).unwrap();
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"pattern":"needle"}
            in:1: needle
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn cancelled_in_the_middle_of_an_endless_file() {
        let scratch = Scratch::new();
        // Sparse: takes no space on disk, and very long to read.
        let endless = scratch.path("endless");
        File::create(&endless).unwrap().set_len(1 << 42).unwrap();
        let search = Search {
            matcher: RegexMatcher::new("needle").unwrap(),
            context: 0,
            limit: 1,
            cancel: CancellationToken::new(),
        };
        let cancel = search.cancel.clone();
        let work = tokio::task::spawn_blocking(move || search.file(&endless).len());
        cancel.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(20), work).await;
        assert_eq!(ended.unwrap().unwrap(), 0);
    }
}
