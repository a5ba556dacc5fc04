//! Counters and gauges of a server with many sessions, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tiller_agent::message::Usage;

/// What the server has counted since its start.
#[derive(Default)]
pub struct Metrics {
    sessions_opened: AtomicU64,
    sessions_crashed: AtomicU64,
    runs_started: AtomicU64,
    runs_ended: AtomicU64,
    answers: AtomicU64,
    failed_answers: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    cache_read_tokens: AtomicU64,
    cache_write_tokens: AtomicU64,
    /// In millionths of a dollar.
    cost: AtomicU64,
    /// From the start of a turn to the first step of its answer.
    pub(crate) first_step: Histogram,
    run_duration: Histogram,
    /// From an `open_session` to its response.
    pub(super) opening: Histogram,
}

/// What is the case now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    pub running_sessions: usize,
    pub idle_sessions: usize,
    pub sleeping_sessions: usize,
    pub clients: usize,
    /// The queued messages of all sessions.
    pub queued_messages: usize,
}

impl Metrics {
    pub(crate) fn run_started(&self) {
        self.runs_started.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn run_ended(&self, duration: Duration) {
        self.runs_ended.fetch_add(1, Ordering::Relaxed);
        self.run_duration.observe(duration);
    }

    pub(crate) fn answered(&self, usage: &Usage, has_failed: bool) {
        let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        add(&self.answers, 1);
        add(&self.failed_answers, has_failed.into());
        add(&self.input_tokens, usage.input);
        add(&self.output_tokens, usage.output);
        add(&self.cache_read_tokens, usage.cache_read);
        add(&self.cache_write_tokens, usage.cache_write);
        add(&self.cost, (usage.cost.total.max(0.0) * 1e6) as u64);
    }

    pub(super) fn session_opened(&self) {
        self.sessions_opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn session_crashed(&self) {
        self.sessions_crashed.fetch_add(1, Ordering::Relaxed);
    }

    /// The page for `GET /metrics`.
    pub fn page(&self, gauges: Gauges) -> String {
        let mut page = Page(String::new());
        let states = [
            ("running", gauges.running_sessions),
            ("idle", gauges.idle_sessions),
            ("asleep", gauges.sleeping_sessions),
        ];
        page.head("tiller_sessions", "gauge", "Open sessions by what they are doing.");
        for (state, count) in states {
            page.line(&format!("tiller_sessions{{state=\"{state}\"}}"), count);
        }
        page.gauge("tiller_clients", "Connected clients.", gauges.clients);
        page.gauge("tiller_queued_messages", "Messages in queues.", gauges.queued_messages);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, help, counter) in [
            ("tiller_sessions_opened_total", "Sessions opened.", &self.sessions_opened),
            ("tiller_sessions_crashed_total", "Sessions that failed.", &self.sessions_crashed),
            ("tiller_runs_started_total", "Runs started.", &self.runs_started),
            ("tiller_runs_ended_total", "Runs ended.", &self.runs_ended),
            ("tiller_answers_total", "Answers of models.", &self.answers),
            (
                "tiller_answers_failed_total",
                "Answers that ended in an error.",
                &self.failed_answers,
            ),
        ] {
            page.head(name, "counter", help);
            page.line(name, get(counter));
        }
        page.head("tiller_tokens_total", "counter", "Tokens of answers by kind.");
        for (kind, counter) in [
            ("input", &self.input_tokens),
            ("output", &self.output_tokens),
            ("cache_read", &self.cache_read_tokens),
            ("cache_write", &self.cache_write_tokens),
        ] {
            page.line(&format!("tiller_tokens_total{{kind=\"{kind}\"}}"), get(counter));
        }
        page.head("tiller_cost_dollars_total", "counter", "The price of these tokens.");
        page.line("tiller_cost_dollars_total", get(&self.cost) as f64 / 1e6);
        let first_step = "From the start of a turn to the first step of its answer.";
        page.histogram("tiller_first_step_seconds", first_step, &self.first_step);
        page.histogram("tiller_run_seconds", "Duration of runs.", &self.run_duration);
        let opening = "From open_session to its response.";
        page.histogram("tiller_open_session_seconds", opening, &self.opening);
        page.0
    }
}

/// The upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3600.0];

/// How often something took how long.
#[derive(Default)]
pub(crate) struct Histogram {
    /// The last one has what is longer than all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        self.push(format_args!("{name} {value}\n"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: usize) {
        self.head(name, "gauge", help);
        self.line(name, value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let mut count = 0;
        let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, bucket) in bounds.zip(&histogram.buckets) {
            count += bucket.load(Ordering::Relaxed);
            self.line(&format!("{name}_bucket{{le=\"{bound}\"}}"), count);
        }
        let seconds = histogram.micros.load(Ordering::Relaxed) as f64 / 1e6;
        self.line(&format!("{name}_sum"), seconds);
        self.line(&format!("{name}_count"), count);
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_what_was_counted() {
        let metrics = Metrics::default();
        metrics.run_started();
        metrics.run_ended(Duration::from_millis(20));
        metrics.run_ended(Duration::from_secs(7200));
        let usage = Usage { input: 3, output: 4, ..Usage::default() };
        metrics.answered(&usage, true);
        let page = metrics.page(Gauges { idle_sessions: 2, clients: 1, ..Gauges::default() });
        for line in [
            "tiller_sessions{state=\"idle\"} 2",
            "tiller_sessions{state=\"asleep\"} 0",
            "tiller_clients 1",
            "tiller_runs_started_total 1",
            "tiller_answers_failed_total 1",
            "tiller_tokens_total{kind=\"output\"} 4",
            "tiller_cost_dollars_total 0",
            "tiller_run_seconds_bucket{le=\"0.01\"} 0",
            "tiller_run_seconds_bucket{le=\"0.05\"} 1",
            "tiller_run_seconds_bucket{le=\"3600\"} 1",
            "tiller_run_seconds_bucket{le=\"+Inf\"} 2",
            "tiller_run_seconds_sum 7200.02",
            "tiller_run_seconds_count 2",
        ] {
            assert!(page.lines().any(|printed| printed == line), "no {line} in\n{page}");
        }
        // Every metric is described once, before its values.
        for name in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = name.split(' ').next().unwrap();
            assert_eq!(page.matches(&format!("# HELP {name} ")).count(), 1, "{name}");
        }
    }
}
