//! Short descriptions of values.

use serde_json::{Value, json};
use tiller_agent::message::Message;
use tiller_config::settings::Settings;

/// Longer texts are shown by their two ends.
const LONG_CHARS: usize = 300;

pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text in quotes, or its two ends and its size.
pub fn quoted(value: &Value) -> String {
    let Some(text) = value.as_str() else { return value.to_string() };
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= LONG_CHARS {
        return value.to_string();
    }
    let (head, tail) = (&chars[..40], &chars[chars.len() - 20..]);
    let shown = format!("{} … {}", String::from_iter(head), String::from_iter(tail));
    format!("{} ({} bytes)", json!(shown), text.len())
}

/// Content in one line.
pub fn content(content: &Value) -> String {
    let Value::Array(blocks) = content else { return quoted(content) };
    let shown = blocks.iter().map(|block| match plain(&block["type"]).as_str() {
        "text" => quoted(&block["text"]),
        "thinking" => format!("(thinking {})", quoted(&block["thinking"])),
        "image" => format!("(image {})", plain(&block["mimeType"])),
        "toolCall" => format!("(call {} {})", plain(&block["name"]), block["arguments"]),
        other => format!("({other})"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The `details` of a result.
pub fn details(value: &Value) -> String {
    match value.get("details") {
        None => String::new(),
        Some(details) if details == &json!({}) => String::new(),
        Some(details) => format!(" details {details}"),
    }
}

/// Whether a result ends the run, and what it has cost.
pub fn ending(result: &Value) -> String {
    let terminate = if result["terminate"] == true { " terminate" } else { "" };
    let usage = result.get("usage").map(|usage| format!(" usage {usage}"));
    format!("{terminate}{}", usage.unwrap_or_default())
}

/// A message as the model sees it.
pub fn brief(message: &Message) -> String {
    brief_value(&serde_json::to_value(message).unwrap())
}

/// The rules that a message contains. Its text has paths in it, of unknown length.
pub fn rules(message: &Value) -> Option<String> {
    let rules = message["details"]["rules"].as_array()?;
    let names: Vec<String> = rules.iter().map(plain).collect();
    Some(format!("{} {}", plain(&message["customType"]), names.join(", ")))
}

fn brief_value(message: &Value) -> String {
    if let Some(rules) = rules(message) {
        return rules;
    }
    let role = plain(&message["role"]);
    let reason = match message.get("stopReason") {
        Some(reason) => format!("{role} {}", plain(reason)),
        None => role,
    };
    let said = message.get("summary").unwrap_or(&message["content"]);
    format!("{reason} {}", content(said)).trim_end().to_owned()
}

/// The data of a response without constant parts.
pub fn data(command: &str, mut data: Value) -> String {
    match command {
        "get_messages" => {
            let messages = data["messages"].as_array().cloned().unwrap_or_default();
            let shown: Vec<String> = messages.iter().map(brief_value).collect();
            let next =
                data.get("nextOffset").map_or(String::new(), |next| format!(", next {next}"));
            let page = data.get("total").map_or(String::new(), |all| format!(" of {all}{next}"));
            return format!("[{}]{page}", shown.join("; "));
        }
        "get_messages_page" => {
            let messages = data["messages"].as_array().into_iter().flatten();
            data["messages"] = messages.map(|message| json!(brief_value(message))).collect();
        }
        "get_state" => leave_out_rest(&mut data),
        "prompt" | "steer" | "follow_up" => return plain(&data["disposition"]),
        // The lists grow with every release; a law checks them.
        "get_events" => {
            let events = data["events"].as_array().into_iter().flatten();
            let shown = |event: &Value| format!("{} #{}", plain(&event["type"]), event["seq"]);
            data["events"] = events.map(|event| json!(shown(event))).collect();
        }
        "get_settings" => {
            let rest = Settings::default().to_json();
            if let Some(settings) = data["settings"].as_object_mut() {
                settings.retain(|key, value| rest.get(key) != Some(value));
            }
            data["changeable"] = json!("…");
        }
        "get_tools" => {
            let shown = |tool: &Value| {
                let active = if tool["isActive"] == true { "active" } else { "inactive" };
                format!("{} {} {active}", plain(&tool["name"]), plain(&tool["source"]))
            };
            let tools = data["tools"].as_array().into_iter().flatten();
            data["tools"] = tools.map(|tool| json!(shown(tool))).collect();
        }
        "hello" | "get_capabilities" => {
            ["commands", "events", "schema"].iter().for_each(|list| data[*list] = json!("…"))
        }
        _ => {}
    }
    name_models(&mut data);
    if data == json!({}) { "{…}".to_owned() } else { data.to_string() }
}

/// Keeps only what differs from the state of a fresh server.
fn leave_out_rest(state: &mut Value) {
    let rest = json!({
        "thinkingLevel": "medium",
        "isStreaming": false,
        "isCompacting": false,
        "steeringMode": "one-at-a-time",
        "followUpMode": "one-at-a-time",
        "interruptMode": "wait",
        "sessionId": "the-session",
        "autoCompactionEnabled": true,
        "messageCount": 0,
        "pendingMessageCount": 0,
        "todoPhases": [],
    });
    let Value::Object(state) = state else { return };
    state.shift_remove("systemPrompt");
    if let Some(Value::Array(tools)) = state.get_mut("dumpTools") {
        tools.iter_mut().for_each(|tool| *tool = tool["name"].clone());
    }
    state.retain(|key, value| match key.as_str() {
        "model" => value["id"] != "script",
        // The same number under another name; a law checks it.
        "queuedMessageCount" => false,
        _ => rest.get(key) != Some(value),
    });
}

fn name_models(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.contains_key("contextWindow") && object.contains_key("provider") {
                *value = json!(format!("{}/{}", plain(&object["provider"]), plain(&object["id"])));
                return;
            }
            object.values_mut().for_each(name_models);
        }
        Value::Array(items) => items.iter_mut().for_each(name_models),
        _ => {}
    }
}
