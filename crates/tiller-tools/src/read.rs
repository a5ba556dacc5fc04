//! `read`: reads a text file from some line on, or an image.
//!
//! Files are read in chunks, so their size does not matter: the result is bounded, and the rest is
//! only counted.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tiller_agent::message::Block;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};
use tiller_agent::truncate::{self, MAX_BYTES, TextLimits, TextSize, TruncatedBy, size_text};
use tokio_util::sync::CancellationToken;

use crate::image::{self, Normalised, Resize};
use crate::{blocking, os_error, path, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "Read a file. Text is returned as it stands, at most 2000 lines or 50KB at \
        a time: use `offset` and `limit` to read on. Pictures (png, jpeg, gif, webp, bmp) are \
        shown to you.";
    typed::spec::<ReadInput>("read", description)
});

pub fn tool() -> Tool {
    with(Resize::ToFit)
}

/// The tool with the setting for images that are too large.
pub fn with(resize: Resize) -> Tool {
    typed::tool(&SPEC, move |input, cx| run(input, cx, resize))
        .effect(ToolEffect::Reads)
        .snippet("Read a text file or look at a picture")
        .rule("Look at files with read rather than with cat or sed")
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
struct ReadInput {
    /// File to read, relative to the working directory or absolute
    path: String,
    /// Line to start at, counted from 1
    #[serde(default)]
    offset: Option<f64>,
    /// How many lines to read
    #[serde(default)]
    limit: Option<f64>,
}

async fn run(input: ReadInput, cx: ToolContext, resize: Resize) -> ToolResult {
    let cwd = cx.cwd.clone();
    let cancel = cx.cancel.clone();
    let sees_images = cx.sees_images;
    blocking::run(&cx, move || {
        let path = path::resolve_existing(&cwd, &input.path);
        let mut file = open(&path)?;
        let failed = |err| read_error(&err, &cancel);
        let head = beginning(&mut file).map_err(failed)?;
        if let Some(kind) = image::Kind::of(&head) {
            let normalised = image::read(kind, head, file, resize).map_err(failed)?;
            return Ok(picture(kind, normalised, sees_images));
        }
        let first = typed::count(input.offset).map_or(0, |line| line - 1);
        let limit = typed::count(input.limit);
        let lines = select(head.as_slice().chain(file), first, limit, &cancel).map_err(failed)?;
        text(&input.path, first, &lines)
    })
    .await
}

fn open(path: &Path) -> Result<File, Failure> {
    let metadata = fs::metadata(path).map_err(|err| os_error::failure(&err, "access", path))?;
    if metadata.is_dir() {
        return Err(Failure::new("EISDIR: illegal operation on a directory, read"));
    }
    // Reading a device may never end, and opening a pipe may block.
    if !metadata.is_file() {
        return Err(Failure::new(format!("Not a regular file: {}", path.display())));
    }
    File::open(path).map_err(|err| os_error::failure(&err, "access", path))
}

fn read_error(err: &io::Error, cancel: &CancellationToken) -> Failure {
    if cancel.is_cancelled() {
        return Failure::aborted();
    }
    Failure::new(format!("{}, read", os_error::describe(err)))
}

/// The first bytes of the file, enough to detect an image.
fn beginning(file: &mut File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(image::SNIFF_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// The selected lines of a file.
#[derive(Debug, Default)]
struct SelectedLines {
    /// The beginning of the selected lines: slightly more than may be shown, if there is more.
    text: String,
    /// The size of all selected lines.
    size: TextSize,
    /// How many lines were selected. One more than in `size` if the last of them is empty.
    requested: usize,
    /// The length of the first selected line.
    first_bytes: usize,
    /// The number of lines in the file.
    in_file: usize,
}

/// Reads `limit` lines from line `first` on, counted from 0, and counts the others.
fn select(
    mut file: impl Read,
    first: usize,
    limit: Option<usize>,
    cancel: &CancellationToken,
) -> io::Result<SelectedLines> {
    // Longer than the limit by more than one character, so that a split character is never shown.
    const KEPT_MAX_BYTES: usize = MAX_BYTES + 64;
    let end = limit.map_or(usize::MAX, |limit| first.saturating_add(limit));
    let mut lines = SelectedLines::default();
    let mut selected = Vec::new();
    // How many lines have ended so far, and the lengths of the last of them and of the current one.
    let mut complete = 0;
    let (mut ended_bytes, mut open_bytes) = (0, 0);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut rest = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => &buffer[..n],
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        };
        while complete < end && !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let (line, after) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
            if complete >= first {
                lines.size.bytes += line.len();
                if complete == first {
                    lines.first_bytes += line.len() - usize::from(newline.is_some());
                }
                let room = KEPT_MAX_BYTES - selected.len();
                selected.extend_from_slice(&line[..line.len().min(room)]);
            }
            open_bytes += line.len();
            if newline.is_some() {
                complete += 1;
                ended_bytes = open_bytes - 1;
                open_bytes = 0;
            }
            rest = after;
        }
        complete += memchr::memchr_iter(b'\n', rest).count();
    }
    // Text after the last line end counts as a line, even if it is empty: pi counts this way, and
    // clients compare the notes.
    lines.in_file = complete + 1;
    lines.requested = lines.in_file.min(end).saturating_sub(first);
    let last_bytes = if end < lines.in_file {
        // The line end before the first line that was not selected.
        selected.truncate(lines.size.bytes.saturating_sub(1));
        lines.size.bytes = lines.size.bytes.saturating_sub(1);
        ended_bytes
    } else {
        open_bytes
    };
    lines.size.lines = lines.requested.saturating_sub(usize::from(last_bytes == 0));
    lines.text = String::from_utf8_lossy(&selected).into_owned();
    Ok(lines)
}

