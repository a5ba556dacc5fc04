//! Models, their prices and thinking levels.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::address;
use crate::message::{Usage, UsageCost, plain_number};

/// A model by provider and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    pub provider: String,
    pub id: String,
}

/// Everything known about a model. Serialised on the wire, except the headers, which may contain
/// secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub id: String,
    pub name: String,
    /// The API of its server, for example `anthropic-messages`.
    pub api: String,
    pub provider: String,
    /// Serialised without the password that may be in it.
    #[serde(serialize_with = "without_password")]
    pub base_url: String,
    pub reasoning: bool,
    /// This model's name for each level; `null` if it has no such level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level_map: Option<BTreeMap<ThinkingLevel, Option<String>>>,
    pub input: Vec<Modality>,
    pub cost: Price,
    pub context_window: u64,
    pub max_tokens: u64,
    #[serde(skip)]
    pub headers: BTreeMap<String, String>,
    /// Options for servers that deviate from their API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<Value>,
}

fn without_password<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&address::shown(url))
}

impl Model {
    pub fn sees_images(&self) -> bool {
        self.input.contains(&Modality::Image)
    }

    /// The levels of this model, from `off` upwards.
    pub fn thinking_levels(&self) -> Vec<ThinkingLevel> {
        if !self.reasoning {
            return vec![ThinkingLevel::Off];
        }
        ThinkingLevel::ALL.into_iter().filter(|&level| self.has_level(level)).collect()
    }

    fn has_level(&self, level: ThinkingLevel) -> bool {
        let mapped = self.thinking_level_map.as_ref().and_then(|map| map.get(&level));
        match mapped {
            Some(name) => name.is_some(),
            // The highest levels are supported by few models, so they must be named.
            None => level < ThinkingLevel::Xhigh,
        }
    }

    /// The nearest level of this model: the next one up, otherwise the next one down.
    pub fn clamp(&self, wanted: ThinkingLevel) -> ThinkingLevel {
        let levels = self.thinking_levels();
        let above = levels.iter().find(|&&level| level >= wanted);
        let below = levels.iter().rev().find(|&&level| level <= wanted);
        above.or(below).copied().unwrap_or(ThinkingLevel::Off)
    }

    /// The price of these tokens. One-hour cache writes cost twice the input price.
    pub fn price(&self, usage: &Usage) -> UsageCost {
        let per_token = |rate: f64| rate / 1_000_000.0;
        let long = usage.cache_write_1h.unwrap_or(0).min(usage.cache_write);
        let short = usage.cache_write - long;
        let prompt = [usage.input, usage.cache_read, usage.cache_write];
        let prompt_tokens = prompt.into_iter().fold(0, u64::saturating_add);
        let rates = self.cost.rates(prompt_tokens);
        let input = per_token(rates.input) * usage.input as f64;
        let output = per_token(rates.output) * usage.output as f64;
        let cache_read = per_token(rates.cache_read) * usage.cache_read as f64;
        let cache_write = per_token(rates.cache_write) * short as f64
            + per_token(rates.input * 2.0) * long as f64;
        let total = input + output + cache_read + cache_write;
        UsageCost { input, output, cache_read, cache_write, total, total_from_provider: false }
    }
}

/// The input types of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Modality {
    Text,
    Image,
}

/// Dollars per million tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    #[serde(serialize_with = "plain_number")]
    pub input: f64,
    #[serde(serialize_with = "plain_number")]
    pub output: f64,
    #[serde(serialize_with = "plain_number")]
    pub cache_read: f64,
    #[serde(serialize_with = "plain_number")]
    pub cache_write: f64,
    /// Prices for longer prompts, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<PriceTier>,
}

/// The prices for prompts, including cached tokens, longer than this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceTier {
    pub input_tokens_above: u64,
    #[serde(serialize_with = "plain_number")]
    pub input: f64,
    #[serde(serialize_with = "plain_number")]
    pub output: f64,
    #[serde(serialize_with = "plain_number")]
    pub cache_read: f64,
    #[serde(serialize_with = "plain_number")]
    pub cache_write: f64,
}

impl Price {
    /// The prices for a prompt of this length: the tier with the highest bound that it exceeds.
    fn rates(&self, prompt_tokens: u64) -> PriceTier {
        let passed = self.tiers.iter().filter(|tier| tier.input_tokens_above < prompt_tokens);
        let Price { input, output, cache_read, cache_write, .. } = *self;
        passed.max_by_key(|tier| tier.input_tokens_above).cloned().unwrap_or(PriceTier {
            input_tokens_above: 0,
            input,
            output,
            cache_read,
            cache_write,
        })
    }
}

