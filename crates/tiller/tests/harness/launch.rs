//! The server's start-up configuration, from the options of a transcript.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tiller_agent::limits::Limits;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::Provider;
use tiller_config::credentials::Credentials;
use tiller_config::models::Models;
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_config::startup_model::ModelArgs;
use tiller_demo::script::Script;
use tiller_js::EngineClock;
use tiller_llm::CacheRetention;
use tiller_protocol::Level;
use tiller_server::ServerConfig;
use tiller_server::clock::Clock;
use tiller_server::conversation::Conversation;
use tiller_server::extensions::flags::{ExtensionFlag, ExtensionFlags};
use tiller_server::extensions::{ExtensionEnv, ExtensionPlan};
use tiller_server::server::OnEof;
use tiller_server::session_store::SessionStore;
use tiller_server::{McpOptions, ToolConfig, Workspace};
use tiller_session::{Durability, FileStore, Files, Owner, SessionId};
use tokio::time::Instant;

use super::tools;
use super::transcript::Transcript;

/// When every conversation begins.
const START: u64 = 1_700_000_000_000;

/// `database` is where sessions are stored in place of files.
pub fn launch(
    transcript: &Transcript,
    folder: &TempDir,
    model: Arc<dyn Provider>,
    files: Files,
    database: Option<SessionStore>,
) -> Result<ServerConfig, String> {
    let option = |name: &str| transcript.options.get(name).map(String::as_str);
    let level = match option("wire") {
        None | Some("pi") => Level::Pi,
        Some("pi-delta" | "pi@1") => Level::PiDelta,
        Some("xcsh") => Level::Xcsh,
        Some(other) => return Err(format!("{other} is no wire level")),
    };
    let on_eof = if option("on-eof") == Some("finish") { OnEof::Finish } else { OnEof::Abort };
    let diagnostics: Vec<String> = option("diagnostic").map(str::to_owned).into_iter().collect();
    let place = place(transcript, folder)?;
    let settings = place.settings();
    let mut models = Models::new(Credentials::default(), &settings, CacheRetention::Short);
    for described in scripted_models() {
        models.add_builtin(described, model.clone());
    }
    let (chosen, choice) = match option("model") {
        Some("none") => (None, ModelArgs::default()),
        Some("default") => (models.default_model(&settings), ModelArgs::default()),
        pattern => {
            let pattern = pattern.unwrap_or("tiller/script");
            (Some(models.resolve(None, pattern)?.model), ModelArgs::named(pattern))
        }
    };
    let known = tiller_tools::builtin().into_iter().chain(tools::all());
    let names: Vec<&str> = option("tools").unwrap_or("read ls").split(' ').collect();
    let tools = known.filter(|tool| names.contains(&tool.name())).collect();
    let todo_tool = option("tools").map(|_| names.contains(&"todo_write"));
    // Sessions are stored if a transcript says so, outside the tools' folder.
    let owner = owner();
    let root = folder.path().join(".sessions");
    let mut store = SessionStore::files(FileStore { root, chosen: None, owner, files });
    store.persists = option("sessions") == Some("kept");
    if let Some(database) = database {
        store = database;
    }
    let extension_plan = match option("extensions") {
        Some(paths) => extension_plan(&place, paths, option("flags"), folder),
        None => ExtensionPlan::default(),
    };
    // No delay for disk writes unless a transcript asks for one.
    let durability = if settings.raw.contains_key("session") {
        settings.session.durability
    } else {
        Durability::Os
    };
    let id = SessionId::read("the-session").unwrap();
    let cwd = project_folder(transcript, folder);
    let session = store.begin(id, &cwd, None, START);
    Ok(ServerConfig {
        level,
        on_eof,
        thinking: settings.default_thinking_level,
        models,
        model: chosen,
        choice,
        workspace: Workspace::new(cwd, Arc::new([]), &settings),
        tools: ToolConfig { active: tools, todo_tool, ..ToolConfig::default() },
        mcp: McpOptions { holds_clock: true, ..McpOptions::default() },
        limits: Limits::default(),
        asks_client: option("asks-client") != Some("no"),
        settings,
        project: place,
        extension_plan,
        shows_titles: true,
        conversation: Conversation::new(session, durability),
        store,
        clock: Clock::From { start: START, since: Instant::now() },
        diagnostics,
    })
}

