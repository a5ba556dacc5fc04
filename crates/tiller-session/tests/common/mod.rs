//! Shared test helpers: sessions to begin with, and a way to print one.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use tiller_agent::message::{Block, Content, Message};
use tiller_session::{Body, Files, NewSession, Owner, Problem, Session, SessionId, Stats, Storage};

pub const NOW: u64 = 1_794_775_156_762;

pub fn owner() -> Owner {
    Owner {
        program: "tiller test".into(),
        pid: std::process::id(),
        host: "here".into(),
        started: "2026-11-15T20:00:00.000Z".into(),
        address: None,
    }
}

/// The owner that the process with this number is. All but the first can be reached by clients.
pub fn owner_of(process: usize) -> Owner {
    let address = (process > 0).then(|| format!("tcp://127.0.0.1:{}", 7000 + process));
    Owner { program: format!("tiller {process}"), address, ..owner() }
}

pub fn new_session() -> NewSession {
    NewSession { id: SessionId::fresh(), cwd: "/work".into(), parent_session: None, now: NOW }
}

pub fn begin(dir: &Path) -> Session {
    Session::new(new_session(), in_dir(dir))
}

pub fn in_dir(dir: &Path) -> Storage {
    Storage::Folder { dir: dir.to_owned(), owner: owner(), files: Files::default() }
}

pub fn say(session: &mut Session, text: &str) -> String {
    session.append(user(text), NOW).unwrap()
}

pub fn user(text: &str) -> Body {
    Body::message(Message::user(text, Vec::new(), NOW))
}

pub fn answer(text: &str) -> Body {
    let text = serde_json::to_string(text).unwrap();
    let line = format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":{text}}}],"api":"a","provider":"p","model":"m","usage":{{"input":3,"output":2,"totalTokens":5,"cost":{{"total":0.5}}}},"stopReason":"stop","timestamp":1}}"#
    );
    Body::message(serde_json::from_str(&line).unwrap())
}

/// The context, one line per message.
pub fn show_context(session: &Session) -> String {
    let context = session.context().unwrap();
    let mut lines: Vec<String> =
        context.messages.iter().map(|item| show_message(&item.message)).collect();
    lines
        .extend(context.unreadable.iter().map(|(id, reason)| format!("unreadable {id}: {reason}")));
    assert_eq!(session.context_len(), context.messages.len() + context.unreadable.len());
    lines.join("\n") + "\n"
}

pub fn show_message(message: &Message) -> String {
    match message {
        Message::User(user) => format!("user {}", show_content(&user.content)),
        Message::Assistant(assistant) => {
            let stop = format!("{:?}", assistant.stop_reason).to_lowercase();
            format!("assistant {} [{stop}]", show_blocks(&assistant.content))
        }
        Message::ToolResult(result) => {
            let outcome = if result.is_error { "failed" } else { "ok" };
            format!("result {} {outcome} {}", result.tool_name, show_blocks(&result.content))
        }
        Message::BashExecution(bash) => format!("bash {:?} {:?}", bash.command, bash.output),
        Message::Custom(custom) => {
            format!("custom {} {}", custom.custom_type, show_content(&custom.content))
        }
        Message::BranchSummary(branch) => format!("branch {:?}", branch.summary),
        Message::CompactionSummary(compaction) => {
            format!("summary {:?} of {} tokens", compaction.summary, compaction.tokens_before)
        }
    }
}

fn show_content(content: &Content) -> String {
    match content {
        Content::Text(text) => format!("{text:?}"),
        Content::Blocks(blocks) => show_blocks(blocks),
    }
}

fn show_blocks(blocks: &[Block]) -> String {
    let shown = blocks.iter().map(|block| match block {
        Block::Text { text, .. } => format!("{text:?}"),
        Block::Image { mime_type, data } => format!("<{mime_type}, {} bytes>", data.len()),
        Block::Thinking { thinking, .. } => format!("({thinking})"),
        Block::ToolCall(call) => {
            format!("{}({})", call.name, serde_json::to_string(&call.arguments).unwrap())
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Everything about a session that is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub id: String,
    pub name: Option<String>,
    pub leaf: Option<String>,
    pub entries: String,
    pub tree: String,
    pub messages: String,
    pub context_len: usize,
    pub stats: Stats,
}

pub fn snapshot(session: &Session) -> Snapshot {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde::de::IgnoredAny>(&text).expect("an answer is JSON");
        text
    };
    Snapshot {
        id: session.id().to_owned(),
        name: session.name().map(str::to_owned),
        leaf: session.leaf().map(str::to_owned),
        entries: written(&|out| session.write_entries(None, out).unwrap()),
        tree: written(&|out| session.write_tree(out).unwrap()),
        messages: written(&|out| session.write_messages(out).unwrap()),
        context_len: session.context_len(),
        stats: session.stats().clone(),
    }
}

/// The ids of all entries, in the order of their lines.
pub fn ids(session: &Session) -> Vec<String> {
    let outline = session.outline();
    (0..outline.len()).map(|number| outline.id(number).to_owned()).collect()
}

/// The header and the line of every entry.
pub fn lines_of(session: &Session) -> Vec<String> {
    let mut lines = vec![session.header().line()];
    let mut outline = session.outline();
    for number in 0..outline.len() {
        lines.push(outline.line(number).unwrap().into_owned());
    }
    lines
}

pub fn reopen(path: &Path) -> Session {
    Session::open(path, owner()).unwrap()
}

pub fn show_problems(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// A small random generator with a fixed seed, so that a failure can be repeated.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
