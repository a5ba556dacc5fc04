//! Whole conversations with the demo, with three files.

mod streams;

use std::collections::BTreeMap;
use std::time::Duration;

use expect_test::{Expect, expect};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tiller_agent::message::{Block, Content, CustomMessage, Message, ToolCall};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::{Provider, ProviderError, Request, StreamEvent, ToolSpec};
use tokio::time::Instant;

use super::Demo;
use crate::script::testing::{assistant, printed, request, result, tool, user};

/// Files, and tools that respond like tiller's own.
struct World {
    files: BTreeMap<&'static str, &'static str>,
    tools: Vec<ToolSpec>,
}

const ALL_TOOLS: [&str; 8] = ["read", "bash", "edit", "write", "grep", "find", "ls", "weather"];

fn world(tools: &[&str]) -> World {
    let files = BTreeMap::from([
        ("Cargo.toml", "[package]\nname = \"boat\"\n\n[dependencies]\n"),
        ("README.md", "# Boat\n\nA boat that\nfloats.\n\n## Building\n\n## Sailing\n"),
        ("src/main.rs", "fn main() {}\n\npub struct Mast;\n"),
        ("twice.txt", "foo one\nfoo two\nbar\nbar\n"),
    ]);
    World { files, tools: tools.iter().map(|name| tool(name)).collect() }
}

impl World {
    fn run(&self, call: &ToolCall) -> Result<String, String> {
        let argument = |name: &str| call.arguments.get(name).and_then(Value::as_str).unwrap_or("");
        let path = argument("path");
        let file = self.files.get(path);
        match call.name.as_str() {
            "ls" if file.is_some() => Err(format!("Not a directory: /w/{path}")),
            "ls" if path == "." => Ok("Cargo.toml\nREADME.md\nsrc/\ntwice.txt".into()),
            "ls" if path == "src" => Ok("main.rs".into()),
            "ls" => Err(format!("Path not found: /w/{path}")),
            "find" if argument("pattern") == "*" => Ok("src/\nsrc/main.rs\nREADME.md".into()),
            "find" => Ok("src/main.rs".into()),
            "read" if path == "src" => Err("EISDIR: illegal operation on a directory, read".into()),
            "read" => file
                .map(|text| text.to_string())
                .ok_or_else(|| format!("ENOENT: no such file or directory, access '/w/{path}'")),
            "bash" => match argument("command") {
                "false" => Err("(no output)\n\nCommand exited with code 1".into()),
                "true" => Ok("(no output)".into()),
                command if command.starts_with("ls") => Ok("src/\nREADME.md".into()),
                command if command.starts_with("grep") => {
                    Err("\n\nCommand exited with code 1".into())
                }
                command => Ok(format!("ran {command}\n")),
            },
            "write" => Ok(format!("Successfully wrote to {path}")),
            "edit" => Ok(format!("Successfully replaced 1 block(s) in {path}.")),
            "grep" if argument("pattern") == "nothing" => Ok("No matches found".into()),
            "grep" => Ok("src/main.rs:1: fn main() {}".into()),
            _ => Ok("sunny".into()),
        }
    }

    fn request(&self, messages: &[Message]) -> Request {
        Request { tools: self.tools.clone().into(), ..request(messages.to_vec()) }
    }
}

/// Collects one answer.
async fn ask(request: Request) -> (Vec<Block>, Vec<ToolCall>) {
    let mut stream = Demo::default().stream(request);
    let (mut blocks, mut calls): (Vec<Block>, Vec<ToolCall>) = Default::default();
    let mut json = String::new();
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            StreamEvent::TextStart { .. } => blocks.push(Block::text("")),
            StreamEvent::TextDelta { delta, .. } => match blocks.last_mut() {
                Some(Block::Text { text, .. }) => text.push_str(&delta),
                other => panic!("text in {other:?}"),
            },
            StreamEvent::CallStart { id, name, .. } => {
                json.clear();
                let arguments = Default::default();
                calls.push(ToolCall {
                    id,
                    name,
                    arguments,
                    arguments_error: None,
                    thought_signature: None,
                });
            }
            StreamEvent::CallDelta { delta, .. } => json.push_str(&delta),
            StreamEvent::CallEnd { .. } => {
                let call = calls.last_mut().unwrap();
                call.arguments = serde_json::from_str(&json).unwrap();
                blocks.push(Block::ToolCall(call.clone()));
            }
            _ => (),
        }
    }
    (blocks, calls)
}

