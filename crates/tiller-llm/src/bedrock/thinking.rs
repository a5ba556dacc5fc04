//! Thinking settings on Bedrock. Every maker has its own; only Anthropic's are known, other models
//! use their defaults.

use serde_json::{Value, json};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::Request;

use crate::compat::flag;
use crate::request_options::RequestOptions;

pub(super) fn is_claude(model: &Model) -> bool {
    model.id.contains("claude")
}

/// Fields that Bedrock passes through to the model.
pub(super) fn thinking(
    request: &Request,
    access: &RequestOptions,
    max_tokens: u64,
) -> Option<Value> {
    /// The API's smallest budget, also reserved for the answer itself.
    const LEAST: u64 = 1024;
    let (model, level) = (&*request.model, request.thinking);
    if !model.reasoning || !is_claude(model) || level == ThinkingLevel::Off {
        return None;
    }
    // The model decides how much to think; only the effort is set.
    if flag(model, "forceAdaptiveThinking", version(&model.id) >= (4, 6)) {
        let named = model.thinking_level_map.as_ref().and_then(|map| map.get(&level)?.as_deref());
        let effort = named.unwrap_or(match level {
            ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => "high",
        });
        return Some(json!({
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": effort},
        }));
    }
    let budget = access.thinking_budgets.of(level).min(max_tokens.saturating_sub(LEAST));
    (budget >= LEAST).then(|| {
        json!({
            "thinking": {"type": "enabled", "budget_tokens": budget},
            "anthropic_beta": ["interleaved-thinking-2025-05-14"],
        })
    })
}

/// `claude-opus-4-7` is 4.7, `claude-3-7-sonnet` 3.7, `claude-sonnet-4-20250514` 4.0.
fn version(id: &str) -> (u32, u32) {
    let name = id.split_once("claude-").map_or("", |(_, name)| name);
    let mut numbers = name.split('-').skip_while(|word| number(word).is_none()).map(number);
    let major = numbers.next().flatten().unwrap_or(0);
    let minor = numbers.next().flatten().unwrap_or(0);
    (major, minor)
}

/// A short number, not a date.
fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|number| *number < 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (id, expected) in [
            ("us.anthropic.claude-opus-4-7", (4, 7)),
            ("anthropic.claude-opus-4-6-v1", (4, 6)),
            ("anthropic.claude-3-7-sonnet-20250219-v1:0", (3, 7)),
            ("anthropic.claude-sonnet-4-20250514-v1:0", (4, 0)),
            ("anthropic.claude-sonnet-5", (5, 0)),
            ("anthropic.claude-v2", (0, 0)),
            ("amazon.nova-lite-v1:0", (0, 0)),
        ] {
            assert_eq!(version(id), expected, "{id}");
        }
    }
}
