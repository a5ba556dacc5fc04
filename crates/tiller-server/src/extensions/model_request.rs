//! Parses an extension's model request: the model, the conversation in either of pi's two formats,
//! and the options.
//!
//! Extensions write these objects by hand, so missing fields have defaults and unknown ones are
//! ignored; only a request that cannot be made is an error.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tiller_agent::address;
use tiller_agent::message::{Message, UnixMs};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::{Request, ToolSpec};
use tiller_config::models::RequestOverrides;

/// The request and its overrides. `model` is the model to use.
pub(crate) fn read(
    model: Model,
    context: Value,
    options: &Value,
    now: UnixMs,
) -> Result<(Request, RequestOverrides), String> {
    let mut model = model;
    if let Some(most) = options["maxTokens"].as_u64().filter(|most| *most > 0) {
        // An answer may be shorter than the model allows, but not longer.
        model.max_tokens = if model.max_tokens == 0 { most } else { most.min(model.max_tokens) };
    }
    let RequestMessages { system, tools, messages } = RequestMessages::read(context, &model, now)?;
    let level = options["reasoning"].as_str().or(options["reasoningEffort"].as_str());
    let level = level.and_then(ThinkingLevel::read).unwrap_or(ThinkingLevel::Off);
    let request = Request {
        thinking: model.clamp(level),
        model: Arc::new(model),
        system: system.into(),
        messages,
        tools: tools.into(),
        forced_tool: None,
        temperature: options["temperature"].as_f64(),
        session_id: options["sessionId"].as_str().unwrap_or("extension").into(),
    };
    Ok((request, overrides(options)))
}

/// The same request with another conversation in pi's newer format. An invalid conversation changes
/// nothing.
pub(crate) fn with_messages(request: Request, messages: Vec<Value>) -> Request {
    let now = request.messages.last().map_or(0, |message| message.timestamp());
    match RequestMessages::read(json!({ "messages": messages }), &request.model, now) {
        Ok(RequestMessages { system, tools, messages }) => {
            Request { system: system.into(), tools: tools.into(), messages, ..request }
        }
        Err(_) => request,
    }
}

/// The model of a request: the known model of that name, with the extension's fields on top.
pub(crate) fn model(value: &Value, known: Option<&Model>) -> Result<Model, String> {
    let Value::Object(value) = value else { return Err("expected a model object".to_owned()) };
    let id = value.get("id").and_then(Value::as_str).ok_or("the model has no `id`")?;
    let mut merged = match known.map(serde_json::to_value) {
        Some(Ok(Value::Object(known))) => known,
        _ => defaults(id),
    };
    let mut prices = match merged.remove("cost") {
        Some(Value::Object(prices)) => prices,
        _ => Map::new(),
    };
    let fields = value.iter().filter(|(_, value)| !value.is_null());
    merged.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(Value::Object(value)) = merged.remove("cost") {
        prices.extend(value);
    }
    merged.insert("cost".to_owned(), Value::Object(prices));
    let mut model: Model = serde_json::from_value(Value::Object(merged))
        .map_err(|err| format!("invalid model: {err}"))?;
    if model.api.is_empty() {
        return Err(format!("the model {id} has no `api`"));
    }
    if let Some(known) = known.filter(|known| address::shown(&known.base_url) == model.base_url) {
        // Extensions see the address without its password.
        model.base_url.clone_from(&known.base_url);
    }
    model.headers =
        value.get("headers").map(|headers| texts(headers).collect()).unwrap_or_default();
    Ok(model)
}

fn defaults(id: &str) -> Map<String, Value> {
    let plain = json!({
        "name": id, "api": "", "provider": "", "baseUrl": "", "reasoning": false,
        "input": ["text"], "contextWindow": 128_000, "maxTokens": 16_384,
        "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 },
    });
    match plain {
        Value::Object(plain) => plain,
        _ => Map::new(),
    }
}

fn overrides(options: &Value) -> RequestOverrides {
    let headers = texts(&options["headers"]).collect();
    let key = options["apiKey"].as_str().filter(|key| !key.is_empty());
    RequestOverrides { key: key.map(str::to_owned), headers, interceptor: None }
}

fn texts(fields: &Value) -> impl Iterator<Item = (String, String)> {
    let fields = fields.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
}

#[derive(Default)]
struct RequestMessages {
    system: String,
    tools: Vec<ToolSpec>,
    messages: Vec<Arc<Message>>,
}

impl RequestMessages {
    /// Prompt and tools are fields beside the messages, or messages of role `system` that are
    /// replayed: later text is appended, sections are replaced by name, tools are added and
    /// removed.
    fn read(mut context: Value, model: &Model, now: UnixMs) -> Result<RequestMessages, String> {
        let mut conversation = RequestMessages::default();
        let mut sections: Vec<(String, String)> = Vec::new();
        conversation.append_prompt(context["systemPrompt"].as_str().unwrap_or_default());
        conversation.add_tools(&context["tools"]);
        let Value::Array(messages) = context["messages"].take() else {
            return Ok(conversation);
        };
        for (index, message) in messages.into_iter().enumerate() {
            if message["role"] != "system" {
                let message = complete(message, model, now);
                let message: Message = serde_json::from_value(message)
                    .map_err(|err| format!("invalid message {index}: {err}"))?;
                conversation.messages.push(Arc::new(message));
                continue;
            }
            conversation.append_prompt(&text_of(&message["content"]));
            for (name, text) in message["sections"].as_object().into_iter().flatten() {
                match (sections.iter_mut().find(|(known, _)| known == name), text.as_str()) {
                    (Some((_, known)), Some(text)) => text.clone_into(known),
                    (None, Some(text)) => sections.push((name.clone(), text.to_owned())),
                    (Some(_), None) => sections.retain(|(known, _)| known != name),
                    (None, None) => {}
                }
            }
            for removed in message["toolsRemoved"].as_array().into_iter().flatten() {
                conversation.tools.retain(|tool| removed["name"] != tool.name);
            }
            conversation.add_tools(&message["toolsAdded"]);
        }
        for (_, text) in sections {
            conversation.append_prompt(&text);
        }
        Ok(conversation)
    }

