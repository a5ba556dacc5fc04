use expect_test::{Expect, expect};

use super::*;

fn check(text: &str, expected: Expect) {
    let mut problems = Vec::new();
    let file = ModelsFile::read(text, &Catalogue::default(), &mut problems);
    let mut report = String::new();
    for provider in &file.providers {
        for DescribedModel { model, .. } in &provider.models {
            report += &format!("{}/{}\n", model.provider, model.id);
        }
    }
    for JsonProblem { line, what } in problems {
        report += &format!("line {line}: {what}\n");
    }
    assert!(!report.contains("secret"), "{report}");
    expected.assert_eq(&report);
}

#[test]
fn problems_name_their_line_and_the_rest_is_kept() {
    check(
        r#"{
  // Comments are allowed.
  "providers": {
    "good": {
      "api": "anthropic-messages", "baseUrl": "http://localhost", "apiKey": "secret",
      "colour": "secret",
      "models": [
        {"id": "a", "reasoning": true},
        {"id": "b", "reasoning": "secret"},
        {"name": "c"},
        {"id": "d", "cost": {"input": 1}},
        {"id": "a"},
        {"id": "e", "samplingParams": {"top_p": "secret"}},
        {"id": "f", "api": "telepathy"},
        "secret",
      ],
      "modelOverrides": {
        "a": {"name": "A"},
        "zzz": {"name": "A"},
        "c": {"cost": {"tiers": [{"inputTokensAbove": 9, "input": 1}]}},
        "b": {
          "headers": {"x": ["secret"]}
        }
      },
    },
    "bad": {
      "apiKey": ["secret"]
    },
    "worse": "secret",
    "homeless": {"models": [{"id": "a", "api": "own-api"}, {"id": "b"}]},
    "good": {},
    "openai": {"apiKey": "secret", "models": []},
  },
  "provider": "secret"
}"#,
        expect![[r#"
            good/a
            good/e
            good/f
            line 34: field `provider` is unknown and ignored
            line 6: provider `good`: field `colour` is unknown and ignored
            line 9: provider `good`: model `b`: field `reasoning`: expected true or false
            line 10: provider `good`: a model without the field `id`
            line 11: provider `good`: model `d`: field `cost`: expected input, output, cacheRead and cacheWrite
            line 12: provider `good`: model `a`: defined twice; the second definition is ignored
            line 13: provider `good`: model `e`: field `samplingParams` is unknown and ignored
            line 14: provider `good`: model `f`: tiller does not support the API `telepathy`
            line 15: provider `good`: expected an object
            line 19: provider `good`: change to `zzz`: there is no such model
            line 20: provider `good`: change to `c`: field `cost`: expected a number for each price, and all prices in each of `tiers`
            line 22: provider `good`: change to `b`: field `headers`: expected a string for each header
            line 27: provider `bad`: field `apiKey`: expected a string
            line 29: provider `worse`: expected an object
            line 30: provider `homeless`: model `a`: missing field `baseUrl`
            line 30: provider `homeless`: model `b`: missing field `api`
            line 31: provider `good`: defined twice; the second definition is ignored
        "#]],
    );
}

#[test]
fn invalid_json_is_reported_with_its_line() {
    check(
        "{\n  \"providers\": {\n    \"a\": secret\n",
        expect![[r#"
        line 3: expected value at line 3 column 10
    "#]],
    );
    check(
        "[]",
        expect![[r#"
        line 1: expected an object
    "#]],
    );
    check("{}", expect![[""]]);
    check(
        "{\"providers\": []}",
        expect![[r#"
            line 1: field `providers`: expected an object
        "#]],
    );
}

#[test]
fn headers_merge_provider_model_and_override() {
    let text = r#"{"providers": {"p": {"api": "anthropic-messages", "baseUrl": "x",
        "headers": {"a": "1", "b": "1"},
        "models": [{"id": "m", "headers": {"b": "2", "c": "2"}}],
        "modelOverrides": {"m": {"headers": {"c": "3"}}}}}}"#;
    let file = ModelsFile::read(text, &Catalogue::default(), &mut Vec::new());
    let mut merged = BTreeMap::new();
    merged.extend(file.headers("p", "m").into_iter().map(|(name, value)| {
        let ConfigValue::Text(text) = value else { panic!("a command") };
        (name, text)
    }));
    assert_eq!(
        merged,
        BTreeMap::from([("a", "1"), ("b", "2"), ("c", "3")].map(|(n, v)| (n.into(), v.into())))
    );
    assert!(file.headers("p", "other").len() == 2 && file.headers("q", "m").is_empty());
}
