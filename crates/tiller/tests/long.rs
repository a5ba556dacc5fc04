//! A conversation of 5,000 turns in a context window of 32,768 tokens: compacted again and again,
//! it must always fit, and every request must be valid for a provider.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use serde_json::{Value, json};
use tiller_agent::message::{Message, StopReason, Usage, text_of};
use tiller_agent::model::Model;
use tiller_agent::provider::{
    EventStream, Provider, ProviderError, Request, StreamEvent, ToolSpec,
};
use tiller_agent::tool::{Tool, ToolOutput};
use tiller_config::credentials::Credentials;
use tiller_config::models::Models;
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_config::startup_model::ModelArgs;
use tiller_demo::script::Script;
use tiller_llm::CacheRetention;
use tiller_protocol::Level;
use tiller_server::ServerConfig;
use tiller_server::clock::Clock;
use tiller_server::connection::{Channels, ClientInput};
use tiller_server::conversation::Conversation;
use tiller_server::extensions::ExtensionPlan;
use tiller_server::lines::Line;
use tiller_server::out::pipe;
use tiller_server::server::{INPUTS_MAX, OnEof, serve};
use tiller_server::session_store::SessionStore;
use tiller_server::{ToolConfig, Workspace};
use tiller_session::{Durability, FileStore, Files, Owner, SessionId};
use tokio::sync::mpsc;

const WINDOW: u64 = 32_768;
const TURNS: u64 = 5000;
/// The number of turns of one run.
const TURNS_A_RUN: u64 = 125;

/// A strict model: it refuses what real ones refuse, and calls a tool in every turn.
#[derive(Default)]
struct StrictModel {
    turns: AtomicU64,
    summaries: AtomicU64,
    protocol_errors: Mutex<Vec<String>>,
    longest: AtomicU64,
}

impl Provider for StrictModel {
    fn stream(&self, request: Request) -> EventStream {
        let input = request.system.len() as u64 / 4 + size(&request.messages);
        self.longest.fetch_max(input, Ordering::Relaxed);
        let mut protocol_errors = protocol_errors(&request.messages);
        if input + request.model.max_tokens > WINDOW {
            protocol_errors.push(format!("{input} tokens do not fit"));
        }
        if !protocol_errors.is_empty() {
            let turn = self.turns.load(Ordering::Relaxed);
            self.protocol_errors
                .lock()
                .unwrap()
                .extend(protocol_errors.iter().map(|f| format!("turn {turn}: {f}")));
            return Box::pin(stream::iter([Err(ProviderError::fatal(protocol_errors.join("; ")))]));
        }
        if request.tools.is_empty() {
            let number = self.summaries.fetch_add(1, Ordering::Relaxed);
            let notes = format!("## Goal\nGo on.\n\n## Progress\n{}", "noted ".repeat(250));
            return answer(vec![text_block(&format!("{notes}{number}"))], input, StopReason::Stop);
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        if turn % TURNS_A_RUN == TURNS_A_RUN - 1 {
            return answer(vec![text_block("That is that.")], input, StopReason::Stop);
        }
        let lines = 1 + turn % 40;
        answer(vec![text_block("Once more."), call_block(turn, lines)], input, StopReason::ToolUse)
    }
}

fn text_block(text: &str) -> Vec<StreamEvent> {
    vec![
        StreamEvent::TextStart { index: 0 },
        StreamEvent::TextDelta { index: 0, delta: text.to_owned() },
        StreamEvent::TextEnd { index: 0, signature: None },
    ]
}

fn call_block(turn: u64, lines: u64) -> Vec<StreamEvent> {
    vec![
        StreamEvent::CallStart { index: 1, id: format!("call_{turn}"), name: "look".into() },
        StreamEvent::CallDelta { index: 1, delta: json!({"lines": lines}).to_string() },
        StreamEvent::CallEnd { index: 1, thought_signature: None },
    ]
}

fn answer(blocks: Vec<Vec<StreamEvent>>, input: u64, reason: StopReason) -> EventStream {
    let usage = Usage { input, output: 20, total_tokens: input + 20, ..Usage::default() };
    let mut events = vec![StreamEvent::Start];
    events.extend(blocks.into_iter().flatten());
    events.extend([StreamEvent::Usage(Box::new(usage)), StreamEvent::Done { reason, raw: None }]);
    Box::pin(stream::iter(events.into_iter().map(Ok)))
}

/// What a provider would refuse: a result without its call, a call without its result.
fn protocol_errors(messages: &[Arc<Message>]) -> Vec<String> {
    let mut protocol_errors = Vec::new();
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        match &**message {
            Message::ToolResult(result) if !open.remove(result.tool_call_id.as_str()) => {
                protocol_errors.push(format!("result without a call: {}", result.tool_call_id));
            }
            Message::ToolResult(_) => {}
            _ if !open.is_empty() => {
                protocol_errors.push(format!("calls without results: {open:?}"))
            }
            Message::Assistant(answer) => {
                open.extend(answer.tool_calls().map(|call| call.id.as_str()));
            }
            _ => {}
        }
    }
    if !messages.iter().any(|message| !matches!(**message, Message::Assistant(_))) {
        protocol_errors.push("nobody asked".to_owned());
    }
    protocol_errors
}

