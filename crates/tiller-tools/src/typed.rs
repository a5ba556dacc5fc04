//! Tools with typed input. The input's doc comments become the schema that the model reads, so they
//! are written for the model.

use std::future::Future;
use std::sync::{Arc, LazyLock};

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolResult};

/// The specification of a tool with this input. It is the same in all sessions, so each tool makes
/// it once.
pub(crate) type SharedSpec = LazyLock<Arc<ToolSpec>>;

pub(crate) fn spec<I: JsonSchema>(name: &str, description: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: schema_of::<I>(),
    })
}

/// Creates a tool from a function with its own input type.
pub(crate) fn tool<I, F, Fut>(spec: &SharedSpec, run: F) -> Tool
where
    I: DeserializeOwned + Send + 'static,
    F: Fn(I, ToolContext) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    Tool::new(Arc::clone(spec), move |arguments: Arguments, cx| {
        let run = run.clone();
        async move {
            let input = serde_json::from_value(Value::Object(arguments))
                .map_err(|err| Failure::new(format!("Invalid arguments: {err}")))?;
            run(input, cx).await
        }
    })
}

/// A positive count. Some models fill every field and write 0 for "no limit", so anything below 1
/// counts as not given. Some models write `2.0`, which is why inputs hold an `f64`.
pub(crate) fn count(value: Option<f64>) -> Option<usize> {
    // The cast saturates, and turns NaN into 0.
    value.map(|n| n as usize).filter(|&n| n > 0)
}

/// A plain object schema: type, properties with descriptions, required. No references, titles or
/// formats: some providers refuse them and no model needs them.
fn schema_of<I: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<I>();
    // The comment on the input type itself is for developers; the tool has its own description.
    without(&mut schema, &["description"]);
    RecursiveTransform(plain).transform(&mut schema);
    schema.to_value()
}

fn plain(schema: &mut Schema) {
    without(schema, &["title", "format", "default", "minimum", "maximum"]);
    // An optional field may be absent; the agent loop removes nulls before the tool sees them.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
}

/// Removes keys and keeps the order of the others.
fn without(schema: &mut Schema, keys: &[&str]) {
    if let Some(object) = schema.as_object_mut() {
        object.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde::Deserialize;

    use super::*;

    /// Not shown.
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Input {
        /// Where.
        path: String,
        /// How often.
        #[serde(default)]
        times: Option<f64>,
        /// What.
        parts: Vec<Part>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code)]
    struct Part {
        /// Before.
        old_text: String,
    }

    #[test]
    fn schema_is_plain() {
        expect![[r#"
            {
              "type": "object",
              "properties": {
                "path": {
                  "type": "string",
                  "description": "Where."
                },
                "times": {
                  "type": "number",
                  "description": "How often."
                },
                "parts": {
                  "type": "array",
                  "items": {
                    "type": "object",
                    "properties": {
                      "oldText": {
                        "description": "Before.",
                        "type": "string"
                      }
                    },
                    "required": [
                      "oldText"
                    ]
                  },
                  "description": "What."
                }
              },
              "required": [
                "path",
                "parts"
              ]
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&schema_of::<Input>()).unwrap());
    }

    #[test]
    fn count_below_one_is_ignored() {
        let counts = [None, Some(2.0), Some(2.9), Some(0.0), Some(-3.0), Some(f64::NAN)];
        assert_eq!(counts.map(count), [None, Some(2), Some(2), None, None, None]);
    }
}
