//! Thinking settings of Gemini models: the second generation takes a number of tokens, the third a
//! level.

use serde::Serialize;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::Request;

use crate::request_options::RequestOptions;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(flatten)]
    effort: Effort,
}

#[derive(Serialize)]
enum Effort {
    #[serde(rename = "thinkingLevel")]
    Level(String),
    #[serde(rename = "thinkingBudget")]
    Budget(i64),
}

impl ThinkingConfig {
    pub(super) fn new(request: &Request, access: &RequestOptions) -> Option<ThinkingConfig> {
        let (model, level) = (&*request.model, request.thinking);
        if !model.reasoning {
            return None;
        }
        let off = level == ThinkingLevel::Off;
        let named = model.thinking_level_map.as_ref().and_then(|map| map.get(&level));
        let effort = match named {
            Some(Some(name)) => Effort::Level(name.to_uppercase()),
            // A model that always thinks refuses to be switched off.
            Some(None) if off => return None,
            _ if is_recent(model) => Effort::Level(word(level).to_owned()),
            _ => Effort::Budget(budget(model, level, access)),
        };
        Some(ThinkingConfig { include_thoughts: (!off).then_some(true), effort })
    }
}

/// Whether it is of the third generation or later. These check the signatures of calls, and accept
/// images in results.
pub(super) fn is_recent(model: &Model) -> bool {
    let Some((_, name)) = model.id.split_once("gemini-") else {
        return false;
    };
    let digits = name.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(generation) => generation >= 3,
        // `gemini-flash-latest` is always the newest.
        Err(_) => name.ends_with("-latest"),
    }
}

/// They cannot be switched off; the lowest level that all of them support is low.
fn word(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Minimal => "MINIMAL",
        ThinkingLevel::Off | ThinkingLevel::Low => "LOW",
        ThinkingLevel::Medium => "MEDIUM",
        ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => "HIGH",
    }
}

/// Tokens, within the model's range. https://ai.google.dev/gemini-api/docs/thinking
fn budget(model: &Model, level: ThinkingLevel, access: &RequestOptions) -> i64 {
    /// The model decides.
    const ANY: i64 = -1;
    let (off, least, most) = match () {
        () if model.id.contains("2.5-pro") => (128, 128, 32_768),
        () if model.id.contains("2.5-flash-lite") => (0, 512, 24_576),
        () if model.id.contains("2.5-flash") => (0, 1, 24_576),
        () if level == ThinkingLevel::Off => return 0,
        () => return ANY,
    };
    match level {
        ThinkingLevel::Off => off,
        level => {
            i64::try_from(access.thinking_budgets.of(level)).unwrap_or(most).clamp(least, most)
        }
    }
}
