//! Totals over every entry of the file, including abandoned branches and compacted history, so that
//! the figures never shrink.

use crate::head::{Head, Kind};

/// The counters of `get_session_stats`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub user_messages: u64,
    pub assistant_messages: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
    /// Every `message` entry, whatever its role.
    pub total_messages: u64,
    pub tokens: Tokens,
    /// Dollars.
    pub cost: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total: u64,
}

impl Stats {
    pub(crate) fn count(&mut self, head: &Head<'_>) {
        self.user_messages += u64::from(head.kind == Kind::User);
        self.assistant_messages += u64::from(head.kind == Kind::Assistant);
        self.tool_results += u64::from(head.kind == Kind::ToolResult);
        self.total_messages += u64::from(head.kind.is_message());
        if head.kind == Kind::Assistant {
            self.tool_calls += head.calls;
        }
        if let Some(spent) = head.spent {
            let tokens = &mut self.tokens;
            let sum = [spent.input, spent.output, spent.cache_read, spent.cache_write];
            tokens.input = tokens.input.saturating_add(spent.input);
            tokens.output = tokens.output.saturating_add(spent.output);
            tokens.cache_read = tokens.cache_read.saturating_add(spent.cache_read);
            tokens.cache_write = tokens.cache_write.saturating_add(spent.cache_write);
            tokens.total = sum.into_iter().fold(tokens.total, u64::saturating_add);
            self.cost += spent.cost;
        }
    }
}
