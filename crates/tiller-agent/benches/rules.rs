//! The cost of stream rules: figures to compare, not a timed test.
//!
//! A megabyte of text in small deltas against fifty rules, and the same against one, against rules
//! whose states do not fit the cache, and against rules with look-around. Each figure should grow
//! with the text and with nothing else. `cargo bench -p tiller-agent --bench rules` prints a table.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiller_agent::event::Update;
use tiller_agent::stream_rules::{Rule, RuleLevel, RuleMatcher, RuleSet, RuleSource};

const WORDS: [&str; 12] = [
    "let ",
    "value ",
    "= ",
    "compute(",
    "self.",
    "items",
    ") ",
    "// todo: ",
    "\n    ",
    "match ",
    "naïve ",
    "{} ",
];
const BYTES: usize = 1 << 20;

fn main() {
    let common: Vec<String> = (0..50)
        .map(|number| match number % 5 {
            0 => format!(r"\bforbidden_{number}\b"),
            1 => format!(r"console\.(log|warn{number})\("),
            2 => format!(r"\.unwrap_{number}\(\)\s*;"),
            3 => format!(r"(?i:never{number})\s+\w+\s+say"),
            _ => format!(r"from\s+['x]lib{number}['x]$"),
        })
        .collect();
    let heavy: Vec<String> =
        (0..10).map(|number| format!(r"[a-z]\w.{{{}}}forbidden_{number}", number + 2)).collect();
    let around: Vec<String> = (0..50).map(|number| format!(r"(?<!x)never_{number}(?!y)")).collect();
    let near = [r"self(?=\.forbidden)".to_owned()];
    let mut table = String::from("conditions          1/4 MB       1 MB\n");
    for (name, conditions) in [
        ("1 usual", &common[..1]),
        ("50 usual", &common[..]),
        ("10 heavy", &heavy[..]),
        ("50 around", &around[..]),
        ("1 around, near", &near[..]),
    ] {
        let [quarter, whole] = [BYTES / 4, BYTES].map(|bytes| cost(conditions, bytes));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        table += &format!("{name:<14} {:>8.1} ms {:>8.1} ms\n", ms(quarter), ms(whole));
    }
    // If the reader of stdout is gone, the table is not needed.
    std::io::stdout().write_all(table.as_bytes()).ok();
}

/// The best of three.
fn cost(conditions: &[String], bytes: usize) -> Duration {
    let rules = conditions.iter().enumerate().map(|(number, condition)| rule(number, condition));
    let set = RuleSet::compile(rules.collect()).set.expect("these rules watch");
    let mut deltas = Vec::new();
    let (mut length, mut number) = (0, 1_usize);
    while length < bytes {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let delta: String = (0..3).map(|at| WORDS[(number >> (20 + 8 * at)) % 12]).collect();
        length += delta.len();
        deltas.push(Update::TextDelta { index: 0, delta });
    }
    let once = || {
        let mut watch = RuleMatcher::new(set.clone(), Arc::new(PathBuf::from("/")));
        let start = Instant::now();
        let found: usize = deltas.iter().map(|delta| watch.read(delta).len()).sum();
        assert_eq!(found, 0, "these rules are in no text of ours");
        start.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap_or_default()
}

fn rule(number: usize, condition: &str) -> Rule {
    let path = PathBuf::from(format!("/rules/{number}.md"));
    Rule {
        name: number.to_string(),
        content: String::new(),
        globs: Vec::new(),
        always_apply: false,
        description: None,
        condition: vec![condition.to_owned()],
        scope: Vec::new(),
        interrupt_mode: None,
        source: RuleSource::new(path.clone(), RuleLevel::User),
        path,
    }
}
