//! The environment variables in which providers' own tools look for a key.

use std::collections::HashMap;

use super::aws;

type Variables = HashMap<String, String>;

/// The variable that holds this provider's key, and the key.
pub(super) fn key<'a>(provider: &str, variables: &'a Variables) -> Option<(&'static str, &'a str)> {
    let (_, names) = KEYS.iter().find(|(name, _)| *name == provider)?;
    names.iter().find_map(|name| Some((*name, set(variables, name)?)))
}

/// The variables a user can set for this provider, for error texts.
pub(crate) fn default_variables(provider: &str) -> Option<&'static str> {
    match provider {
        aws::PROVIDER => Some(
            "AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE, or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY",
        ),
        provider => default_variable(provider),
    }
}

/// The variable a user should store this provider's key in.
pub(crate) fn default_variable(provider: &str) -> Option<&'static str> {
    let (_, names) = KEYS.iter().find(|(name, _)| *name == provider)?;
    names.iter().find(|name| name.ends_with("_API_KEY")).or(names.first()).copied()
}

/// Whether a variable of this name holds a secret: a key that tiller uses, or one by its name.
pub(super) fn is_secret(name: &str) -> bool {
    const ENDINGS: &[&str] =
        &["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_ACCESS_KEY_ID"];
    const NAMES: &[&str] = &["PASSWORD", "SECRET", "TOKEN"];
    let upper = name.to_ascii_uppercase();
    KEYS.iter().any(|(_, names)| names.contains(&upper.as_str()))
        || ENDINGS.iter().any(|ending| upper.ends_with(ending))
        || NAMES.contains(&upper.as_str())
}

/// All variables that hold a provider's key or a part of one.
pub(crate) fn key_names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|(_, names)| names.iter().copied()).chain(aws::KEY_VARIABLES)
}

fn set<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
    variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// By provider; the first variable that is set counts.
const KEYS: &[(&str, &[&str])] = &[
    ("amazon-bedrock", &["AWS_BEARER_TOKEN_BEDROCK"]),
    ("ant-ling", &["ANT_LING_API_KEY"]),
    ("anthropic", &["ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]),
    ("azure-openai-responses", &["AZURE_OPENAI_API_KEY"]),
    ("baseten", &["BASETEN_API_KEY"]),
    ("cerebras", &["CEREBRAS_API_KEY"]),
    ("cloudflare-ai-gateway", &["CLOUDFLARE_API_KEY"]),
    ("cloudflare-workers-ai", &["CLOUDFLARE_API_KEY"]),
    ("deepseek", &["DEEPSEEK_API_KEY"]),
    ("fireworks", &["FIREWORKS_API_KEY"]),
    ("github-copilot", &["COPILOT_GITHUB_TOKEN"]),
    ("google", &["GEMINI_API_KEY"]),
    ("google-vertex", &["GOOGLE_CLOUD_API_KEY"]),
    ("groq", &["GROQ_API_KEY"]),
    ("huggingface", &["HF_TOKEN"]),
    ("kimi-coding", &["KIMI_API_KEY"]),
    ("meta", &["META_API_KEY"]),
    ("minimax", &["MINIMAX_API_KEY"]),
    ("minimax-cn", &["MINIMAX_CN_API_KEY"]),
    ("mistral", &["MISTRAL_API_KEY"]),
    ("moonshotai", &["MOONSHOT_API_KEY"]),
    ("moonshotai-cn", &["MOONSHOT_API_KEY"]),
    ("nvidia", &["NVIDIA_API_KEY"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("opencode", &["OPENCODE_API_KEY"]),
    ("opencode-go", &["OPENCODE_API_KEY"]),
    ("openrouter", &["OPENROUTER_API_KEY"]),
    ("qwen-token-plan", &["QWEN_TOKEN_PLAN_API_KEY"]),
    ("qwen-token-plan-cn", &["QWEN_TOKEN_PLAN_CN_API_KEY"]),
    ("qwen-token-plan-individual", &["QWEN_TOKEN_PLAN_API_KEY"]),
    ("radius", &["RADIUS_API_KEY"]),
    ("together", &["TOGETHER_API_KEY"]),
    ("vercel-ai-gateway", &["AI_GATEWAY_API_KEY"]),
    ("xai", &["XAI_API_KEY"]),
    ("xiaomi", &["XIAOMI_API_KEY"]),
    ("xiaomi-token-plan-ams", &["XIAOMI_TOKEN_PLAN_AMS_API_KEY"]),
    ("xiaomi-token-plan-cn", &["XIAOMI_TOKEN_PLAN_CN_API_KEY"]),
    ("xiaomi-token-plan-sgp", &["XIAOMI_TOKEN_PLAN_SGP_API_KEY"]),
    ("zai", &["ZAI_API_KEY"]),
    ("zai-coding-cn", &["ZAI_CODING_CN_API_KEY"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn first_set_variable_wins_and_empty_counts_as_unset() {
        let both = variables(&[("ANTHROPIC_API_KEY", "a"), ("ANTHROPIC_OAUTH_TOKEN", "o")]);
        assert_eq!(key("anthropic", &both), Some(("ANTHROPIC_OAUTH_TOKEN", "o")));
        let empty = variables(&[("ANTHROPIC_API_KEY", "a"), ("ANTHROPIC_OAUTH_TOKEN", "")]);
        assert_eq!(key("anthropic", &empty), Some(("ANTHROPIC_API_KEY", "a")));
        assert_eq!(key("nobody", &both), None);
    }

    #[test]
    fn every_catalogue_provider_has_a_variable() {
        let catalogue = crate::catalogue::Catalogue::default();
        let keyless: Vec<&str> = catalogue
            .providers()
            .iter()
            .map(|provider| provider.name)
            .filter(|name| default_variable(name).is_none())
            .collect();
        // Only through a sign-in.
        assert_eq!(keyless, ["openai-codex"]);
    }
}
