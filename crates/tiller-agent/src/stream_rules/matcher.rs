//! Matches the rules against one answer. Each rule matches at most once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Rule;
use super::automaton::Cursor;
use super::backtracking::{MatchWindow, Window};
use super::paths::Paths;
use super::scope::Stream;
use super::set::{Conditions, RuleContext, RuleSet};
use crate::event::Update;

/// A rule that matched.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleMatch {
    pub rule: Arc<Rule>,
    pub kind: StreamKind,
}

/// Where a rule matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// In text or thinking.
    Prose,
    /// In the arguments of a call.
    Call,
}

/// Matches one answer.
pub struct RuleMatcher {
    set: Arc<RuleSet>,
    cwd: Arc<PathBuf>,
    /// All text of the answer is one stream, all thinking another.
    text: Reading,
    thinking: Reading,
    calls: BTreeMap<usize, Call>,
    /// Rules that were already returned.
    reported: Vec<bool>,
}

/// The arguments of one call.
struct Call {
    tool: String,
    reading: Reading,
    paths: Paths,
}

impl RuleMatcher {
    pub fn new(set: Arc<RuleSet>, cwd: Arc<PathBuf>) -> RuleMatcher {
        RuleMatcher {
            text: Reading::new(&set.conditions),
            thinking: Reading::new(&set.conditions),
            calls: BTreeMap::new(),
            reported: vec![false; set.rules.len()],
            set,
            cwd,
        }
    }

    /// Returns the rules that this step completes.
    pub fn read(&mut self, update: &Update) -> Vec<RuleMatch> {
        let conditions = &self.set.conditions;
        let (stream, reading, is_news) = match update {
            Update::TextDelta { delta, .. } => {
                let is_news = self.text.read(conditions, delta);
                (Stream::Text, &self.text, is_news)
            }
            Update::TextEnd { .. } => {
                let is_news = self.text.end(conditions);
                (Stream::Text, &self.text, is_news)
            }
            Update::ThinkingDelta { delta, .. } => {
                let is_news = self.thinking.read(conditions, delta);
                (Stream::Thinking, &self.thinking, is_news)
            }
            Update::ThinkingEnd { .. } => {
                let is_news = self.thinking.end(conditions);
                (Stream::Thinking, &self.thinking, is_news)
            }
            Update::CallStart { index, name, .. } => {
                let reading = Reading::new(conditions);
                let call = Call { tool: name.clone(), reading, paths: Paths::default() };
                self.calls.insert(*index, call);
                return Vec::new();
            }
            Update::CallDelta { index, delta } => {
                let Some(call) = self.calls.get_mut(index) else { return Vec::new() };
                let has_path = call.paths.read(delta, &self.cwd);
                let is_news = call.reading.read(conditions, delta) | has_path;
                (call.stream(), &call.reading, is_news)
            }
            Update::CallEnd { index, .. } => {
                let Some(call) = self.calls.get_mut(index) else { return Vec::new() };
                let is_news = call.reading.end(conditions);
                (call.stream(), &call.reading, is_news)
            }
            _ => return Vec::new(),
        };
        if !is_news {
            return Vec::new();
        }
        let kind = match stream {
            Stream::Call { .. } => StreamKind::Call,
            Stream::Text | Stream::Thinking => StreamKind::Prose,
        };
        let mut matches = Vec::new();
        for (watcher, reported) in self.set.rules.iter().zip(&mut self.reported) {
            let is_met = || watcher.conditions.iter().any(|&number| reading.found.seen[number]);
            if !*reported && is_met() && watcher.scope.covers(stream) {
                *reported = true;
                matches.push(RuleMatch { rule: watcher.rule.clone(), kind });
            }
        }
        matches
    }
}

impl Call {
    fn stream(&self) -> Stream<'_> {
        Stream::Call { tool: &self.tool, paths: &self.paths.found }
    }
}

/// The state of one stream.
struct Reading {
    /// Created with the first delta: most streams have none.
    cursor: Option<Cursor>,
    window: Window,
    found: Found,
}

/// The conditions that matched, by number.
struct Found {
    seen: Vec<bool>,
    unseen: usize,
    /// Conditions with look-around whose approximation matched.
    near: Vec<bool>,
}

impl Found {
    fn mark_found(&mut self, number: usize) {
        self.unseen -= usize::from(!std::mem::replace(&mut self.seen[number], true));
    }

    /// Records a match of the automaton.
    fn record(&mut self, conditions: &Conditions, number: usize) {
        if conditions.is_loose[number] { self.near[number] = true } else { self.mark_found(number) }
    }

    /// Whether to try the full expression: its approximation matched, and it has not matched yet.
    fn is_open(&self, around: &RuleContext) -> bool {
        self.near[around.number] && !self.seen[around.number]
    }
}

impl Reading {
    fn new(conditions: &Conditions) -> Reading {
        let unseen = conditions.count;
        let found = Found { seen: vec![false; unseen], unseen, near: vec![false; unseen] };
        Reading { cursor: None, window: Window::default(), found }
    }

    /// Reads a delta. Returns whether a further condition matched.
    fn read(&mut self, conditions: &Conditions, delta: &str) -> bool {
        let Reading { cursor, window, found } = self;
        let before = found.unseen;
        if before == 0 {
            return false;
        }
        if cursor.is_none() {
            conditions.everywhere.iter().for_each(|&number| found.record(conditions, number));
            *cursor = Cursor::new(&conditions.automaton);
        }
        if let Some(cursor) = cursor {
            let meet = |number| found.record(conditions, number);
            cursor.read(&conditions.automaton, delta, meet);
        }
        if !conditions.around.is_empty() {
            window.read(delta, |window| try_full_expressions(conditions, found, window));
        }
        found.unseen < before
    }

    /// Ends a block. Another one may follow.
    fn end(&mut self, conditions: &Conditions) -> bool {
        let Reading { cursor, window, found } = self;
        let before = found.unseen;
        // The stream never had a delta.
        let Some(cursor) = cursor else { return false };
        cursor.end(&conditions.automaton, |number| found.record(conditions, number));
        try_full_expressions(conditions, found, window.end());
        found.unseen < before
    }
}

fn try_full_expressions(conditions: &Conditions, found: &mut Found, window: MatchWindow<'_>) {
    for around in &conditions.around {
        if found.is_open(around) && window.finds(&around.exact) {
            found.mark_found(around.number);
        }
    }
}
