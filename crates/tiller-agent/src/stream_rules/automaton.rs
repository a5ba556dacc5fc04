//! All conditions as one automaton, read a delta at a time.
//!
//! The automaton is built while it reads: a state that nobody comes to costs nothing, so fifty
//! rules are as good as one. What the next byte could still undo (`$`, `\b` at the end) counts
//! when that byte has come or the text has ended. So the verdict depends on the text alone and
//! not on how it was cut into deltas.

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{Compiler, Config, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind, Look};

/// One condition may become this large, and all of them together this much larger.
const ONE_MAX_BYTES: usize = 1 << 20;
const ALL_MAX_BYTES: usize = 16 << 20;
/// What the states of one stream may take before they are forgotten and built anew.
const CACHE_BYTES: usize = 4 << 20;

/// An expression that an automaton can be made of.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    hir: Hir,
    /// Whether what follows a match can undo it.
    is_undone: bool,
    /// Whether it is in every text, even in none at all.
    is_everywhere: bool,
}

impl Expression {
    pub(super) fn read(regex: &str) -> Result<Expression, String> {
        // Not only whole characters: `\B` may lie inside one, which harms nobody.
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
        Ok(Expression { is_undone: ends_with_look(&hir), is_everywhere, hir })
    }

    pub(super) fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }
}

/// Every expression, by its number.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: DFA,
    cache_bytes: usize,
    is_undone: Vec<bool>,
}

impl Automaton {
    pub(super) fn new(expressions: &[Expression]) -> Result<Automaton, String> {
        // What is in every text needs no looking for, and would make every state a match.
        let never = Hir::fail();
        let hir =
            |of: &'_ Expression| if of.is_everywhere { never.clone() } else { of.hir.clone() };
        let hirs: Vec<Hir> = expressions.iter().map(hir).collect();
        let said = |err: &dyn std::fmt::Display| err.to_string();
        let nfa = compiler(ALL_MAX_BYTES).build_many_from_hir(&hirs).map_err(|err| said(&err))?;
        let config = DFA::config().match_kind(MatchKind::All).skip_cache_capacity_check(true);
        let least = config.get_minimum_cache_capacity(&nfa).map_err(|err| said(&err))?;
        let cache_bytes = CACHE_BYTES.max(8 * least);
        let config = config.cache_capacity(cache_bytes);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = dfa.map_err(|err| said(&err))?;
        let is_undone = expressions.iter().map(|expression| expression.is_undone).collect();
        Ok(Automaton { dfa, cache_bytes, is_undone })
    }
}

/// How far one stream has been read.
pub(super) struct Cursor {
    cache: Cache,
    state: LazyStateID,
}

impl Cursor {
    /// At the beginning of a text. Nothing when the automaton does not work, which is a bug.
    pub(super) fn new(automaton: &Automaton) -> Option<Cursor> {
        let mut cache = automaton.dfa.create_cache();
        let state = automaton.dfa.start_state_forward(&mut cache, &Input::new("")).ok()?;
        Some(Cursor { cache, state })
    }

    /// Reads on. `found` is told the number of each expression that is in the text so far, some
    /// of them often.
    pub(super) fn read(
        &mut self,
        automaton: &Automaton,
        delta: &str,
        mut found: impl FnMut(usize),
    ) {
        let mut last_match = None;
        for &byte in delta.as_bytes() {
            // An error means that it gave up, and it was not told that it may.
            let Ok(next) = automaton.dfa.next_state(&mut self.cache, self.state, byte) else {
                return;
            };
            self.state = next;
            if next.is_match() && last_match != Some(next) {
                self.tell(automaton, next, &mut found);
                last_match = Some(next);
            }
        }
        // To look ahead may take one more state, and when there is no room for it all are
        // forgotten, ours too. Then the match shows with the next byte.
        if self.has_room(automaton) {
            self.look_ahead(automaton, |expression| {
                if !automaton.is_undone[expression] {
                    found(expression);
                }
            });
        }
    }

    /// The text ends here, at least for now.
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

    /// A match shows one byte late. This looks at what shows if there is no further byte.
    fn look_ahead(&mut self, automaton: &Automaton, mut found: impl FnMut(usize)) {
        let Ok(end) = automaton.dfa.next_eoi_state(&mut self.cache, self.state) else { return };
        if end.is_match() {
            self.tell(automaton, end, &mut found);
        }
    }

    fn tell(&self, automaton: &Automaton, state: LazyStateID, found: &mut impl FnMut(usize)) {
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

/// Whether the last thing an expression asks for can be about the byte behind the match.
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
