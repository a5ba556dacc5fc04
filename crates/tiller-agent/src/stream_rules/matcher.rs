//! One answer, watched. Steps in, rules out; each rule at most once.

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

/// A rule that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleMatch {
    pub rule: Arc<Rule>,
    pub place: StreamKind,
}

/// Where a rule was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// In text or thinking.
    Prose,
    /// In the arguments of a call.
    Call,
}

/// Watches one answer.
pub struct RuleMatcher {
    set: Arc<RuleSet>,
    cwd: Arc<PathBuf>,
    /// All text of the answer is one stream, all thinking another.
    text: Reading,
    thinking: Reading,
    calls: BTreeMap<usize, Call>,
    /// Rules that were told.
    told: Vec<bool>,
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
            told: vec![false; set.rules.len()],
            set,
            cwd,
        }
    }

    /// The rules that this step completes.
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
        let place = match stream {
            Stream::Call { .. } => StreamKind::Call,
            Stream::Text | Stream::Thinking => StreamKind::Prose,
        };
        let mut matches = Vec::new();
        for (watcher, told) in self.set.rules.iter().zip(&mut self.told) {
            let is_met = || watcher.conditions.iter().any(|&number| reading.found.seen[number]);
            if !*told && is_met() && watcher.scope.covers(stream) {
                *told = true;
                matches.push(RuleMatch { rule: watcher.rule.clone(), place });
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

/// How far a stream was read, and what was in it.
struct Reading {
    /// Made with the first delta: most streams never have one.
    cursor: Option<Cursor>,
    window: Window,
    found: Found,
}

/// The conditions that were met, by their numbers.
struct Found {
    seen: Vec<bool>,
    unseen: usize,
    /// Those that look around, and for which it is worth looking.
    near: Vec<bool>,
}

impl Found {
    fn see(&mut self, number: usize) {
        self.unseen -= usize::from(!std::mem::replace(&mut self.seen[number], true));
    }

    /// What the automaton has found.
    fn meet(&mut self, conditions: &Conditions, number: usize) {
        match conditions.is_loose[number] {
            true => self.near[number] = true,
            false => self.see(number),
        }
    }

    /// Whether to look closer: it may be there, and was not seen yet.
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

    /// Reads on. Says whether a condition is met that was not before.
    fn read(&mut self, conditions: &Conditions, delta: &str) -> bool {
        let Reading { cursor, window, found } = self;
        let before = found.unseen;
        if before == 0 {
            return false;
        }
        if cursor.is_none() {
            conditions.everywhere.iter().for_each(|&number| found.meet(conditions, number));
            *cursor = Cursor::new(&conditions.automaton);
        }
        if let Some(cursor) = cursor {
            let meet = |number| found.meet(conditions, number);
            cursor.read(&conditions.automaton, delta, meet);
        }
        if !conditions.around.is_empty() {
            window.read(delta, |look| look_closer(conditions, found, look));
        }
        found.unseen < before
    }

    /// A block has ended. Another one may follow.
    fn end(&mut self, conditions: &Conditions) -> bool {
        let Reading { cursor, window, found } = self;
        let before = found.unseen;
        // What was never begun has nothing to end.
        let Some(cursor) = cursor else { return false };
        cursor.end(&conditions.automaton, |number| found.meet(conditions, number));
        look_closer(conditions, found, window.end());
        found.unseen < before
    }
}

fn look_closer(conditions: &Conditions, found: &mut Found, look: MatchWindow<'_>) {
    for around in &conditions.around {
        if found.is_open(around) && look.finds(&around.exact) {
            found.see(around.number);
        }
    }
}
