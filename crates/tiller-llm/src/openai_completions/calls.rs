//! Tool calls being streamed, and which of them a delta belongs to.
//!
//! According to the API every delta has an index, and the first delta of an index has the id and
//! the name. Servers send all indices as zero, no index, an id that comes late, an id that changes
//! with every delta, or no id at all.

use std::collections::HashMap;

use super::native::CallDelta;

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// In the order they first appeared.
    pub all: Vec<CompletionsOpenCall>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
}

#[derive(Debug, Default)]
pub(super) struct CompletionsOpenCall {
    pub id: String,
    pub name: String,
    /// The block's index in the message, once it was emitted.
    pub block_index: Option<usize>,
    /// Arguments that came before the id or the name.
    pub held: Option<String>,
}

impl Calls {
    /// Finds or starts the call and records its id and name. Returns the call's index and the piece
    /// of arguments; `None` if the delta is empty.
    pub(super) fn take(&mut self, delta: CallDelta) -> Option<(usize, Option<String>)> {
        let function = delta.function.unwrap_or_default();
        let id = delta.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = function.arguments.map(|arguments| arguments.0);
        if id.is_empty() && name.is_empty() && arguments.is_none() {
            return None;
        }
        let at = match self.find(delta.index, &id, &name) {
            Some(at) => at,
            None => {
                self.all.push(CompletionsOpenCall::default());
                self.all.len() - 1
            }
        };
        if let Some(index) = delta.index {
            self.by_index.insert(index, at);
        }
        let call = &mut self.all[at];
        if call.id.is_empty() && !id.is_empty() {
            self.by_id.insert(id.clone(), at);
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        Some((at, arguments))
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let last = self.all.len().checked_sub(1);
        let found = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.by_id.get(id).copied().or(last),
        };
        // A name starts a new call, unless it repeats the current one.
        found.filter(|&at| {
            let call = &self.all[at];
            let same_id = match index {
                Some(_) => id.is_empty() || call.id.is_empty() || call.id == id,
                None => !id.is_empty() && call.id == id,
            };
            name.is_empty() || call.name.is_empty() || same_id
        })
    }
}