/// How much the model is asked to think.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    /// Some models have it beside `xhigh`. For the others it is the highest they have.
    Max,
}

impl ThinkingLevel {
    pub const ALL: [ThinkingLevel; 7] = [
        ThinkingLevel::Off,
        ThinkingLevel::Minimal,
        ThinkingLevel::Low,
        ThinkingLevel::Medium,
        ThinkingLevel::High,
        ThinkingLevel::Xhigh,
        ThinkingLevel::Max,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ThinkingLevel::Off => "off",
            ThinkingLevel::Minimal => "minimal",
            ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High => "high",
            ThinkingLevel::Xhigh => "xhigh",
            ThinkingLevel::Max => "max",
        }
    }

    pub fn read(name: &str) -> Option<ThinkingLevel> {
        ThinkingLevel::ALL.into_iter().find(|level| level.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(reasoning: bool, map: &[(ThinkingLevel, Option<&str>)]) -> Model {
        let map: BTreeMap<_, _> =
            map.iter().map(|(level, name)| (*level, name.map(String::from))).collect();
        Model {
            id: "m".into(),
            name: "M".into(),
            api: "test".into(),
            provider: "p".into(),
            base_url: String::new(),
            reasoning,
            thinking_level_map: (!map.is_empty()).then_some(map),
            input: vec![Modality::Text],
            cost: Price {
                input: 3.0,
                output: 15.0,
                cache_read: 0.3,
                cache_write: 3.75,
                tiers: Vec::new(),
            },
            context_window: 1000,
            max_tokens: 100,
            headers: BTreeMap::new(),
            compat: None,
        }
    }

    #[test]
    fn levels_are_clamped_upwards_then_downwards() {
        use ThinkingLevel::*;
        assert_eq!(model(false, &[]).clamp(High), Off);
        assert_eq!(model(true, &[]).clamp(Xhigh), High);
        assert_eq!(model(true, &[(Xhigh, Some("x"))]).clamp(Xhigh), Xhigh);
        assert_eq!(model(true, &[]).clamp(Max), High);
        assert_eq!(model(true, &[(Xhigh, Some("x"))]).clamp(Max), Xhigh);
        assert_eq!(model(true, &[(Xhigh, Some("x")), (Max, Some("m"))]).clamp(Max), Max);
        assert_eq!(model(true, &[(Xhigh, Some("x")), (Max, Some("m"))]).clamp(Xhigh), Xhigh);
        assert_eq!(model(true, &[(Minimal, None), (Low, None)]).clamp(Minimal), Medium);
    }

    #[test]
    fn one_hour_cache_write_costs_twice_the_input() {
        let usage = Usage {
            input: 100,
            output: 10,
            cache_write: 30,
            cache_write_1h: Some(10),
            ..Usage::default()
        };
        let cost = model(true, &[]).price(&usage);
        assert_eq!(cost.input, 3.0 / 1e6 * 100.0);
        assert_eq!(cost.cache_write, 3.75 / 1e6 * 20.0 + 6.0 / 1e6 * 10.0);
    }

    #[test]
    fn long_prompt_uses_its_price_tier() {
        let cost = r#"{"input":2,"output":10,"cacheRead":0.2,"cacheWrite":2.5,"tiers":[
            {"inputTokensAbove":500,"input":8,"output":40,"cacheRead":0.8,"cacheWrite":10},
            {"inputTokensAbove":200,"input":4,"output":20,"cacheRead":0.4,"cacheWrite":5}]}"#;
        let mut model = model(true, &[]);
        model.cost = serde_json::from_str(cost).unwrap();
        let output_price = |input, cache_read, cache_write| {
            let usage = Usage { input, cache_read, cache_write, output: 1, ..Usage::default() };
            (model.price(&usage).output * 1e6).round()
        };
        // Cached tokens count towards the length; output tokens do not.
        assert_eq!(output_price(200, 0, 0), 10.0);
        assert_eq!(output_price(1, 100, 100), 20.0);
        assert_eq!(output_price(500, 0, 0), 20.0);
        assert_eq!(output_price(501, 0, 0), 40.0);
        assert_eq!(output_price(u64::MAX, 1, 1), 40.0);
        let written = serde_json::to_string(&model.cost).unwrap();
        assert_eq!(written, cost.replace(['\n', ' '], ""));
    }
}
