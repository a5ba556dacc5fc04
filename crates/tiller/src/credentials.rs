//! Keys: who may ask which provider.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tiller_llm::Secret;

use crate::jsonc;

/// Looks up keys in the order of precedence: the command line, `auth.json`, `models.json`, the
/// environment.
#[derive(Default)]
pub struct Credentials {
    /// `--api-key`, for the one provider it was given for.
    command_line: Option<(String, Secret)>,
    auth_file: HashMap<String, Secret>,
    models_file: HashMap<String, Secret>,
    environment: HashMap<String, Secret>,
}

impl Credentials {
    pub fn load(
        auth_path: &Path,
        environment: &HashMap<String, String>,
        diagnostics: &mut Vec<String>,
    ) -> Credentials {
        let mut credentials = Credentials::default();
        credentials.read_auth_file(auth_path, environment, diagnostics);
        for (provider, names) in ENVIRONMENT {
            let key = names.iter().find_map(|name| environment.get(*name));
            if let Some(key) = key.filter(|key| !key.is_empty()) {
                credentials.environment.insert((*provider).to_owned(), Secret::new(key));
            }
        }
        credentials
    }

    pub fn give(&mut self, provider: &str, key: &str) {
        self.command_line = Some((provider.to_owned(), Secret::new(key)));
    }

    pub(crate) fn from_models_file(&mut self, provider: &str, key: String) {
        self.models_file.insert(provider.to_owned(), Secret::new(key));
    }

    pub fn key(&self, provider: &str) -> Option<&Secret> {
        let given = self.command_line.as_ref();
        given
            .filter(|(name, _)| name == provider)
            .map(|(_, key)| key)
            .or_else(|| self.auth_file.get(provider))
            .or_else(|| self.models_file.get(provider))
            .or_else(|| self.environment.get(provider))
    }

    fn read_auth_file(
        &mut self,
        path: &Path,
        environment: &HashMap<String, String>,
        diagnostics: &mut Vec<String>,
    ) {
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let entries = match jsonc::parse(&text) {
            Ok(Value::Object(entries)) => entries,
            Ok(_) => return diagnostics.push(format!("{}: expected an object", path.display())),
            Err(err) => return diagnostics.push(format!("cannot read {}: {err}", path.display())),
        };
        for (provider, entry) in entries {
            let key = match AuthEntry::deserialize(&entry) {
                Ok(AuthEntry::ApiKey { key }) => interpolate(&key, environment),
                Ok(AuthEntry::Oauth { access }) => Ok(access),
                // The entry itself may hold a secret, so it is not shown.
                Err(_) => Err("neither an api_key nor an oauth entry".to_owned()),
            };
            match key {
                Ok(key) => {
                    self.auth_file.insert(provider, Secret::new(key));
                }
                Err(why) => {
                    diagnostics.push(format!("{}: `{provider}` is ignored: {why}", path.display()));
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AuthEntry {
    ApiKey { key: String },
    Oauth { access: String },
}

/// Fills `$NAME` and `${NAME}` from the environment; `$$` is a dollar sign.
pub(crate) fn interpolate(
    value: &str,
    environment: &HashMap<String, String>,
) -> Result<String, String> {
    if value.starts_with('!') {
        return Err("values that are commands are not supported yet".to_owned());
    }
    let mut filled = String::new();
    let mut rest = value;
    while let Some(dollar) = rest.find('$') {
        filled.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, after) = if let Some(braced) = rest.strip_prefix('{') {
            braced.split_once('}').ok_or("`${` without `}`")?
        } else {
            rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()))
        };
        if name.is_empty() {
            // `$$` and `$!` stand for their second character, a lone `$` for itself.
            let literal = rest.chars().next().filter(|c| matches!(c, '$' | '!'));
            filled.push(literal.unwrap_or('$'));
            rest = &rest[literal.map_or(0, char::len_utf8)..];
            continue;
        }
        let known = environment.get(name).ok_or(format!("the variable {name} is not set"))?;
        filled.push_str(known);
        rest = after;
    }
    Ok(filled + rest)
}

/// Where providers' own tools look for a key, the preferred name first.
const ENVIRONMENT: &[(&str, &[&str])] = &[
    ("anthropic", &["ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("google", &["GEMINI_API_KEY"]),
    ("groq", &["GROQ_API_KEY"]),
    ("cerebras", &["CEREBRAS_API_KEY"]),
    ("xai", &["XAI_API_KEY"]),
    ("openrouter", &["OPENROUTER_API_KEY"]),
    ("mistral", &["MISTRAL_API_KEY"]),
    ("deepseek", &["DEEPSEEK_API_KEY"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let environment = HashMap::from([("KEY".to_owned(), "secret".to_owned())]);
        let fill = |value| interpolate(value, &environment);
        assert_eq!(fill("plain"), Ok("plain".into()));
        assert_eq!(fill("$KEY"), Ok("secret".into()));
        assert_eq!(fill("a-${KEY}-b$KEY."), Ok("a-secret-bsecret.".into()));
        assert_eq!(fill("$$KEY $! $"), Ok("$KEY ! $".into()));
        assert_eq!(fill("${KEY"), Err("`${` without `}`".into()));
        assert_eq!(fill("$NONE"), Err("the variable NONE is not set".into()));
        assert!(fill("!cat key").is_err());
    }
}