/// A token count independent of tiller's own.
fn size(messages: &[Arc<Message>]) -> u64 {
    let bytes = messages.iter().map(|message| match &**message {
        Message::User(user) => user.content.text().len(),
        Message::Assistant(answer) => text_of(&answer.content).len() + 40,
        Message::ToolResult(result) => text_of(&result.content).len(),
        Message::CompactionSummary(summary) => summary.summary.len(),
        _ => 0,
    });
    bytes.sum::<usize>() as u64 / 4 + 10 * messages.len() as u64
}

fn look() -> Tool {
    let parameters = json!({"type": "object", "properties": {"lines": {"type": "number"}}});
    let spec = ToolSpec { name: "look".into(), description: "Look.".into(), parameters };
    Tool::new(spec, |arguments, _| async move {
        let lines = arguments["lines"].as_u64().unwrap_or(1) as usize;
        Ok(ToolOutput::text("a line of text as tools find them in files\n".repeat(lines)))
    })
}

fn launch(folder: &std::path::Path, model: Arc<StrictModel>) -> ServerConfig {
    let home = folder.to_owned();
    let dirs = Dirs { cwd: home.clone(), agent_dir: home.join(".pi/agent"), home: Some(home) };
    let place = Project::find(dirs, ResourceFlags::default());
    let settings = place.settings();
    let mut models = Models::new(Credentials::default(), &settings, CacheRetention::Short);
    let small = Model { context_window: WINDOW, max_tokens: 4096, ..Script::model() };
    models.add_builtin(small, model);
    let model = Some(models.resolve(None, "tiller/script").unwrap().model);
    let owner = Owner {
        program: "tiller".into(),
        pid: 1,
        host: "here".into(),
        started: "".into(),
        address: None,
    };
    let (root, files) = (folder.join(".sessions"), Files::default());
    let store = SessionStore::files(FileStore { root, chosen: None, owner, files });
    let session = store.begin(SessionId::read("long").unwrap(), folder, None, 0);
    ServerConfig {
        level: Level::PiDelta,
        on_eof: OnEof::Abort,
        thinking: settings.default_thinking_level,
        models,
        model,
        choice: ModelArgs::named("tiller/script"),
        workspace: Workspace::new(folder.to_owned(), Arc::new([]), &settings),
        tools: ToolConfig { active: vec![look()], ..ToolConfig::default() },
        settings,
        project: place,
        extension_plan: ExtensionPlan::default(),
        shows_titles: true,
        conversation: Conversation::new(session, Durability::Os),
        store,
        clock: Clock::From { start: 0, since: tokio::time::Instant::now() },
        limits: Default::default(),
        mcp: Default::default(),
        asks_client: true,
        diagnostics: Vec::new(),
    }
}

/// The records up to the end of a run, without message updates.
async fn run(
    lines: &mpsc::Sender<ClientInput>,
    drain: &mut tiller_server::out::Drain,
) -> Vec<Value> {
    let prompt = json!({"type": "prompt", "message": "Look again, until I say stop."});
    let line = Line::Text(prompt.to_string().into_bytes());
    lines.send(ClientInput::Lines(vec![line])).await.unwrap();
    let mut records = Vec::new();
    let mut text = Vec::new();
    loop {
        let chunk = drain.next().await.unwrap();
        drain.wrote(chunk.len());
        text.extend(chunk);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let record: Value = serde_json::from_slice(&line).unwrap();
            match record["type"].as_str().unwrap() {
                "agent_settled" => return records,
                "message_update" => {}
                _ => records.push(record),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn five_thousand_turns_in_a_small_window() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(StrictModel::default());
    let (lines, lines_receiver) = mpsc::channel(INPUTS_MAX);
    let (_control, control) = mpsc::channel(INPUTS_MAX);
    let (pipe, mut drain, caught_up) = pipe();
    let channels = Channels { lines: lines_receiver, control, pipe, caught_up };
    let server = tokio::spawn(serve(launch(folder.path(), model.clone()), channels));

    let mut compactions = 0;
    for _ in 0..TURNS / TURNS_A_RUN {
        let records = run(&lines, &mut drain).await;
        let count = |kind: &str| records.iter().filter(|record| record["type"] == kind).count();
        assert_eq!(count("compaction_start"), count("compaction_end"));
        assert_eq!(
            count("turn_start") as u64,
            TURNS_A_RUN,
            "{:?}",
            model.protocol_errors.lock().unwrap()
        );
        let failed = records.iter().find(|record| record.get("errorMessage").is_some());
        assert_eq!(failed, None);
        compactions += count("compaction_end");
    }
    assert_eq!(model.turns.load(Ordering::Relaxed), TURNS);
    assert!(model.protocol_errors.lock().unwrap().is_empty());
    let longest = model.longest.load(Ordering::Relaxed);
    assert!(longest < WINDOW, "a request had {longest} tokens");
    // Compacted when necessary, and not all the time.
    assert!((50..500).contains(&compactions), "{compactions} compactions");

    lines.send(ClientInput::EndOfInput).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), server).await.unwrap();
    assert_eq!(ended.unwrap(), 0);
}
