//! The packages of the Agent Client Protocol that `.ci/run` installs: clients, and the published
//! schema.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::skip::skip;

/// The published schema of version 1.
#[allow(dead_code, reason = "only the transcripts are checked against it")]
pub struct Schema {
    definitions: Value,
    line: Validator,
}

/// The folder into which `.ci/run` installs packages.
pub fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ci/acp")
}

/// The schema in the package of the TypeScript SDK. Without the package, the test is skipped.
#[allow(dead_code, reason = "only the transcripts are checked against it")]
pub fn schema() -> Option<Schema> {
    let path = packages().join("node_modules/@agentclientprotocol/sdk/schema/v1/schema.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        skip("ACP", "@agentclientprotocol/sdk is not installed in target/ci/acp");
        return None;
    };
    let schema: Value = serde_json::from_str(&text).unwrap();
    let line = jsonschema::validator_for(&schema).unwrap();
    Some(Schema { definitions: schema["$defs"].clone(), line })
}

impl Schema {
    /// Whether a line of the agent fits: as a line, and its content as the type of its method. A
    /// line alone says little, because results of extensions may be anything.
    #[allow(dead_code, reason = "only the transcripts are checked against it")]
    pub fn check(&self, line: &Value, answers: Option<&str>) -> Result<(), String> {
        let fits = |validator: &Validator, value: &Value| match validator.iter_errors(value).next()
        {
            Some(wrong) => Err(format!("{wrong} at {}", wrong.instance_path())),
            None => Ok(()),
        };
        fits(&self.line, line)?;
        let (name, content) = match (line["method"].as_str(), answers) {
            (Some("session/update"), _) => ("SessionNotification", &line["params"]),
            (Some("session/request_permission"), _) => {
                ("RequestPermissionRequest", &line["params"])
            }
            (Some("elicitation/create"), _) => ("CreateElicitationRequest", &line["params"]),
            (Some("$/cancel_request"), _) => ("CancelRequestNotification", &line["params"]),
            (Some(other), _) => return Err(format!("tiller never calls {other}")),
            (None, _) if line.get("error").is_some() => ("Error", &line["error"]),
            (None, Some("initialize")) => ("InitializeResponse", &line["result"]),
            (None, Some("authenticate")) => ("AuthenticateResponse", &line["result"]),
            (None, Some("session/new")) => ("NewSessionResponse", &line["result"]),
            (None, Some("session/load")) => ("LoadSessionResponse", &line["result"]),
            (None, Some("session/resume")) => ("ResumeSessionResponse", &line["result"]),
            (None, Some("session/list")) => ("ListSessionsResponse", &line["result"]),
            (None, Some("session/close")) => ("CloseSessionResponse", &line["result"]),
            (None, Some("session/prompt")) => ("PromptResponse", &line["result"]),
            (None, Some("session/set_config_option")) => {
                ("SetSessionConfigOptionResponse", &line["result"])
            }
            (None, other) => return Err(format!("tiller never answers {other:?}")),
        };
        let reference = json!({ "$ref": format!("#/$defs/{name}"), "$defs": self.definitions });
        let validator = jsonschema::validator_for(&reference).map_err(|err| err.to_string())?;
        fits(&validator, content).map_err(|why| format!("not a {name}: {why}"))
    }
}
