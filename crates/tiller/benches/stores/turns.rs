//! A prompt of many turns with a call each, through the whole server: commands, agent, tool, session
//! and records. The model answers at once, so the time is tiller's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tiller_config::credentials::Credentials;
use tiller_config::models::Models;
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_demo::script::{Script, ScriptProvider};
use tiller_llm::CacheRetention;
use tiller_protocol::{Command, Prompt, Record};
use tiller_server::conversation::Conversation;
use tiller_server::session_store::SessionStore;
use tiller_server::{ServerConfig, SessionHandle};
use tiller_session::{Durability, SessionId};

use crate::Bench;
use crate::figures::{Table, Times, ms, ms_each};
use crate::place::{Kind, NOW, POSTGRES, Place, SYNCED_FILES};
use crate::usage::Cpu;

/// The default of the setting `session.durability`.
const DEFAULT_FILES: Kind = Kind::Files(Durability::Run);

struct Rounds {
    place: Place,
    /// Of each round, each turn.
    turns: Vec<Vec<Duration>>,
    prompts: Vec<Duration>,
    own: Duration,
    server: Duration,
}

pub fn measure(bench: &Bench) -> String {
    let new = |kind| Rounds {
        place: Place::new(bench, kind),
        turns: Vec::new(),
        prompts: Vec::new(),
        own: Duration::ZERO,
        server: Duration::ZERO,
    };
    let mut all = [DEFAULT_FILES, SYNCED_FILES, POSTGRES].map(new);
    for _ in 0..bench.sizes.rounds {
        // In turn, so that other work on this machine affects all of them.
        for rounds in &mut all {
            let cpu = Cpu::now(bench);
            let (prompt, turns) = bench.runtime.block_on(run(&rounds.place, bench.sizes.turns));
            let cpu = Cpu::now(bench).since(cpu);
            rounds.prompts.push(prompt);
            rounds.turns.push(turns);
            rounds.own += cpu.own;
            rounds.server += cpu.server;
        }
    }
    let part = (bench.sizes.turns / 4).max(1);
    let mut table = Table::new(&[
        &format!("{} turns, a call each", bench.sizes.turns),
        "time",
        "a turn: median",
        "p99",
        &format!("first {part}"),
        &format!("last {part}"),
        "CPU of tiller each",
        "CPU of PostgreSQL each",
    ]);
    for Rounds { place, turns, prompts, own, server } in all {
        let count = turns.iter().map(Vec::len).sum();
        let first = turns.iter().flat_map(|round| &round[..part]).copied();
        let last = turns.iter().flat_map(|round| &round[round.len() - part..]).copied();
        let times = Times::of(turns.iter().flatten().copied());
        table.row(&[
            place.kind.name(),
            ms(Times::of(prompts).median()),
            ms(times.median()),
            ms(times.percentile(99)),
            ms(Times::of(first).median()),
            ms(Times::of(last).median()),
            ms_each(own, count),
            ms_each(server, count),
        ]);
        place.close();
    }
    table.text()
}

/// Runs the prompt in a new session. Returns its time and that of each turn.
async fn run(place: &Place, turns: usize) -> (Duration, Vec<Duration>) {
    std::fs::write(place.cwd.join("notes.txt"), "The tide turns at noon.\n".repeat(40))
        .expect("a file can be written");
    let mut server = SessionHandle::start(config(place, turns));
    let message = "Read the notes again and again.".to_owned();
    let begin = Instant::now();
    let prompt = Command::Prompt(Prompt { message, ..Prompt::default() });
    server.send(&prompt).await.expect("the session is open");
    let (mut times, mut since) = (Vec::new(), begin);
    loop {
        match server.next().await.expect("the session is open") {
            Record::TurnEnd { tool_results, .. } => {
                // The last turn has no call.
                if !tool_results.is_empty() {
                    times.push(since.elapsed());
                }
                since = Instant::now();
            }
            Record::AgentSettled { .. } => break,
            Record::SessionError { error } => panic!("the session has failed: {error}"),
            _ => {}
        }
    }
    let time = begin.elapsed();
    assert_eq!(times.len(), turns, "a turn is missing");
    assert_eq!(server.close().await, 0);
    (time, times)
}

fn config(place: &Place, turns: usize) -> ServerConfig {
    let agent_dir = place.cwd.join("agent");
    let dirs = Dirs { cwd: place.cwd.clone(), agent_dir, home: None };
    let project = Project::find(dirs, ResourceFlags::default());
    let mut models =
        Models::new(Credentials::default(), &project.settings(), CacheRetention::Short);
    // With token counts, as real models report them: otherwise all messages are estimated in each
    // turn.
    let answer = "call read {\"path\": \"notes.txt\"}\nusage input=1200 output=25\n\n";
    let answers = answer.repeat(turns) + "say Done.\n";
    let script = Script::parse(&answers).expect("the script is valid");
    models.add_builtin(Script::model(), ScriptProvider::new(script));
    let mut config = ServerConfig::new(project, models, Arc::new(Script::model()));
    config.store = SessionStore::new(place.store.clone());
    let session = config.store.begin(SessionId::fresh(), &place.cwd, None, NOW);
    config.conversation = Conversation::new(session, place.durability());
    config
}