fn text(requested: &str, first: usize, lines: &SelectedLines) -> ToolResult {
    let total = lines.in_file;
    if first > 0 && first >= total {
        let offset = first + 1;
        return Err(Failure::new(format!(
            "Offset {offset} is beyond end of file ({total} lines total)"
        )));
    }
    let shown = truncate::head(&lines.text, lines.size, TextLimits::TEXT);
    let next = first + if shown.truncated { shown.output_lines } else { lines.requested };
    let note = match shown.truncated_by {
        Some(_) if shown.first_line_exceeds_limit => {
            let note = format!(
                "[Line {line} is {size}, exceeds {max} limit. Use bash: sed -n '{line}p' {path} | head -c {MAX_BYTES}]",
                line = first + 1,
                size = size_text(lines.first_bytes),
                max = size_text(MAX_BYTES),
                path = shell_word(requested),
            );
            return Ok(ToolOutput::text(note).details(json!({ "truncation": shown })));
        }
        Some(cut) => {
            let why = match cut {
                TruncatedBy::Lines => String::new(),
                TruncatedBy::Bytes => format!(" ({} limit)", size_text(MAX_BYTES)),
            };
            let from = first + 1;
            format!(
                "Showing lines {from}-{next} of {total}{why}. Use offset={} to continue.",
                next + 1
            )
        }
        None if next < total => {
            format!("{} more lines in file. Use offset={} to continue.", total - next, next + 1)
        }
        None => return Ok(ToolOutput::text(shown.content)),
    };
    let output = ToolOutput::text(format!("{}\n\n[{note}]", shown.content));
    Ok(if shown.truncated { output.details(json!({ "truncation": shown })) } else { output })
}

