use std::collections::HashSet;

use expect_test::{Expect, expect};

use super::*;

fn check(provider: &str, id: &str, expected: Expect) {
    let catalogue = Catalogue::default();
    let entry = catalogue.find(provider, id).unwrap();
    expected.assert_eq(&serde_json::to_string_pretty(&catalogue.model(&entry)).unwrap());
}

#[test]
fn a_model_is_complete() {
    check(
        "anthropic",
        "claude-opus-4-8",
        expect![[r#"
            {
              "id": "claude-opus-4-8",
              "name": "Claude Opus 4.8",
              "api": "anthropic-messages",
              "provider": "anthropic",
              "baseUrl": "https://api.anthropic.com",
              "reasoning": true,
              "thinkingLevelMap": {
                "xhigh": "xhigh",
                "max": "max"
              },
              "input": [
                "text",
                "image"
              ],
              "cost": {
                "input": 5,
                "output": 25,
                "cacheRead": 0.5,
                "cacheWrite": 6.25
              },
              "contextWindow": 1000000,
              "maxTokens": 128000,
              "compat": {
                "supportsMidConvoSystemMessages": true,
                "supportsMidConvoToolChanges": true,
                "forceAdaptiveThinking": true,
                "supportsTemperature": false,
                "supportsStrictTools": true
              }
            }"#]],
    );
    check(
        "groq",
        "llama-3.1-8b-instant",
        expect![[r#"
        {
          "id": "llama-3.1-8b-instant",
          "name": "Llama 3.1 8B",
          "api": "openai-completions",
          "provider": "groq",
          "baseUrl": "https://api.groq.com/openai/v1",
          "reasoning": false,
          "input": [
            "text"
          ],
          "cost": {
            "input": 0.05,
            "output": 0.08,
            "cacheRead": 0,
            "cacheWrite": 0
          },
          "contextWindow": 131072,
          "maxTokens": 131072,
          "compat": {
            "supportsStrictMode": true
          }
        }"#]],
    );
    check(
        "deepseek",
        "deepseek-v4-pro",
        expect![[r#"
            {
              "id": "deepseek-v4-pro",
              "name": "DeepSeek V4 Pro",
              "api": "openai-completions",
              "provider": "deepseek",
              "baseUrl": "https://api.deepseek.com",
              "reasoning": true,
              "thinkingLevelMap": {
                "minimal": null,
                "low": null,
                "medium": null,
                "high": "high",
                "max": "max"
              },
              "input": [
                "text"
              ],
              "cost": {
                "input": 1.32,
                "output": 3.96,
                "cacheRead": 0.044,
                "cacheWrite": 0
              },
              "contextWindow": 1000000,
              "maxTokens": 384000,
              "compat": {
                "supportsStore": false,
                "supportsDeveloperRole": false,
                "maxTokensField": "max_tokens",
                "requiresReasoningContentOnAssistantMessages": true,
                "thinkingFormat": "deepseek",
                "supportsStrictMode": true,
                "supportsMidConvoSystemMessages": true
              }
            }"#]],
    );
}

#[test]
fn a_longer_prompt_has_its_own_price() {
    let catalogue = Catalogue::default();
    let entry = catalogue.find("openai", "gpt-5.5").unwrap();
    let cost = serde_json::to_string(&catalogue.model(&entry).cost).unwrap();
    expect![[r#"{"input":5,"output":30,"cacheRead":0.5,"cacheWrite":0,"tiers":[{"inputTokensAbove":272000,"input":10,"output":45,"cacheRead":1,"cacheWrite":0}]}"#]].assert_eq(&cost);
}

#[test]
fn every_line_can_be_read() {
    let catalogue = Catalogue::default();
    let (mut count, mut tiered) = (0, 0);
    for provider in catalogue.providers() {
        let mut ids = HashSet::new();
        for entry in provider.entries() {
            let model = catalogue.model(&entry);
            assert!(ids.insert(entry.id), "{} twice", entry.id);
            assert_eq!((&*model.id, &*model.provider), (entry.id, provider.name));
            assert!(model.base_url.starts_with("https://") || model.base_url.starts_with('{'));
            assert!(model.context_window >= 1000 && model.max_tokens > 0, "{model:?}");
            assert!(!model.name.is_empty() && !model.api.is_empty(), "{model:?}");
            assert_eq!(model.compat.is_none(), {
                let switches = catalogue.shared().switches[entry.numbers.switches];
                switches.is_empty()
            });
            for tier in &model.cost.tiers {
                assert!(tier.input_tokens_above >= 1000 && tier.output > 0.0, "{model:?}");
            }
            tiered += usize::from(!model.cost.tiers.is_empty());
            count += 1;
        }
        assert!(ids.contains(provider.default), "{}: {}", provider.name, provider.default);
    }
    assert_eq!(count, PACKED.lines().count() - 1 - catalogue.index().counts.iter().sum::<usize>());
    assert!(count > 1400, "{count}");
    assert!(tiered >= 45, "{tiered}");
}

#[test]
fn looking_for_a_provider_reads_no_model() {
    let catalogue = Catalogue::unread();
    assert!(catalogue.provider("openai").is_some());
    assert!(catalogue.provider("nobody").is_none());
    assert!(catalogue.find("openai", "nothing").is_none());
    assert!(!catalogue.was_read());
}

#[test]
fn it_stays_small() {
    assert!(PACKED.len() < 200_000, "{} bytes", PACKED.len());
}

#[test]
fn max_is_a_level_beside_xhigh() {
    let named = [("xhigh", Some("x")), ("max", Some("m")), ("low", None), ("ultra", Some("u"))];
    let names = level_names(named.into_iter());
    assert_eq!(names.get(&ThinkingLevel::Xhigh), Some(&Some("x".to_owned())));
    assert_eq!(names.get(&ThinkingLevel::Max), Some(&Some("m".to_owned())));
    assert_eq!(names.get(&ThinkingLevel::Low), Some(&None));
    assert_eq!(names.len(), 3);
}