    fn append_prompt(&mut self, text: &str) {
        if !self.system.is_empty() && !text.is_empty() {
            self.system.push_str("\n\n");
        }
        self.system.push_str(text);
    }

    fn add_tools(&mut self, tools: &Value) {
        for tool in tools.as_array().into_iter().flatten() {
            let Some(name) = tool["name"].as_str() else { continue };
            self.tools.retain(|known| known.name != name);
            self.tools.push(ToolSpec {
                name: name.to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                parameters: tool["parameters"].clone(),
            });
        }
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        blocks => {
            let blocks = blocks.as_array().into_iter().flatten();
            let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
    }
}

/// Completes a message with all required fields. Hand-written messages lack usage, for example.
fn complete(mut message: Value, model: &Model, now: UnixMs) -> Value {
    let is_answer = message["role"] == "assistant";
    let Value::Object(fields) = &mut message else { return message };
    let mut default = |name: &str, value: Value| {
        if fields.get(name).is_none_or(Value::is_null) {
            fields.insert(name.to_owned(), value);
        }
    };
    default("timestamp", json!(now));
    default("isError", json!(false));
    default("toolName", json!(""));
    if is_answer {
        default("api", json!(model.api));
        default("provider", json!(model.provider));
        default("model", json!(model.id));
        default("usage", json!({}));
        default("stopReason", json!("stop"));
    }
    let is_result = fields.get("role").is_some_and(|role| role == "toolResult");
    let text = fields.get("content").and_then(Value::as_str).map(str::to_owned);
    if let Some(text) = text.filter(|_| is_answer || is_result) {
        fields.insert("content".to_owned(), json!([{ "type": "text", "text": text }]));
    }
    message
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn some_model() -> Model {
        model(&json!({ "id": "m", "api": "a", "provider": "p" }), None).unwrap()
    }

    #[test]
    fn model_merges_registry_and_request() {
        let mut known = some_model();
        (known.base_url, known.cost.output) = ("https://known".into(), 7.0);
        let value = json!({ "id": "m", "name": null, "baseUrl": "https://said", "cost": {"input": 2},
            "headers": { "x-a": "b", "x-gone": null }, "unheard": [1] });
        let model = model(&value, Some(&known)).unwrap();
        assert_eq!((&*model.base_url, &*model.name), ("https://said", "m"));
        assert_eq!((model.cost.input, model.cost.output), (2.0, 7.0));
        assert_eq!(model.headers.len(), 1);
    }

    #[test]
    fn invalid_model_is_an_error() {
        let check = |value: Value| model(&value, None).unwrap_err();
        let results =
            [json!("m"), json!({}), json!({"id": "m"}), json!({"id": "m", "reasoning": 3})];
        let results: Vec<String> = results.into_iter().map(check).collect();
        expect![[r#"
            expected a model object
            the model has no `id`
            the model m has no `api`
            invalid model: invalid type: integer `3`, expected a boolean"#]]
        .assert_eq(&results.join("\n"));
    }

    #[test]
    fn both_conversation_formats_parse_alike() {
        let tool = |name: &str| json!({ "name": name, "description": "d", "parameters": {} });
        let old = json!({ "systemPrompt": "Be kind.", "tools": [tool("a")], "messages": [
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": "hello" },
            { "role": "toolResult", "toolCallId": "1", "content": "done" },
        ]});
        let new = json!({ "messages": [
            { "role": "system", "content": "Be", "sections": { "x": "old" },
              "toolsAdded": [tool("a"), tool("b")] },
            { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
            { "role": "system", "content": [{ "type": "text", "text": "kind." }],
              "sections": { "x": "new", "y": null }, "toolsRemoved": [{ "name": "b" }] },
        ]});
        let results = |context: Value| {
            let conversation = RequestMessages::read(context, &some_model(), 5).unwrap();
            let tools: Vec<&str> = conversation.tools.iter().map(|tool| &*tool.name).collect();
            let roles: Vec<String> = conversation
                .messages
                .iter()
                .map(|message| serde_json::to_value(&**message).unwrap()["role"].to_string())
                .collect();
            format!("{:?} {tools:?} {roles:?}", conversation.system)
        };
        expect![[r#""Be kind." ["a"] ["\"user\"", "\"assistant\"", "\"toolResult\""]"#]]
            .assert_eq(&results(old));
        expect![[r#""Be\n\nkind.\n\nnew" ["a"] ["\"user\""]"#]].assert_eq(&results(new));
    }
}
