//! Limits on what a prompt may use and what a tool's processes may use.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::message::plain_number;

/// Limits of a session. A limit that is absent is not enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The turns of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// The tool calls of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// The tokens of a prompt's requests and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The price of a prompt in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "plain")]
    pub max_cost: Option<f64>,
    /// The seconds that a prompt may take.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "plain")]
    pub max_seconds: Option<f64>,
    /// The memory of each process that a tool starts, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_memory_bytes: Option<u64>,
    /// The seconds that a process which a tool starts may run.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "plain")]
    pub tool_seconds: Option<f64>,
}

/// The limits of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitName {
    MaxTurns,
    MaxToolCalls,
    MaxTokens,
    MaxCost,
    MaxSeconds,
}

/// What a prompt has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Turns that have started.
    pub turns: u64,
    /// Tool calls that have started.
    pub tool_calls: u64,
    pub tokens: u64,
    /// In dollars.
    pub cost: f64,
    /// Since the prompt has started.
    pub elapsed: Duration,
}

/// The next step of a run, which the limits allow or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// A turn with a message that is a prompt of its own: nothing is spent on it so far.
    Prompt,
    /// A turn of the current prompt: another request to the model.
    Turn,
    /// All tool calls of an answer.
    ToolCalls(u64),
}

/// A limit that does not allow the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReachedLimit {
    pub limit: LimitName,
    pub max: f64,
    /// What was spent before the step.
    pub used: f64,
}

/// Limits of a process that a tool starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessLimits {
    pub memory_bytes: Option<u64>,
    pub seconds: Option<f64>,
}

impl Limits {
    /// Checks what the types do not say. The error names the field.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [
            ("maxCost", self.max_cost),
            ("maxSeconds", self.max_seconds),
            ("toolSeconds", self.tool_seconds),
        ];
        for (name, value) in numbers {
            if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                return Err(format!("field `{name}`: expected a number that is not negative"));
            }
        }
        Ok(())
    }

    /// Whether a prompt has any limit.
    pub fn limits_prompts(&self) -> bool {
        let Limits { max_turns, max_tool_calls, max_tokens, max_cost, max_seconds, .. } = self;
        max_turns.or(*max_tool_calls).or(*max_tokens).is_some()
            || max_cost.or(*max_seconds).is_some()
    }

    /// The limits of each process that a tool starts.
    pub fn of_processes(&self) -> ProcessLimits {
        ProcessLimits { memory_bytes: self.tool_memory_bytes, seconds: self.tool_seconds }
    }

    /// The first limit that does not allow the step. The tool calls of an answer belong to its
    /// turn; an answer is wanted for the last results, so all calls may be used up before a turn.
    pub fn reached(&self, spent: &Spent, step: NextStep) -> Option<ReachedLimit> {
        let nothing = Spent::default();
        let spent = if step == NextStep::Prompt { &nothing } else { spent };
        let turns = self.max_turns.map(|max| max as f64);
        let calls = self.max_tool_calls.map(|max| max as f64);
        let tokens = self.max_tokens.map(|max| max as f64);
        let total = |limit, max: Option<f64>, used: f64| {
            let max = max.filter(|max| used >= *max)?;
            Some(ReachedLimit { limit, max, used })
        };
        let by_step = match step {
            NextStep::Prompt | NextStep::Turn => {
                total(LimitName::MaxTurns, turns, spent.turns as f64)
            }
            NextStep::ToolCalls(more) => {
                let used = spent.tool_calls as f64;
                let max = calls.filter(|max| used + more as f64 > *max);
                max.map(|max| ReachedLimit { limit: LimitName::MaxToolCalls, max, used })
            }
        };
        by_step
            .or_else(|| total(LimitName::MaxTokens, tokens, spent.tokens as f64))
            .or_else(|| total(LimitName::MaxCost, self.max_cost, spent.cost))
            .or_else(|| total(LimitName::MaxSeconds, self.max_seconds, seconds(spent.elapsed)))
    }
}

/// In milliseconds, as the client sees times.
fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1000.0
}

