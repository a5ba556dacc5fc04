//! Arguments as models send them, and hostile schemas.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check_and_print(arguments: Value, expect: Expect) {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "number"},
            "deep": {"type": "boolean"},
            "count": {"type": "integer", "minimum": 1},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
            "mode": {"enum": ["a", "b"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["path"],
        "$defs": {"edit": {
            "type": "object",
            "properties": {"old": {"type": "string"}},
            "required": ["old"],
            "additionalProperties": false,
        }},
    });
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let text = match check("t", &schema, &arguments) {
        Ok(checked) => Value::Object(checked).to_string(),
        Err(message) => message,
    };
    expect.assert_eq(&text);
}

#[test]
fn convertible_values_are_converted() {
    check_and_print(
        json!({"path": 5, "limit": "2", "deep": 1, "count": 3.0, "extra": null}),
        expect![[r#"{"path":"5","limit":2,"deep":true,"count":3.0,"extra":null}"#]],
    );
    check_and_print(
        json!({"path": "a", "limit": null, "either": null, "deep": "False"}),
        expect![[r#"{"path":"a","either":null,"deep":false}"#]],
    );
    check_and_print(
        json!({"path": "a", "edits": {"old": 5}}),
        expect![[r#"{"path":"a","edits":[{"old":"5"}]}"#]],
    );
}

#[test]
fn matching_values_are_unchanged() {
    let either = json!({"anyOf": [{"type": "number"}, {"type": "string"}]});
    let schema = json!({"type": "object", "properties": {"v": either}});
    for (given, checked) in
        [(json!("5"), json!("5")), (json!(5), json!(5)), (json!(true), json!("true"))]
    {
        let arguments = Arguments::from_iter([("v".to_owned(), given)]);
        assert_eq!(check("t", &schema, &arguments).unwrap()["v"], checked);
    }
}

#[test]
fn every_violation_is_named() {
    check_and_print(
        json!({"limit": "many", "edits": [{"old": []}, {"olt": "x"}], "mode": "c", "count": 0}),
        expect![[r#"
            Validation failed for tool "t":
              - path: must have required properties path
              - limit: must be number
              - edits.0.old: must be string
              - edits.1.old: must have required properties old
              - edits.1: must not have additional properties
              - mode: must be one of "a", "b"
              - count: must be >= 1

            Received arguments:
            {
              "limit": "many",
              "edits": [
                {
                  "old": []
                },
                {
                  "olt": "x"
                }
              ],
              "mode": "c",
              "count": 0
            }"#]],
    );
}

#[test]
fn null_for_a_required_property_is_refused() {
    check_and_print(
        json!({"path": null}),
        expect![[r#"
            Validation failed for tool "t":
              - path: must be string

            Received arguments:
            {
              "path": null
            }"#]],
    );
}

#[test]
fn circular_schema_does_not_hang() {
    let schema = json!({"$ref": "#"});
    assert!(check("t", &schema, &Arguments::new()).is_ok());
}

/// A list of some hundred kilobytes.
fn many(one: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..20_000).map(one).collect())
}

/// A chain of definitions, each with two references to the next.
fn chain(length: usize, last: Value) -> Value {
    let mut definitions = Map::new();
    for index in 0..length {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        definitions.insert(format!("d{index}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert(format!("d{length}"), last);
    json!({"type": "object", "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

/// A value inside this many brackets.
fn nested(depth: usize, inner: Value) -> Value {
    (0..depth).fold(inner, |inner, _| json!([inner]))
}

/// Two forms per level, both of which match until the last level.
fn either_way() -> Value {
    let list = |more: Value| {
        let mut list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}});
        list["minItems"] = more;
        list
    };
    let forms = json!([list(json!(1)), list(json!(0)), {"const": "never"}]);
    json!({"properties": {"v": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"anyOf": forms}}})
}

#[test]
fn hostile_schema_is_refused_at_registration() {
    let circular = "the schema refers to itself without end (anyOf, oneOf)";
    let forms = "the schema allows more than 10000 forms for one value";
    let complex = "the schema is too complex: checking arguments against it takes too long";
    let deep = "the schema or the arguments are nested more than 256 levels deep";
    let a_long_way = json!({"$ref": format!("#/$defs/{}", "x".repeat(1000))});
    let long_ways: Map<String, Value> =
        (0..20_000).map(|index| (index.to_string(), a_long_way.clone())).collect();
    let cases = [
        (json!({"type": "object", "anyOf": [{"$ref": "#"}]}), circular),
        (json!({"oneOf": [{"anyOf": [{"$ref": "#/oneOf/0"}]}]}), circular),
        (json!({"properties": {"v": {"anyOf": [{"$ref": "#/properties/v"}]}}}), circular),
        (chain(30, json!({"type": "string"})), forms),
        (chain(300, json!({"anyOf": [{"$ref": "#/$defs/d0"}]})), deep),
        (json!({"anyOf": many(|_| json!({"type": "string"}))}), forms),
    ];
    for (schema, reason) in cases {
        assert_eq!(check_schema(&schema).unwrap_err(), reason);
        // A tool registered without the check fails when it is called, and the program continues.
        let arguments = Arguments::from_iter([("v".to_owned(), json!({"w": 5}))]);
        check("t", &schema, &arguments).unwrap_err();
    }
    assert_eq!(check_schema(&json!({"properties": long_ways})).unwrap_err(), complex);
}

#[test]
fn ordinary_schema_is_accepted() {
    let tree = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#"}},
            "value": {"anyOf": [{"type": "string"}, {"type": "number"}, {"$ref": "#/$defs/t"}]},
        },
        "$defs": {"t": {"oneOf": [{"type": "null"}, {"items": {"$ref": "#/$defs/t"}}]}},
    });
    let cases = [json!({}), json!({"$ref": "#"}), json!({"$ref": "#/nowhere"}), tree, either_way()];
    for schema in cases {
        assert_eq!(check_schema(&schema), Ok(()));
    }
}

#[test]
fn deep_arguments_of_a_recursive_schema_are_checked() {
    let schema = json!({"properties": {"v": {"$ref": "#/$defs/t"}}, "$defs": {"t": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/t"}}],
    }}});
    assert_eq!(check_schema(&schema), Ok(()));
    let arguments = Arguments::from_iter([("v".to_owned(), nested(100, json!("x")))]);
    assert_eq!(check("t", &schema, &arguments), Ok(arguments));
}

/// Schemas and arguments of up to a megabyte, in all combinations.
#[test]
fn checks_of_large_inputs_stay_within_the_step_limit() {
    let wide = |inner: Value| json!({"properties": {"v": {"items": inner}}});
    let names = many(|index| json!(format!("name number {index}")));
    let keys: Map<String, Value> =
        (0..20_000).map(|index| (format!("key{index}"), json!({"type": "integer"}))).collect();
    let schemas = [
        either_way(),
        chain(30, json!({"type": "string"})),
        wide(json!({"anyOf": many(|index| json!({"const": index}))})),
        wide(json!({"enum": names})),
        wide(json!({"required": names})),
        wide(json!({"type": names})),
        wide(json!({"const": names})),
        wide(json!({"properties": keys, "additionalProperties": false})),
        json!({"additionalProperties": {"$ref": "#"}, "anyOf": [{"$ref": "#/items"}]}),
        wide(json!({"anyOf": [{"$ref": "#/properties/v"}, {"$ref": "#/properties/v/items"}]})),
    ];
    let nulls: Map<String, Value> =
        (0..20_000).map(|index| (format!("key{index}"), Value::Null)).collect();
    let arguments = [
        json!(1),
        nested(110, json!(1)),
        nested(30, Value::Null),
        many(|index| json!(index)),
        many(|index| json!({"a": [index]})),
        json!([nulls]),
        json!(["x".repeat(1_000_000)]),
        names,
    ];
    for schema in &schemas {
        for value in &arguments {
            let mut value = json!({"v": value});
            let mut checker = Checker::new(schema);
            let result = checker.value(schema, &mut value, &mut Path::default());
            let steps = checker.effort.steps();
            assert!(steps <= effort::STEPS_MAX, "{steps} {result:?}");
        }
    }
}

#[test]
fn endless_check_fails_with_an_error_text() {
    let arguments = Arguments::from_iter([("v".to_owned(), nested(60, Value::Null))]);
    assert_eq!(
        check("t", &either_way(), &arguments).unwrap_err(),
        "Validation failed for tool \"t\": the schema is too complex: checking arguments against it takes too long"
    );
}

#[test]
fn only_the_first_violations_are_listed() {
    let schema = json!({"properties": {"v": {"items": {"type": "boolean"}}}});
    let values: Vec<u32> = (5..505).collect();
    let arguments = Arguments::from_iter([("v".to_owned(), json!(values))]);
    let message = check("t", &schema, &arguments).unwrap_err();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[100..102], ["  - v.99: must be boolean", "  - and 400 more"]);
}
