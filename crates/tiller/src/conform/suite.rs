//! Runs the checks: the first one alone, because the others depend on what it finds, then several at
//! a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::bench::Bench;
use super::check::{Check, CheckResult, NotMet, Status};
use super::checks;
use super::processes::Servers;

/// How many checks run at a time.
const JOBS: usize = 4;

/// How the suite ended.
pub(super) enum SuiteEnd {
    /// Every check has a result, in the order of the list.
    Done(Vec<CheckResult>),
    /// A signal ended it; the exit code says which.
    Interrupted(u8),
}

/// Runs all checks, and reports each result to `progress` with the number of checks.
pub(super) fn run(
    mut bench: Bench,
    only: Option<&str>,
    mut progress: impl FnMut(&CheckResult, usize),
) -> Result<SuiteEnd, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| format!("cannot start the runtime: {err}"))?;
    let chosen = checks::all();
    let chosen: Vec<Check> = chosen.into_iter().filter(|check| is_chosen(check, only)).collect();
    let count = chosen.len() + 1;
    let servers = Arc::clone(&bench.servers);
    let (sender, mut results) = unbounded_channel();
    thread::spawn(move || {
        let first = checks::START;
        let found = caught(|| checks::start::probe(&bench));
        let answers = found.is_ok();
        bench.settles = found.as_ref().is_ok_and(|found| found.settles);
        send(&sender, 0, CheckResult::new(&first, found.map(|_| ())));
        if answers {
            run_all(&Arc::new(bench), &Arc::new(chosen), &sender);
        } else {
            let why = "not run: the server does not start";
            for (at, check) in chosen.iter().enumerate() {
                let skipped = NotMet::Skipped(why.to_owned());
                send(&sender, at + 1, CheckResult::new(check, Err(skipped)));
            }
        }
    });
    let mut done: Vec<(usize, CheckResult)> = Vec::new();
    let end = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        loop {
            tokio::select! {
                result = results.recv() => match result {
                    Some((at, result)) => {
                        progress(&result, count);
                        done.push((at, result));
                    }
                    None => return Ok(None),
                },
                code = signals.next() => return Ok(Some(code)),
            }
        }
    });
    let interrupted = end.map_err(|err: std::io::Error| format!("cannot handle signals: {err}"))?;
    if let Some(code) = interrupted {
        end_servers(&servers);
        return Ok(SuiteEnd::Interrupted(code));
    }
    done.sort_by_key(|(at, _)| *at);
    Ok(SuiteEnd::Done(done.into_iter().map(|(_, result)| result).collect()))
}

fn is_chosen(check: &Check, only: Option<&str>) -> bool {
    only.is_none_or(|only| format!("{} {}", check.group.name(), check.name).contains(only))
}

fn run_all(
    bench: &Arc<Bench>,
    chosen: &Arc<Vec<Check>>,
    sender: &UnboundedSender<(usize, CheckResult)>,
) {
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..JOBS).map(|_| {
        let (bench, chosen, next) = (Arc::clone(bench), Arc::clone(chosen), Arc::clone(&next));
        let sender = sender.clone();
        thread::spawn(move || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(check) = chosen.get(at) else { break };
                send(&sender, at + 1, CheckResult::new(check, run_one(&bench, check)));
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        // A worker does not panic: a check that does is caught.
        worker.join().ok();
    }
}

fn run_one(bench: &Bench, check: &Check) -> Result<(), NotMet> {
    if Instant::now() >= bench.end {
        return Err(NotMet::Failed("not run: the time of the suite is over".to_owned()));
    }
    caught(|| (check.run)(bench))
}

/// A check that panics has failed: the bug is in the check, and its reason is on stderr.
fn caught<T>(run: impl FnOnce() -> Result<T, NotMet>) -> Result<T, NotMet> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(NotMet::Failed("the check itself panicked; see stderr".to_owned())))
}

fn send(sender: &UnboundedSender<(usize, CheckResult)>, at: usize, result: CheckResult) {
    // The receiver is gone after a signal.
    sender.send((at, result)).ok();
}

/// Ends all servers and everything they started.
fn end_servers(servers: &Servers) {
    servers.close();
    tiller_tools::process::end_all();
}

/// Whether no check failed.
pub(super) fn is_passed(results: &[CheckResult]) -> bool {
    results.iter().all(|result| result.status != Status::Failed)
}

/// The signals that end the suite.
struct Signals([(tokio::signal::unix::Signal, u8); 3]);

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals([
            (signal(SignalKind::interrupt())?, 130),
            (signal(SignalKind::terminate())?, 143),
            (signal(SignalKind::hangup())?, 129),
        ]))
    }

    /// Waits for a signal. Returns the exit code.
    async fn next(&mut self) -> u8 {
        let [(interrupt, a), (terminate, b), (hangup, c)] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => *a,
            _ = terminate.recv() => *b,
            _ = hangup.recv() => *c,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_that_panics_has_failed() {
        let came = caught(|| -> Result<(), NotMet> { panic!("a bug in a check") });
        assert!(matches!(came, Err(NotMet::Failed(_))), "{came:?}");
        assert_eq!(caught(|| Ok(5)), Ok(5));
    }

    #[test]
    fn only_looks_at_the_group_and_the_name() {
        let mut chosen = checks::all();
        chosen.retain(|check| is_chosen(check, Some("eof EOF when idle")));
        assert_eq!(chosen.len(), 1);
        assert!(is_chosen(&chosen[0], None) && !is_chosen(&chosen[0], Some("abort")));
    }
}