/// The process under test.
pub fn owner() -> Owner {
    Owner {
        program: "tiller".into(),
        pid: 1,
        host: "here".into(),
        started: "2023-11-14T22:13:20.000Z".into(),
        address: None,
    }
}

/// Loads the extensions of a transcript in engines of this process, with the paused clock.
fn extension_plan(
    place: &Project,
    paths: &str,
    typed: Option<&str>,
    folder: &TempDir,
) -> ExtensionPlan {
    let (discovered, paths): (Vec<&str>, Vec<&str>) =
        paths.split(' ').partition(|path| *path == "discovered");
    let typed = typed.into_iter().flat_map(|typed| typed.split(' '));
    let unknown_flags = typed.map(|flag| match flag.split_once('=') {
        Some((name, value)) => ExtensionFlag { name: name.into(), value: Some(value.into()) },
        None => ExtensionFlag { name: flag.into(), value: None },
    });
    let flags = ExtensionFlags {
        paths: paths.into_iter().map(str::to_owned).collect(),
        only_these: discovered.is_empty(),
        unknown_flags: unknown_flags.collect(),
        ..ExtensionFlags::default()
    };
    let home = folder.path().to_owned();
    let around = ExtensionEnv {
        agent_dir: home.join(".pi/agent"),
        home_dir: home,
        mode: "rpc",
        has_ui: true,
        variables: Arc::default(),
        sidecars: false,
        clock: EngineClock::Runtime,
        exec_path: PathBuf::new(),
        hook_observer: None,
    };
    ExtensionPlan::find(place, flags, around)
}

/// Three models, all played by the transcript: a common one, one without thinking and images, and
/// one with only some thinking levels and `xhigh`.
fn scripted_models() -> [Model; 3] {
    let script = Script::model();
    let input = vec![tiller_agent::model::Modality::Text];
    let plain = Model { id: "plain".into(), reasoning: false, input, ..script.clone() };
    let levels = [
        (ThinkingLevel::Minimal, None),
        (ThinkingLevel::Low, None),
        (ThinkingLevel::Xhigh, Some("extra".to_owned())),
    ];
    let thinking_level_map = Some(BTreeMap::from(levels));
    let deep = Model { id: "deep".into(), thinking_level_map, ..script.clone() };
    [script, plain, deep]
}

/// The scratch folder is both the user's home and, unless a transcript names a `folder`, the
/// project: `.pi/agent` is the agent folder, the rest of `.pi` is the project's, and it is trusted
/// unless a transcript says `trust no` or `trust unknown`.
fn place(transcript: &Transcript, folder: &TempDir) -> Result<Project, String> {
    let option = |name: &str| transcript.options.get(name).map(String::as_str);
    let home = folder.path().to_owned();
    let agent_dir = home.join(".pi/agent");
    if let Some(text) = option("settings") {
        std::fs::create_dir_all(&agent_dir).unwrap();
        std::fs::write(agent_dir.join("settings.json"), text).unwrap();
    }
    let approve = match option("trust") {
        None | Some("yes") => Some(true),
        Some("no") => Some(false),
        Some("unknown") => None,
        Some(other) => return Err(format!("{other} is no trust")),
    };
    let dirs = Dirs { cwd: project_folder(transcript, folder), agent_dir, home: Some(home) };
    Ok(Project::find(dirs, ResourceFlags { approve, ..ResourceFlags::default() }))
}

fn project_folder(transcript: &Transcript, folder: &TempDir) -> PathBuf {
    match transcript.options.get("folder") {
        Some(name) => folder.path().join(name),
        None => folder.path().to_owned(),
    }
}
