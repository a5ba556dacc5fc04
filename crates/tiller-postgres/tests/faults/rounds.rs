//! How many rounds a kind of fault gets, what is random in them, and the totals.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

/// The number of rounds of all kinds together. 1000 for a full run.
const ROUNDS: &str = "TILLER_FAULT_ROUNDS";
const DEFAULT_ROUNDS: u64 = 100;
/// Another seed makes other moments. A failure names it.
const SEED: &str = "TILLER_FAULT_SEED";

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Kill,
    Pause,
    Terminate,
    Restart,
    Partition,
    FullDisk,
    SimultaneousClaims,
}

impl Kind {
    /// How many of a hundred rounds it gets.
    fn share(self) -> u64 {
        match self {
            Kind::Kill => 24,
            Kind::Pause => 10,
            Kind::Terminate => 16,
            Kind::Restart => 8,
            Kind::Partition => 24,
            Kind::FullDisk => 4,
            Kind::SimultaneousClaims => 14,
        }
    }
}

/// What was found after rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Entries whose append succeeded.
    pub acknowledged: u64,
    /// Those of them that are not in the database.
    pub lost: u64,
    /// Entries that are there more than once.
    pub twice: u64,
    /// Entries that a process wrote after another one had claimed the session.
    pub fenced: u64,
}

impl Totals {
    pub fn add(&mut self, other: Totals) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.twice += other.twice;
        self.fenced += other.fenced;
    }
}

/// Runs the rounds of a kind and prints the totals.
pub fn run(kind: Kind, mut round: impl FnMut(&mut Random) -> Totals) {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(value) => value.parse().expect("the variable is a number"),
        Err(_) => default,
    };
    let count = (number(ROUNDS, DEFAULT_ROUNDS) * kind.share() / 100).max(1);
    let seed = number(SEED, 1);
    let begin = Instant::now();
    let mut totals = Totals::default();
    for index in 0..count {
        let mut random = Random(seed << 40 | (kind as u64) << 32 | index);
        match catch_unwind(AssertUnwindSafe(|| round(&mut random))) {
            Ok(found) => totals.add(found),
            Err(panic) => {
                print(&format!(
                    "{kind:?}: round {index} failed ({SEED}={seed}, {ROUNDS} as it is)"
                ));
                resume_unwind(panic);
            }
        }
        assert_eq!((totals.lost, totals.twice, totals.fenced), (0, 0, 0), "{kind:?} {index}");
    }
    let Totals { acknowledged, lost, twice, fenced } = totals;
    print(&format!(
        "{kind:?}: {count} rounds, {acknowledged} acknowledged entries, {lost} lost, {twice} twice, \
         {fenced} by a fenced-out host, in {:.0?}",
        begin.elapsed()
    ));
}

/// Written directly, because libtest captures the output of a passing test.
fn print(line: &str) {
    std::io::stderr().write_all(format!("faults: {line}\n").as_bytes()).unwrap();
}

/// Numbers that are the same for the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than this.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Waits for less than this many milliseconds.
    pub fn sleep_below(&mut self, millis: u64) {
        std::thread::sleep(std::time::Duration::from_micros(self.below(millis * 1000)));
    }
}