/// Quotes the path for a shell command.
fn shell_word(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./~+@%,:=".contains(c);
    if path.chars().all(plain) && !path.starts_with('-') {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

fn picture(kind: image::Kind, normalised: Normalised, sees_images: bool) -> ToolOutput {
    let mut text =
        format!("Read image file [{}]", normalised.mime_type().unwrap_or(kind.mime_type()));
    for note in &normalised.notes {
        text.push('\n');
        text.push_str(note);
    }
    if !sees_images {
        text.push_str("\n[Current model does not support images. The image will be omitted from this request.]");
    }
    ToolOutput {
        content: [Block::text(text)].into_iter().chain(normalised.image).collect(),
        ..ToolOutput::default()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Scratch;

    /// The notes below a long text and the numbers in its details, without the text.
    async fn figures(scratch: &Scratch, arguments: Value) -> String {
        let output = scratch.result(tool(), arguments).await.unwrap();
        let Block::Text { text, .. } = &output.content[0] else { panic!("not text") };
        let note = &text[text.rfind('[').unwrap()..];
        let mut details = output.details.unwrap();
        let content =
            details["truncation"].as_object_mut().unwrap().shift_remove("content").unwrap();
        let shown = text[..text.len() - note.len()].trim_end_matches('\n');
        assert_eq!(content, shown, "the details hold another text than is shown");
        format!("{note}\n{details}\n")
    }

    #[tokio::test]
    async fn whole_and_in_part() {
        let scratch = Scratch::new();
        scratch.write("a.txt", "alpha\nbeta\ngamma\n").write("open", "one\ntwo");
        scratch.write("empty", "").write("gap", "one\n\ntwo\n");
        let calls = [
            json!({"path": "a.txt"}),
            json!({"path": "a.txt", "offset": 2, "limit": 1}),
            json!({"path": "a.txt", "offset": 2, "limit": 2}),
            json!({"path": "a.txt", "offset": 3.0}),
            json!({"path": "a.txt", "offset": 4}),
            json!({"path": "open", "offset": -1, "limit": 1}),
            json!({"path": "open", "offset": 2, "limit": 0}),
            json!({"path": "gap", "limit": 2}),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"a.txt"}
            alpha
            beta
            gamma

            > {"path":"a.txt","offset":2,"limit":1}
            beta

            [2 more lines in file. Use offset=3 to continue.]
            > {"path":"a.txt","offset":2,"limit":2}
            beta
            gamma

            [1 more lines in file. Use offset=4 to continue.]
            > {"path":"a.txt","offset":3.0}
            gamma

            > {"path":"a.txt","offset":4}

            > {"path":"open","offset":-1,"limit":1}
            one

            [1 more lines in file. Use offset=2 to continue.]
            > {"path":"open","offset":2,"limit":0}
            two
            > {"path":"gap","limit":2}
            one


            [2 more lines in file. Use offset=3 to continue.]
        "#]]
        .assert_eq(&report);
        assert_eq!(scratch.call(tool(), json!({"path": "empty"})).await, "\n");
        let calls = [json!({"path": "empty", "offset": 2})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"empty","offset":2}
            error: Offset 2 is beyond end of file (1 lines total)
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn result_is_limited_to_two_thousand_lines() {
        let scratch = Scratch::new();
        let lines: String = (1..=2500).map(|i| format!("line {i}\n")).collect();
        scratch.write("long", &lines);
        expect![[r#"
            [Showing lines 1-2000 of 2501. Use offset=2001 to continue.]
            {"truncation":{"truncated":true,"truncatedBy":"lines","totalLines":2500,"totalBytes":23893,"outputLines":2000,"outputBytes":18892,"lastLinePartial":false,"firstLineExceedsLimit":false,"maxLines":2000,"maxBytes":51200}}
        "#]]
        .assert_eq(&figures(&scratch, json!({"path": "long"})).await);
        expect![[r#"
            [Showing lines 101-2100 of 2501. Use offset=2101 to continue.]
            {"truncation":{"truncated":true,"truncatedBy":"lines","totalLines":2300,"totalBytes":22100,"outputLines":2000,"outputBytes":19100,"lastLinePartial":false,"firstLineExceedsLimit":false,"maxLines":2000,"maxBytes":51200}}
        "#]]
        .assert_eq(&figures(&scratch, json!({"path": "long", "offset": 101, "limit": 2300})).await);
        // Exactly as much as is allowed, and then the rest.
        let text = scratch.call(tool(), json!({"path": "long", "limit": 2000})).await;
        assert!(text.ends_with("\n\n[501 more lines in file. Use offset=2001 to continue.]\n"));
        let text = scratch.call(tool(), json!({"path": "long", "offset": 2001})).await;
        assert!(text.starts_with("line 2001\n") && text.ends_with("line 2500\n\n"));
        // The end of the last line does not begin another one.
        let lines: String = (1..=2000).map(|i| format!("line {i}\n")).collect();
        scratch.write("just", &lines);
        assert_eq!(scratch.call(tool(), json!({"path": "just"})).await, lines + "\n");
    }

    #[tokio::test]
    async fn result_is_limited_to_fifty_kilobytes() {
        let scratch = Scratch::new();
        scratch.write("wide", format!("{}\n", "é".repeat(49)).repeat(700));
        scratch.write("it's long.txt", format!("{}\nend\n", "x".repeat(60_000)));
        expect![[r#"
            [Showing lines 1-517 of 701 (50.0KB limit). Use offset=518 to continue.]
            {"truncation":{"truncated":true,"truncatedBy":"bytes","totalLines":700,"totalBytes":69300,"outputLines":517,"outputBytes":51182,"lastLinePartial":false,"firstLineExceedsLimit":false,"maxLines":2000,"maxBytes":51200}}
        "#]]
        .assert_eq(&figures(&scratch, json!({"path": "wide"})).await);
        expect![[r#"
            [Line 1 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '1p' 'it'\''s long.txt' | head -c 51200]
            {"truncation":{"truncated":true,"truncatedBy":"bytes","totalLines":2,"totalBytes":60005,"outputLines":0,"outputBytes":0,"lastLinePartial":false,"firstLineExceedsLimit":true,"maxLines":2000,"maxBytes":51200}}
        "#]]
        .assert_eq(&figures(&scratch, json!({"path": "it's long.txt"})).await);
    }

    #[tokio::test]
    async fn invalid_utf8_is_replaced() {
        let scratch = Scratch::new();
        scratch.write("latin", b"caf\xe9\n").write("bom", "\u{feff}hi\n");
        let calls = [json!({"path": "latin"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"latin"}
            caf�

        "#]]
        .assert_eq(&report);
        assert_eq!(scratch.call(tool(), json!({"path": "bom"})).await, "\u{feff}hi\n\n");
    }

    #[tokio::test]
    async fn errors_for_missing_and_special_files() {
        let scratch = Scratch::new();
        scratch.write("dir/x", "");
        let calls =
            [json!({"path": "gone.txt"}), json!({"path": "dir"}), json!({"path": "/dev/zero"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"gone.txt"}
            error: ENOENT: no such file or directory, access '$CWD/gone.txt'
            > {"path":"dir"}
            error: EISDIR: illegal operation on a directory, read
            > {"path":"/dev/zero"}
            error: Not a regular file: /dev/zero
        "#]]
        .assert_eq(&report);
    }

    #[test]
    fn selection_does_not_depend_on_chunks() {
        struct Drip<'a>(&'a [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.take(1).read(buffer).inspect(|&n| self.0 = &self.0[n..])
            }
        }
        let show = |lines: SelectedLines| format!("{lines:?}");
        for text in ["", "\n", "a", "a\n", "a\nb", "a\n\nb\n", "é\nü"] {
            for first in 0..4 {
                for limit in [None, Some(1), Some(2)] {
                    let cancel = CancellationToken::new();
                    let at_once = select(text.as_bytes(), first, limit, &cancel).unwrap();
                    let dripped = select(Drip(text.as_bytes()), first, limit, &cancel).unwrap();
                    assert_eq!(show(at_once), show(dripped), "{text:?} {first} {limit:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn image_is_returned_as_an_image_block() {
        let scratch = Scratch::new();
        scratch.write("dot.txt", image::tests::bmp(3, 2));
        let calls = [json!({"path": "dot.txt"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"dot.txt"}
            Read image file [image/png]
            [Image converted from image/bmp to image/png.]
            image image/png, 120 bytes of base64
        "#]]
        .assert_eq(&report);

        let mut cx = scratch.context();
        cx.sees_images = false;
        let arguments = json!({"path": "dot.txt"}).as_object().unwrap().clone();
        let output = tool().run(arguments, cx).await.unwrap();
        let Block::Text { text, .. } = &output.content[0] else { panic!("not text") };
        assert!(text.ends_with("\n[Current model does not support images. The image will be omitted from this request.]"));
    }

    #[tokio::test]
    async fn broken_image_is_left_out_with_a_note() {
        let scratch = Scratch::new();
        scratch.write("broken.png", b"\x89PNG\r\n\x1a\nnothing of use");
        let calls = [json!({"path": "broken.png"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"broken.png"}
            Read image file [image/png]
            [Image omitted: could not be resized below the inline image size limit.]
        "#]]
        .assert_eq(&report);
    }
}
