//! One automaton for all conditions, fed delta by delta.
//!
//! States are built on demand: unreached states cost nothing, so fifty rules are as fast as one.
//! Assertions about the next byte (`$`, `\b` at the end) are decided when that byte has arrived or
//! the text has ended. So the result depends on the text alone and not on how it was split into
//! deltas.

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{Compiler, Config, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind, Look};

/// The size limit of one condition; the limit for all together is a multiple of it.
const ONE_MAX_BYTES: usize = 1 << 20;
const ALL_MAX_BYTES: usize = 16 << 20;
/// The memory for the states of one stream, before they are dropped and built again.
const CACHE_BYTES: usize = 4 << 20;

/// An expression without look-around.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    hir: Hir,
    /// Whether the byte after a match can invalidate it.
    depends_on_next_byte: bool,
    /// Whether it matches every text, even an empty one.
    is_everywhere: bool,
}

impl Expression {
    pub(super) fn read(regex: &str) -> Result<Expression, String> {
        // Not only at character boundaries: `\B` may match inside one, which is harmless.
        let config = syntax::Config::new().utf8(false).nest_limit(100);
        let hir = syntax::parse_with(regex, &config).map_err(|err| match err {
            regex_syntax::Error::Parse(err) => err.kind().to_string(),
            regex_syntax::Error::Translate(err) => err.kind().to_string(),
            err => err.to_string(),
        })?;
        compiler(ONE_MAX_BYTES).build_from_hir(&hir).map_err(|err| match err.size_limit() {
            Some(_) => "it is too large".to_owned(),
            None => err.to_string(),
        })?;
        let is_plain = hir.properties().look_set().is_empty();
        let is_everywhere = is_plain && hir.properties().minimum_len() == Some(0);
        Ok(Expression { depends_on_next_byte: ends_with_look(&hir), is_everywhere, hir })
    }

    pub(super) fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }
}

/// All expressions, by number.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: DFA,
    cache_bytes: usize,
    depends_on_next_byte: Vec<bool>,
}

impl Automaton {
    pub(super) fn new(expressions: &[Expression]) -> Result<Automaton, String> {
        // An expression that always matches need not be searched, and would make every state a
        // match.
        let never = Hir::fail();
        let hir =
            |of: &'_ Expression| if of.is_everywhere { never.clone() } else { of.hir.clone() };
        let hirs: Vec<Hir> = expressions.iter().map(hir).collect();
        let message = |err: &dyn std::fmt::Display| err.to_string();
        let nfa =
            compiler(ALL_MAX_BYTES).build_many_from_hir(&hirs).map_err(|err| message(&err))?;
        let config = DFA::config().match_kind(MatchKind::All).skip_cache_capacity_check(true);
        let least = config.get_minimum_cache_capacity(&nfa).map_err(|err| message(&err))?;
        let cache_bytes = CACHE_BYTES.max(8 * least);
        let config = config.cache_capacity(cache_bytes);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = dfa.map_err(|err| message(&err))?;
        let depends_on_next_byte =
            expressions.iter().map(|expression| expression.depends_on_next_byte).collect();
        Ok(Automaton { dfa, cache_bytes, depends_on_next_byte })
    }
}

/// The state of one stream.
pub(super) struct Cursor {
    cache: Cache,
    state: LazyStateID,
}

impl Cursor {
    /// At the beginning of a text. None if the automaton fails, which is a bug.
    pub(super) fn new(automaton: &Automaton) -> Option<Cursor> {
        let mut cache = automaton.dfa.create_cache();
        let state = automaton.dfa.start_state_forward(&mut cache, &Input::new("")).ok()?;
        Some(Cursor { cache, state })
    }

    /// Reads a delta. Calls `found` with the number of each expression that matches the text so
    /// far, possibly several times.
    pub(super) fn read(
        &mut self,
        automaton: &Automaton,
        delta: &str,
        mut found: impl FnMut(usize),
    ) {
        let mut last_match = None;
        for &byte in delta.as_bytes() {
            // An error means that it gave up, which is not enabled.
            let Ok(next) = automaton.dfa.next_state(&mut self.cache, self.state, byte) else {
                return;
            };
            self.state = next;
            if next.is_match() && last_match != Some(next) {
                self.report_matches(automaton, next, &mut found);
                last_match = Some(next);
            }
        }
        // Looking ahead may add a state, and if there is no memory for it, all states are dropped,
        // including the current one. Then the match is found with the next byte.
        if self.has_room(automaton) {
            self.look_ahead(automaton, |expression| {
                if !automaton.depends_on_next_byte[expression] {
                    found(expression);
                }
            });
        }
    }

    /// Ends the text, at least for now.
    pub(super) fn end(&mut self, automaton: &Automaton, found: impl FnMut(usize)) {
        if self.has_room(automaton) {
            self.look_ahead(automaton, found);
        } else {
            let mut copy = Cursor { cache: self.cache.clone(), state: self.state };
            copy.look_ahead(automaton, found);
        }
    }

    fn has_room(&self, automaton: &Automaton) -> bool {
        self.cache.memory_usage() < automaton.cache_bytes / 4 * 3
    }

    /// A match is reported one byte late. This reports matches as if there were no further byte.
    fn look_ahead(&mut self, automaton: &Automaton, mut found: impl FnMut(usize)) {
        let Ok(end) = automaton.dfa.next_eoi_state(&mut self.cache, self.state) else { return };
        if end.is_match() {
            self.report_matches(automaton, end, &mut found);
        }
    }

    fn report_matches(
        &self,
        automaton: &Automaton,
        state: LazyStateID,
        found: &mut impl FnMut(usize),
    ) {
        for at in 0..automaton.dfa.match_len(&self.cache, state) {
            found(automaton.dfa.match_pattern(&self.cache, state, at).as_usize());
        }
    }
}

fn compiler(max_bytes: usize) -> Compiler {
    let mut compiler = Compiler::new();
    let config = Config::new().utf8(false).which_captures(WhichCaptures::None);
    compiler.configure(config.nfa_size_limit(Some(max_bytes)));
    compiler
}

/// Whether the expression ends with an assertion about the byte after the match.
fn ends_with_look(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Look(look) => !matches!(look, Look::Start | Look::StartLF | Look::StartCRLF),
        HirKind::Repetition(repetition) => ends_with_look(&repetition.sub),
        HirKind::Capture(capture) => ends_with_look(&capture.sub),
        HirKind::Alternation(either) => either.iter().any(ends_with_look),
        HirKind::Concat(parts) => {
            for part in parts.iter().rev() {
                if ends_with_look(part) {
                    return true;
                }
                if part.properties().minimum_len() != Some(0) {
                    return false;
                }
            }
            false
        }
    }
}
