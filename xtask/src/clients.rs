//! `cargo xtask clients`: the files that are made from the schema of the protocol. `--check` only
//! compares them.
//!
//! [`shape`] reads the schema, [`types`] turns it into named types without inheritance, and
//! [`python`] and [`typescript`] print those.

mod shape;
mod types;
mod python;
mod typescript;

use std::fs;
use std::path::Path;

use tiller_protocol::{Level, schema};

/// The level whose types the clients have: it has the most fields.
const LEVEL: Level = Level::PiDelta;

/// A generated file: its path from the root, and its text.
type Generated = (String, String);

/// Writes all generated files.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (path, text) in files()? {
        let whole = root.join(&path);
        let folder = whole.parent().unwrap_or(root);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&whole, text))
            .map_err(|err| format!("cannot write {path}: {err}"))?;
    }
    Ok(())
}

/// Names the files that differ from what `write` would write.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let files = files()?;
    let stale = stale(&files, |path| fs::read_to_string(root.join(path)).ok());
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("out of date: {}; run `cargo xtask clients`", stale.join(", ")))
}

/// The paths of the files that `read` does not return as they should be.
fn stale(files: &[Generated], read: impl Fn(&str) -> Option<String>) -> Vec<&str> {
    let is_stale = |(path, text): &&Generated| read(path).as_ref() != Some(text);
    files.iter().filter(is_stale).map(|(path, _)| path.as_str()).collect()
}