/// Writes `3`, not `3.0`, for a whole number.
fn plain<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => plain_number(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// `the limit of 3 turns per prompt is reached`
impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = self.max;
        let s = if max == 1.0 { "" } else { "s" };
        f.write_str("the limit of ")?;
        match self.limit {
            LimitName::MaxTurns => write!(f, "{max} turn{s}"),
            LimitName::MaxToolCalls => write!(f, "{max} tool call{s}"),
            LimitName::MaxTokens => write!(f, "{max} token{s}"),
            LimitName::MaxCost => write!(f, "{max} dollar{s}"),
            LimitName::MaxSeconds => write!(f, "{max} second{s}"),
        }?;
        f.write_str(" per prompt is reached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the limits, what is spent, the next step, and the text if it is not allowed.
    #[test]
    fn a_step_is_refused_by_the_first_limit_that_does_not_allow_it() {
        let none = Limits::default();
        let turns = |max| Limits { max_turns: Some(max), ..none.clone() };
        let calls = |max| Limits { max_tool_calls: Some(max), ..none.clone() };
        let tokens = |max| Limits { max_tokens: Some(max), ..none.clone() };
        let cost = |max| Limits { max_cost: Some(max), ..none.clone() };
        let seconds = |max| Limits { max_seconds: Some(max), ..none.clone() };
        let all = Limits { max_tokens: Some(9), max_seconds: Some(1.0), ..turns(3) };
        let fresh = Spent::default();
        let spent = Spent {
            turns: 3,
            tool_calls: 2,
            tokens: 100,
            cost: 0.25,
            elapsed: Duration::from_millis(1500),
        };
        let (prompt, turn) = (NextStep::Prompt, NextStep::Turn);
        let batch = NextStep::ToolCalls;
        let rows: &[(&Limits, &Spent, NextStep, &str)] = &[
            (&none, &spent, turn, "-"),
            (&none, &spent, batch(100), "-"),
            // Turns count before a turn, and not before its tool calls.
            (&turns(4), &spent, turn, "-"),
            (&turns(3), &spent, turn, "3 turns, 3 used"),
            (&turns(1), &spent, turn, "1 turn, 3 used"),
            (&turns(3), &spent, batch(1), "-"),
            // Tool calls count before a batch of them, which is allowed as a whole or not.
            (&calls(4), &spent, batch(2), "-"),
            (&calls(3), &spent, batch(2), "3 tool calls, 2 used"),
            (&calls(1), &fresh, batch(2), "1 tool call, 0 used"),
            (&calls(2), &spent, turn, "-"),
            // The other limits count before both.
            (&tokens(101), &spent, turn, "-"),
            (&tokens(100), &spent, turn, "100 tokens, 100 used"),
            (&tokens(99), &spent, batch(1), "99 tokens, 100 used"),
            (&cost(0.26), &spent, turn, "-"),
            (&cost(0.25), &spent, turn, "0.25 dollars, 0.25 used"),
            (&cost(0.1), &spent, batch(1), "0.1 dollars, 0.25 used"),
            (&seconds(1.6), &spent, turn, "-"),
            (&seconds(1.5), &spent, turn, "1.5 seconds, 1.5 used"),
            (&seconds(1.0), &spent, batch(1), "1 second, 1.5 used"),
            // Several at once.
            (&all, &spent, turn, "3 turns, 3 used"),
            (&all, &spent, batch(1), "9 tokens, 100 used"),
            // A new prompt has used nothing. Zero allows nothing.
            (&all, &spent, prompt, "-"),
            (&turns(0), &spent, prompt, "0 turns, 0 used"),
            (&tokens(0), &fresh, turn, "0 tokens, 0 used"),
            (&cost(0.0), &fresh, turn, "0 dollars, 0 used"),
            (&seconds(0.0), &fresh, prompt, "0 seconds, 0 used"),
            (&calls(0), &fresh, turn, "-"),
            (&calls(0), &fresh, batch(1), "0 tool calls, 0 used"),
        ];
        for (limits, spent, step, expected) in rows {
            let text = limits.reached(spent, *step).map_or("-".to_owned(), |reached| {
                let text = reached.to_string();
                let max = text.strip_prefix("the limit of ").unwrap();
                let max = max.strip_suffix(" per prompt is reached").unwrap();
                format!("{max}, {} used", reached.used)
            });
            assert_eq!(text, *expected, "{limits:?} {spent:?} {step:?}");
        }
    }

    #[test]
    fn negative_numbers_are_refused() {
        let limits = Limits { max_seconds: Some(-1.0), ..Limits::default() };
        let why = limits.check().unwrap_err();
        assert_eq!(why, "field `maxSeconds`: expected a number that is not negative");
    }
}
