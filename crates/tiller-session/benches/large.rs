//! Measures large sessions: `cargo bench -p tiller-session`.
//!
//! Not a test: nothing here fails for being slow. Sizes can be passed as in `cargo bench -p
//! tiller-session -- 2000000 1000`: entries and megabytes.

#[path = "large/conversation.rs"]
mod conversation;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conversation::generate;
use tiller_agent::message::Message;
use tiller_session::list::{self, ListQuery, Scope};
use tiller_session::paths;
use tiller_session::{Body, Files, Owner, Session, SessionId, Storage};

const NOW: u64 = 1_794_775_156_762;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let dir = tempfile::tempdir()?;
    if let (Some(entries), Some(megabytes)) = (numbers.next(), numbers.next()) {
        return large_file(dir.path(), entries, megabytes);
    }
    for (entries, megabytes) in [(10_000, 6), (100_000, 56), (100_000, 128)] {
        large_file(dir.path(), entries, megabytes)?;
    }
    many_files(dir.path(), 10_000)
}

fn large_file(
    dir: &Path,
    entries: usize,
    megabytes: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args().skip(1).map(PathBuf::from).find(|path| path.is_file());
    let path = given.unwrap_or_else(|| dir.join(format!("large-{entries}-{megabytes}.jsonl")));
    let bytes = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(_) => generate(&path, entries, megabytes * 1_000_000)?,
    };
    say(&format!("\n{entries} entries, {:.1} MB", bytes as f64 / 1e6))?;

    let before = memory_kb("VmRSS:");
    let mut session = timed("open", 20, || Session::open(&path, owner()))?;
    say(&format!(
        "  {:<28} {:>9.1} MB",
        "resident growth",
        memory_kb("VmRSS:").saturating_sub(before) as f64 / 1e3
    ))?;
    say(&format!("  {:<28} {:>9.1} MB", "peak since start", memory_kb("VmHWM:") as f64 / 1e3))?;
    if std::env::args().any(|arg| arg == "open") {
        return Ok(());
    }
    timed("stats, model, context_len", 100, || {
        let stats = session.stats().clone();
        session.model().map(|model| (stats, model, session.context_len()))
    })?;
    timed("append and forget", 1000, || {
        session.append(Body::message(Message::user("and then?", Vec::new(), NOW)), NOW)
    })?;
    timed("append and sync", 20, || {
        session.append(Body::message(Message::user("and then?", Vec::new(), NOW)), NOW)?;
        session.sync()
    })?;
    timed("navigate to the middle", 20, || {
        let middle = format!("{:08x}", entries / 2);
        session.navigate(Some(&middle), NOW)
    })?;
    timed("write_messages (half)", 3, || session.write_messages(&mut io::sink()))?;
    timed("write_entries", 3, || session.write_entries(None, &mut io::sink()))?;
    timed("write_tree", 3, || session.write_tree(&mut io::sink()))?;
    timed("fork_messages", 3, || session.fork_messages())?;
    say(&format!("  {:<28} {:>9.1} MB", "peak since start", memory_kb("VmHWM:") as f64 / 1e3))?;
    timed("clone_at_leaf (half)", 3, || {
        let storage =
            Storage::Folder { dir: dir.join("clones"), owner: owner(), files: Files::default() };
        session.clone_at_leaf(SessionId::fresh(), storage, NOW)
    })?;
    timed("context (half)", 3, || session.context())?;
    say(&format!("  {:<28} {:>9.1} MB", "peak since start", memory_kb("VmHWM:") as f64 / 1e3))?;
    Ok(())
}

fn many_files(dir: &Path, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let sessions = dir.join("sessions");
    for at in 0..count {
        let project = sessions.join(format!("--project-{}--", at % 10));
        fs::create_dir_all(&project)?;
        let name = paths::file_name(&SessionId::fresh(), NOW);
        generate(&project.join(name), 40, 20_000)?;
    }
    let first = sessions.join("--project-0--");
    say(&format!("\n{count} files of 20 kB in 10 folders"))?;
    let all = Scope::All { sessions: &sessions };
    let one = Scope::Dir { dir: &first, cwd: None };
    timed("list all, limit 50", 5, || list::list(all, &page(50)))?;
    timed("list all, no limit", 3, || list::list(all, &page(usize::MAX)))?;
    timed("list one folder, limit 50", 5, || list::list(one, &page(50)))?;
    timed("newest of all", 5, || list::newest(all))?;
    timed("find by prefix, all", 5, || list::find(all, "0199ffff"))?;
    Ok(())
}

/// Runs `work` several times, prints the best and the median time, and returns the last result. On
/// a busy machine the best time is the more reliable figure.
fn timed<T, E>(
    what: &str,
    times: usize,
    mut run: impl FnMut() -> Result<T, E>,
) -> Result<T, Box<dyn std::error::Error>>
where
    E: Into<Box<dyn std::error::Error>>,
{
    let mut samples: Vec<Duration> = Vec::new();
    let mut result = None;
    for _ in 0..times {
        // Dropped before the clock starts: an open session has its file locked.
        drop(result.take());
        let start = Instant::now();
        result = Some(run().map_err(Into::into)?);
        samples.push(start.elapsed());
    }
    samples.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (best, median) = (samples[0], samples[samples.len() / 2]);
    say(&format!("  {what:<28} {:>9.3} ms   {:>9.3} ms", ms(best), ms(median)))?;
    Ok(result.expect("run at least once"))
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// A value of `/proc/self/status`, or 0 on other systems.
fn memory_kb(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn page(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

fn owner() -> Owner {
    Owner {
        program: "bench".into(),
        pid: 1,
        host: "here".into(),
        started: "now".into(),
        address: None,
    }
}
