//! Matches tool results to their calls, so that both are rendered as one card where the result is.
//!
//! A result names its call by an id that providers choose and may reuse. So a call is searched only
//! in the nearest answer above its result.

use std::collections::HashMap;

use tiller_agent::message::ToolCall;

use crate::scan::EntryKind;

/// An answer's index in the file, and the id of a call in it.
type CallKey = (usize, String);

#[derive(Default)]
pub(crate) struct Calls {
    /// By index in the file: the index of the nearest answer above.
    above: Vec<Option<usize>>,
    /// How many results of each call are still to be rendered. Branches can add several.
    results: HashMap<CallKey, usize>,
    /// Calls whose answers were rendered, but whose results were not.
    open: HashMap<CallKey, ToolCall>,
}

impl Calls {
    /// Adds the entry at the next index. `result_of` is the id of the call it answers.
    pub(crate) fn note(&mut self, parent: Option<(usize, EntryKind)>, result_of: Option<&str>) {
        let above = match parent {
            Some((index, EntryKind::Answer)) => Some(index),
            // A parent further down in the file is not known yet; its result is rendered alone.
            Some((index, _)) => self.above.get(index).copied().flatten(),
            None => None,
        };
        if let (Some(answer), Some(id)) = (above, result_of) {
            *self.results.entry((answer, id.to_owned())).or_default() += 1;
        }
        self.above.push(above);
    }

    /// Stores a call for its result. False if there is none: then the answer renders the call.
    pub(crate) fn keep(&mut self, answer: usize, call: &ToolCall) -> bool {
        let key = (answer, call.id.clone());
        if !self.results.contains_key(&key) || self.open.contains_key(&key) {
            return false;
        }
        self.open.insert(key, call.clone());
        true
    }

    /// The call that the result at this index answers.
    pub(crate) fn of_result(&mut self, index: usize, id: &str) -> Option<ToolCall> {
        let key = (self.above.get(index).copied().flatten()?, id.to_owned());
        let left = self.results.get_mut(&key)?;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return self.open.get(&key).cloned();
        }
        self.results.remove(&key);
        self.open.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str) -> ToolCall {
        serde_json::from_value(serde_json::json!({"id": id, "name": name, "arguments": {}}))
            .unwrap()
    }

    #[test]
    fn a_result_finds_the_call_in_the_answer_above_it() {
        let mut calls = Calls::default();
        calls.note(None, None); // 0: an answer with the calls a, b and c
        calls.note(Some((0, EntryKind::Answer)), Some("a")); // 1
        calls.note(Some((1, EntryKind::Result)), Some("b")); // 2
        calls.note(Some((2, EntryKind::Result)), None); // 3: an answer that uses the id again
        calls.note(Some((3, EntryKind::Answer)), Some("a")); // 4
        calls.note(Some((1, EntryKind::Result)), Some("b")); // 5: the same call on another branch
        calls.note(Some((9, EntryKind::Result)), Some("a")); // 6: its parent is not noted
        assert!(calls.keep(0, &call("a", "first")));
        assert!(calls.keep(0, &call("b", "second")));
        assert!(!calls.keep(0, &call("b", "twice")), "one card cannot show two calls");
        assert!(!calls.keep(0, &call("c", "unanswered")));
        assert!(calls.keep(3, &call("a", "later")));
        let mut name = |index, id| calls.of_result(index, id).map(|call| call.name);
        assert_eq!(name(1, "a").as_deref(), Some("first"));
        assert_eq!(name(2, "b").as_deref(), Some("second"));
        assert_eq!(name(5, "b").as_deref(), Some("second"));
        assert_eq!(name(4, "a").as_deref(), Some("later"));
        assert_eq!(name(6, "a"), None);
        assert!(calls.open.is_empty() && calls.results.is_empty(), "nothing is kept for ever");
    }
}