fn files() -> Result<Vec<Generated>, String> {
    let definitions = shape::parse(&schema::schema(LEVEL))?;
    let types = types::flatten(&definitions)?;
    let mut files: Vec<Generated> = Level::ALL
        .into_iter()
        .map(|level| (format!("schema/tiller-{}.schema.json", level.name()), schema::text(level)))
        .collect();
    files.push(("schema/tiller-sessions.schema.json".to_owned(), schema::sessions::text()));
    let python = python::print(&types);
    files.push(("clients/python/src/tiller_client/generated.py".to_owned(), python));
    files.push(("clients/typescript/src/generated.ts".to_owned(), typescript::print(&types)));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn stale_and_missing_files_are_named() {
        let files =
            ["a", "b", "c"].map(|path| (path.to_owned(), format!("text of {path}"))).to_vec();
        let read = |path: &str| match path {
            "a" => Some("text of a".to_owned()),
            "b" => Some("old".to_owned()),
            _ => None,
        };
        assert_eq!(stale(&files, read), ["b", "c"]);
    }

    #[test]
    fn protocol_has_only_known_constructs() {
        assert!(files().is_ok());
    }

    /// Every construct that the two printers know.
    fn constructs() -> Value {
        json!({ "$defs": {
            "Base": { "type": "object", "properties": {
                "message": { "type": "string" },
                "images": { "type": "array", "items": { "$ref": "#/$defs/Image" } },
            }, "required": ["message"] },
            "Command": {
                "$ref": "#/$defs/Base", "type": "object", "description": "Sends it.\nAt once.",
                "properties": { "type": { "const": "send" }, "id": { "description": "Any value." } },
                "required": ["type"],
            },
            "Image": { "type": "object", "properties": {
                "size": { "type": ["integer", "null"] },
                "class": { "type": "number" },
                "x-y": { "type": "boolean" },
            }, "required": ["size", "class"],
                "anyOf": [{ "required": ["size"] }, { "required": ["x-y"] }] },
            "Item": { "oneOf": [
                { "type": "object", "properties": { "type": { "const": "text" } }, "required": ["type"] },
                { "$ref": "#/$defs/DoneResponse" },
            ] },
            "Kind": { "description": "A kind.", "oneOf": [
                { "type": "string", "enum": ["a", "b"] },
                { "type": "string", "const": "c", "description": "The last." },
            ] },
            "Optional": { "type": "object", "properties": {
                "kind": { "$ref": "#/$defs/Kind" },
                "map": { "type": "object", "additionalProperties": { "type": "integer" } },
                "free": { "type": "object" },
                "inner": { "type": "object", "properties": { "ok": { "const": true } }, "required": ["ok"] },
            } },
            "Step": {
                "type": "object", "properties": { "partial": true },
                "oneOf": [
                    { "type": "object", "properties": { "type": { "const": "start" } }, "required": ["type"] },
                    { "type": "object", "description": "More text.",
                      "properties": { "type": { "const": "text_delta" }, "delta": { "type": "string" } },
                      "required": ["type", "delta"] },
                ],
            },
            "Text": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "$ref": "#/$defs/Step" } }, { "type": "null" }] },
            "ServerLine": { "anyOf": [{ "$ref": "#/$defs/Step" }, { "$ref": "#/$defs/DoneResponse" }] },
            "DoneResponse": { "type": "object", "properties": { "type": { "const": "response" } }, "required": ["type"] },
        } })
    }

    fn printed(print: fn(&[types::Type]) -> String, expect: Expect) {
        let definitions = shape::parse(&constructs()).unwrap();
        expect.assert_eq(&print(&types::flatten(&definitions).unwrap()));
    }

    #[test]
    fn python_has_every_construct() {
        printed(
            python::print,
            expect![[r#"
            """The types of the protocol. Generated by `cargo xtask clients`: do not edit."""

            from __future__ import annotations

            from typing import Any, Literal, TypeAlias, TypedDict, Union


            class _BaseRequired(TypedDict):
                message: str


            class Base(_BaseRequired, total=False):
                images: list[Image]


            class _CommandRequired(TypedDict):
                type: Literal["send"]
                message: str


            class Command(_CommandRequired, total=False):
                """Sends it.
                At once.
                """

                #: Any value.
                id: Any
                images: list[Image]


            __ImageRequiredKeys = TypedDict(
                "__ImageRequiredKeys",
                {
                    "class": float,
                },
            )


            class _ImageRequired(__ImageRequiredKeys):
                size: int | None


            _ImageKeys = TypedDict(
                "_ImageKeys",
                {
                    "x-y": bool,
                },
                total=False,
            )


            class Image(_ImageRequired, _ImageKeys, total=False):
                pass


            class ItemText(TypedDict):
                type: Literal["text"]

            Item: TypeAlias = Union["ItemText", "DoneResponse"]

            #: A kind.
            #: `c`: The last.
            Kind: TypeAlias = Literal["a", "b", "c"]


            class OptionalInner(TypedDict):
                ok: Literal[True]


            class Optional(TypedDict, total=False):
                kind: Kind
                map: dict[str, int]
                free: dict[str, Any]
                inner: OptionalInner


            class _StepStartRequired(TypedDict):
                type: Literal["start"]


            class StepStart(_StepStartRequired, total=False):
                partial: Any


            class _StepTextDeltaRequired(TypedDict):
                type: Literal["text_delta"]
                delta: str


            class StepTextDelta(_StepTextDeltaRequired, total=False):
                """More text."""

                partial: Any

            Step: TypeAlias = Union["StepStart", "StepTextDelta"]

            Text: TypeAlias = Union[str, list["Step"], None]

            ServerLine: TypeAlias = Union["Step", "DoneResponse"]

            #: Any response.
            ServerResponse: TypeAlias = "DoneResponse"

            #: Any line of tiller that is not a response.
            ServerEvent: TypeAlias = "Step"


            class DoneResponse(TypedDict):
                type: Literal["response"]
        "#]],
        );
    }

    #[test]
    fn typescript_has_every_construct() {
        printed(
            typescript::print,
            expect![[r#"
            // The types of the protocol. Generated by `cargo xtask clients`: do not edit.

            export interface Base {
              message: string;
              images?: Image[];
            }

            /**
             * Sends it.
             * At once.
             */
            export interface Command {
              type: "send";
              /** Any value. */
              id?: unknown;
              message: string;
              images?: Image[];
            }

            export interface Image {
              size: number | null;
              class: number;
              "x-y"?: boolean;
            }

            export interface ItemText {
              type: "text";
            }

            export type Item = ItemText | DoneResponse;

            /**
             * A kind.
             * `c`: The last.
             */
            export type Kind = "a" | "b" | "c";

            export interface OptionalInner {
              ok: true;
            }

            export interface Optional {
              kind?: Kind;
              map?: { [key: string]: number };
              free?: { [key: string]: unknown };
              inner?: OptionalInner;
            }

            export interface StepStart {
              type: "start";
              partial?: unknown;
            }

            /** More text. */
            export interface StepTextDelta {
              type: "text_delta";
              partial?: unknown;
              delta: string;
            }

            export type Step = StepStart | StepTextDelta;

            export type Text = string | Step[] | null;

            export type ServerLine = Step | DoneResponse;

            /** Any response. */
            export type ServerResponse = DoneResponse;

            /** Any line of tiller that is not a response. */
            export type ServerEvent = Step;

            export interface DoneResponse {
              type: "response";
            }
        "#]],
        );
    }

    #[test]
    fn unknown_constructs_are_refused() {
        let refusal = |definition: Value| {
            let parsed = shape::parse(&json!({ "$defs": { "A": definition } }));
            parsed.and_then(|definitions| types::flatten(&definitions)).unwrap_err()
        };
        let refusals = [
            json!({ "type": "string", "pattern": "x" }),
            json!({ "type": "date" }),
            json!({ "const": 1.5 }),
            json!({ "$ref": "other.json" }),
            json!({ "$ref": "#/$defs/B", "type": "object", "properties": {} }),
            json!({ "type": "object", "properties": { "a": false } }),
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            json!({ "oneOf": [{ "type": "object", "properties": {} }, { "type": "object", "properties": {} }] }),
        ]
        .map(refusal);
        expect![[r#"
            A: the keyword `pattern` is not known
            A: the type "date" is not known
            A: the literal 1.5 is not known
            A: the reference "other.json" is not to a definition
            A: `B` is not defined
            A: a: `false` is not a schema
            A: `additionalProperties` beside `properties` must be true
            A: the variants have no field that tells them apart"#]]
        .assert_eq(&refusals.join("\n"));
    }
}
