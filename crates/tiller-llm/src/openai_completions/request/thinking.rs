//! Thinking settings in the format of each server.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::Request;

use crate::compat::setting;
use crate::openai_completions::server::{Server, ThinkingFormat};

/// The thinking fields of the request; rarely more than two are set.
#[derive(Debug, Default, Serialize)]
pub(super) struct CompletionsThinking<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<CompletionsReasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Mode<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template_kwargs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template_args: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum CompletionsReasoning<'a> {
    Effort(&'a str),
    Enabled(bool),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Mode<'a> {
    Type { r#type: &'static str },
    Effort(&'a str),
}

impl<'a> CompletionsThinking<'a> {
    pub(super) fn new(request: &'a Request, server: &Server) -> CompletionsThinking<'a> {
        let (model, level) = (&*request.model, request.thinking);
        let fields = CompletionsThinking::default();
        if !model.reasoning {
            return fields;
        }
        let on = level != ThinkingLevel::Off;
        let entry = model.thinking_level_map.as_ref().and_then(|map| map.get(&level));
        let named = entry.and_then(|name| name.as_deref());
        // The model has no such level. If it is `off`, the model always thinks and refuses to be
        // switched off.
        let absent = entry == Some(&None);
        let switch = (on || !absent).then_some(on);
        let word = (!absent).then_some(named.unwrap_or(if on { level.name() } else { "none" }));
        let effort = word.filter(|_| on && server.reasoning_effort);
        // `off` has a name only if the model's description sets it.
        let variables = Variables { on, effort: if on { word } else { named } };

        match server.thinking {
            ThinkingFormat::OpenAi => {
                let off = named.filter(|_| server.reasoning_effort);
                CompletionsThinking { reasoning_effort: effort.or(off), ..fields }
            }
            ThinkingFormat::OpenRouter => {
                CompletionsThinking { reasoning: word.map(CompletionsReasoning::Effort), ..fields }
            }
            ThinkingFormat::AntLing => {
                let named = named.filter(|_| on);
                CompletionsThinking { reasoning: named.map(CompletionsReasoning::Effort), ..fields }
            }
            ThinkingFormat::Together => {
                let reasoning = switch.map(CompletionsReasoning::Enabled);
                CompletionsThinking { reasoning, reasoning_effort: effort, ..fields }
            }
            ThinkingFormat::DeepSeek | ThinkingFormat::Zai => {
                let name = |on| if on { "enabled" } else { "disabled" };
                let thinking = switch.map(|on| Mode::Type { r#type: name(on) });
                CompletionsThinking { thinking, reasoning_effort: effort, ..fields }
            }
            ThinkingFormat::StringThinking => {
                CompletionsThinking { thinking: word.map(Mode::Effort), ..fields }
            }
            ThinkingFormat::Qwen => {
                CompletionsThinking { enable_thinking: switch, reasoning_effort: effort, ..fields }
            }
            ThinkingFormat::QwenChatTemplate => {
                let kwargs = |on| json!({"enable_thinking": on, "preserve_thinking": true});
                CompletionsThinking { chat_template_kwargs: switch.map(kwargs), ..fields }
            }
            ThinkingFormat::ChatTemplate => {
                let kwargs = setting(model, "chatTemplateKwargs");
                let filled = kwargs.and_then(|kwargs| variables.fill(kwargs));
                CompletionsThinking { chat_template_kwargs: filled, ..fields }
            }
            ThinkingFormat::Baseten => {
                let args = setting(model, "chatTemplateArgs");
                let filled = args.and_then(|args| variables.fill(args));
                CompletionsThinking {
                    chat_template_args: filled,
                    reasoning_effort: effort,
                    ..fields
                }
            }
        }
    }
}

/// The values of `{"$var": …}` in the arguments of a chat template.
struct Variables<'a> {
    on: bool,
    effort: Option<&'a str>,
}

impl Variables<'_> {
    /// `None` for a value that is left out.
    fn fill(&self, template: &Value) -> Option<Value> {
        match template {
            Value::Object(fields) => match fields.get("$var") {
                Some(_) if !self.on && fields.get("omitWhenOff") == Some(&Value::Bool(true)) => {
                    None
                }
                Some(Value::String(name)) => match name.as_str() {
                    "thinking.enabled" => Some(self.on.into()),
                    "thinking.effort" => self.effort.map(Value::from),
                    _ => None,
                },
                Some(_) => None,
                None => {
                    let filled = fields
                        .iter()
                        .filter_map(|(key, value)| Some((key.clone(), self.fill(value)?)));
                    Some(Value::Object(filled.collect::<Map<_, _>>()))
                }
            },
            other => Some(other.clone()),
        }
    }
}