/// Asks the questions one after the other and prints the answers.
async fn converse(world: &World, questions: &[&str]) -> String {
    let mut messages = Vec::new();
    let mut out = String::new();
    for question in questions {
        out.push_str(&format!("> {question}\n"));
        messages.push(user(question));
        loop {
            let (blocks, calls) = ask(world.request(&messages)).await;
            for block in &blocks {
                match block {
                    Block::Text { text, .. } => out.push_str(&format!("{text}\n")),
                    Block::ToolCall(call) => {
                        let arguments = serde_json::to_string(&call.arguments).unwrap();
                        out.push_str(&format!("  {} {} {arguments}\n", call.id, call.name));
                    }
                    _ => (),
                }
            }
            messages.push(assistant(blocks));
            for call in &calls {
                let (text, is_error) = match world.run(call) {
                    Ok(text) => (text, false),
                    Err(text) => (text, true),
                };
                messages.push(result(&call.id, &call.name, &text, is_error));
            }
            if calls.is_empty() {
                break;
            }
        }
    }
    out
}

async fn check(tools: &[&str], questions: &[&str], expected: Expect) {
    expected.assert_eq(&converse(&world(tools), questions).await);
}

#[tokio::test]
async fn reads_before_it_answers() {
    check(
        &ALL_TOOLS,
        &[
            "What is in this folder?",
            "What is this project about?",
            "Read README.md and summarise it",
            "what is in src?",
            "list the files, then read src/main.rs",
        ],
        expect![[r#"
            > What is in this folder?
            Let me look at this folder.
              demo_1 ls {"path":"."}
            This folder holds 1 folder and 3 files:

            - `Cargo.toml`
            - `README.md`
            - `src/`
            - `twice.txt`
            > What is this project about?
            Let me look at this folder.
              demo_2 ls {"path":"."}
            I will read `README.md` and `Cargo.toml`.
              demo_3 read {"path":"README.md"}
              demo_4 read {"path":"Cargo.toml"}
            `README.md` is a Markdown document of 8 lines. Its title is **Boat**. It has 2 sections: Building, Sailing. It says first:

            > A boat that floats.

            `Cargo.toml` is a TOML file of 4 lines. It has 2 sections: package, dependencies. Its name is "boat".

            The rest is in `src/`.
            > Read README.md and summarise it
            I will read `README.md`.
              demo_5 read {"path":"README.md"}
            `README.md` is a Markdown document of 8 lines. Its title is **Boat**. It has 2 sections: Building, Sailing. It says first:

            > A boat that floats.
            > what is in src?
            Let me look at `src`.
              demo_6 ls {"path":"src"}
            `src` holds 1 file:

            - `main.rs`
            > list the files, then read src/main.rs
            Let me look at this folder.
              demo_7 ls {"path":"."}
            I will read `src/main.rs`.
              demo_8 read {"path":"src/main.rs"}
            This folder holds 1 folder and 3 files:

            - `Cargo.toml`
            - `README.md`
            - `src/`
            - `twice.txt`

            `src/main.rs` is a Rust source file of 3 lines. It has 2 definitions: main, Mast.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn uses_only_available_tools() {
    check(
        &["bash"],
        &["What is in this folder?", "read README.md", "search for TODO"],
        expect![[r#"
            > What is in this folder?
            I will run `ls -1Ap`.
              demo_1 bash {"command":"ls -1Ap"}
            This folder holds 1 folder and 1 file:

            - `src/`
            - `README.md`
            > read README.md
            I will run `cat README.md`.
              demo_2 bash {"command":"cat README.md"}
            `README.md` is a Markdown document of 1 line. It says first:

            > ran cat README.md
            > search for TODO
            I will run `grep -rnF -e TODO .`.
              demo_3 bash {"command":"grep -rnF -e TODO ."}
            I found no `TODO` in this folder.
        "#]],
    )
    .await;
    check(
        &["find"],
        &["What is in this folder?"],
        expect![[r#"
            > What is in this folder?
            Let me look for `*`.
              demo_1 find {"pattern":"*","path":"."}
            This folder holds 1 folder and 1 file:

            - `README.md`
            - `src/`
        "#]],
    )
    .await;
    check(
        &["read"],
        &["What is in this folder?", "run `ls`"],
        expect![[r#"
        > What is in this folder?
        For that I would need one of the tools `ls`, `find` and `bash`, but I have only `read`.
        > run `ls`
        For that I would need the tool `bash`, but I have only `read`.
    "#]],
    )
    .await;
    check(
        &[],
        &["write hello to notes.txt", "call weather {}"],
        expect![[r#"
        > write hello to notes.txt
        For that I would need the tool `write`, but I have been given no tools at all.
        > call weather {}
        For that I would need the tool `weather`, but I have been given no tools at all.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn changes_files() {
    check(
        &ALL_TOOLS,
        &[
            "create a file hello.txt with the text hi",
            "replace boat with ship in Cargo.toml",
            "replace foo with baz in twice.txt",
            "replace bar with baz in it",
            "replace nothing with everything in it",
            "create a folder out",
        ],
        expect![[r#"
            > create a file hello.txt with the text hi
            I will write `hello.txt`.
              demo_1 write {"path":"hello.txt","content":"hi"}
            Done: `hello.txt` now holds 1 line.
            > replace boat with ship in Cargo.toml
            I will read `Cargo.toml`.
              demo_2 read {"path":"Cargo.toml"}
            I will edit `Cargo.toml`.
              demo_3 edit {"path":"Cargo.toml","edits":[{"oldText":"boat","newText":"ship"}]}
            Done: in `Cargo.toml`, `boat` is now `ship`.
            > replace foo with baz in twice.txt
            I will read `twice.txt`.
              demo_4 read {"path":"twice.txt"}
            I will edit `twice.txt`.
              demo_5 edit {"path":"twice.txt","edits":[{"oldText":"foo one","newText":"baz one"},{"oldText":"foo two","newText":"baz two"}]}
            Done: in `twice.txt`, `foo` is now `baz`.
            > replace bar with baz in it
            I will read `twice.txt`.
              demo_6 read {"path":"twice.txt"}
            `bar` stands in `twice.txt` 2 times, in lines I cannot tell apart. Give me a longer piece of text, so that I know which one you mean.
            > replace nothing with everything in it
            I will read `twice.txt`.
              demo_7 read {"path":"twice.txt"}
            `twice.txt` does not contain `nothing`, so I left it as it is.
            > create a folder out
            I will run `mkdir -p out`.
              demo_8 bash {"command":"mkdir -p out"}
            Done: there is a folder `out` now.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn reports_failed_tools() {
    check(
        &ALL_TOOLS,
        &[
            "read REDME.md",
            "read src",
            "what is in README.md/",
            "what is in lib",
            "run `false`",
            "run `true`",
            "search for nothing",
            "read a.txt and README.md",
        ],
        expect![[r#"
            > read REDME.md
            I will read `REDME.md`.
              demo_1 read {"path":"REDME.md"}
            Let me look at this folder.
              demo_2 ls {"path":"."}
            I could not read `REDME.md`. The tool says:

            ```
            ENOENT: no such file or directory, access '/w/REDME.md'
            ```

            There is a `README.md`, though. Did you mean that?
            > read src
            I will read `src`.
              demo_3 read {"path":"src"}
            Let me look at `src`.
              demo_4 ls {"path":"src"}
            `src` holds 1 file:

            - `main.rs`
            > what is in README.md/
            Let me look at `README.md/`.
              demo_5 ls {"path":"README.md/"}
            I could not look into `README.md/`. The tool says:

            ```
            Path not found: /w/README.md/
            ```
            > what is in lib
            Let me look at `lib`.
              demo_6 ls {"path":"lib"}
            I could not look into `lib`. The tool says:

            ```
            Path not found: /w/lib
            ```
            > run `false`
            I will run `false`.
              demo_7 bash {"command":"false"}
            `false` failed:

            ```
            (no output)

            Command exited with code 1
            ```
            > run `true`
            I will run `true`.
              demo_8 bash {"command":"true"}
            `true` went well and printed nothing.
            > search for nothing
            I will search for `nothing`.
              demo_9 grep {"pattern":"nothing","path":".","literal":true}
            I found no `nothing` in this folder.
            > read a.txt and README.md
            I will read `a.txt` and `README.md`.
              demo_10 read {"path":"a.txt"}
              demo_11 read {"path":"README.md"}
            I could not read `a.txt`. The tool says:

            ```
            ENOENT: no such file or directory, access '/w/a.txt'
            ```

            `README.md` is a Markdown document of 8 lines. Its title is **Boat**. It has 2 sections: Building, Sailing. It says first:

            > A boat that floats.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn answers_without_tools() {
    check(
        &["weather"],
        &["Hi!", "what is 6 * 7?", "1/0", "count to 5", "use the weather tool", "delete a.txt", "thanks", "Why is the sky blue?"],
        expect![[r#"
            > Hi!
            Hello! I am tiller's demo model. Ask me what is in this folder, to read a file or to run a command; say "help" for more.
            > what is 6 * 7?
            6 * 7 = **42**
            > 1/0
            1/0 has no finite value.
            > count to 5
            1, 2, 3, 4, 5.
            > use the weather tool
            I will call `weather`.
              demo_1 weather {}
            `weather` answered:

            ```
            sunny
            ```
            > delete a.txt
            I would rather not delete `a.txt` on my own reading of a sentence. If you are sure, say: run `rm a.txt`
            > thanks
            You are welcome. What next?
            > Why is the sky blue?
            I did not understand that; I am only a small demo.

            I am **tiller's demo model**. I live inside tiller, need no key and no network, and answer the same question the same way every time. I cannot reason like a real model, but I really use the tools, so you can see how everything fits together.

            Try one of these:

            - What is in this folder?
            - Read README.md and summarise it
            - What is this project about?
            - Run `git status`
            - Create a file hello.txt with the text hi
            - Replace hi with hello in hello.txt
            - Search for TODO in src
            - Find all Markdown files
            - Call a tool of yours by its name: `call my_tool {"key": "value"}`
            - What is 12 * (3 + 4)?
            - Count to 100, or tell me a story (something long to watch or to stop)

            You can ask for several things at once: "list the files, then read README.md".
        "#]],
    )
    .await;
}
