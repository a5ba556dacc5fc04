//! AWS credentials: keys in the environment, or a profile in the files of Amazon's tools.
//!
//! Credentials that need a server (single sign-on, roles, instance metadata) are left to those
//! tools: a profile may name a command that prints keys, and `aws configure export-credentials`
//! prints those of any profile.

mod profile;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde::Deserialize;
use tiller_agent::message::UnixMs;
use tiller_agent::{mutex, time};
use tiller_llm::{AwsKeys, Secret};

use super::config_value::output_of;
use super::now;
use profile::Profile;

/// The provider whose requests are signed.
pub(crate) const PROVIDER: &str = "amazon-bedrock";

/// The variables that lead to signing keys. The provider's own bearer token is listed with other
/// providers' keys.
pub(super) const KEY_VARIABLES: [&str; 3] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Keys printed by a command are not used this long before they expire, so that the request still
/// arrives in time.
const BEFORE_THE_END_MS: UnixMs = 60_000;

/// AWS's part of the environment.
#[derive(Default)]
pub(crate) struct Aws {
    variables: Arc<HashMap<String, String>>,
    /// The keys that the last command printed.
    printed: Mutex<Option<CommandOutput>>,
    /// Cached, because the address of every model contains it.
    region: OnceLock<Option<String>>,
}

struct CommandOutput {
    command: String,
    keys: AwsKeys,
    expires: Option<UnixMs>,
}

impl Aws {
    pub(super) fn new(variables: Arc<HashMap<String, String>>) -> Aws {
        Aws { variables, ..Aws::default() }
    }

    /// The variable through which keys are found.
    pub(super) fn source(&self) -> Option<&'static str> {
        let is_set = |name: &str| self.variable(name).is_some();
        if is_set("AWS_PROFILE") {
            Some("AWS_PROFILE")
        } else if is_set("AWS_ACCESS_KEY_ID") && is_set("AWS_SECRET_ACCESS_KEY") {
            Some("AWS_ACCESS_KEY_ID")
        } else {
            self.needs_no_keys().then_some(SKIP_AUTH)
        }
    }

    /// The keys; runs a command if necessary. `None` if a gateway needs none.
    pub(crate) async fn keys(&self) -> Result<Option<AwsKeys>, String> {
        if self.needs_no_keys() {
            return Ok(None);
        }
        let region = self.region();
        let with_region = |keys: AwsKeys| Some(AwsKeys { region, ..keys });
        if self.variable("AWS_PROFILE").is_none()
            && let Some(id) = self.variable("AWS_ACCESS_KEY_ID")
            && let Some(secret) = self.variable("AWS_SECRET_ACCESS_KEY")
        {
            let token = self.variable("AWS_SESSION_TOKEN");
            return Ok(with_region(keys(id, secret, token)));
        }
        let profile = self.profile();
        if let (Some(id), Some(secret)) =
            (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"))
        {
            let token = profile.get("aws_session_token");
            return Ok(with_region(keys(id, secret, token)));
        }
        let name = profile.name();
        let Some(command) = profile.get("credential_process") else {
            let why = if profile.is_empty() {
                format!("there is no profile `{name}`")
            } else {
                format!("the profile `{name}` has no keys and no credential_process")
            };
            return Err(format!(
                "{why}. Set what `aws configure export-credentials --profile {name} --format env` \
                 prints"
            ));
        };
        let printed = self.printed_by(command).await;
        printed.map(with_region).map_err(|why| format!("credential_process of `{name}`: {why}"))
    }

    /// The configured region, if any.
    pub(crate) fn region(&self) -> Option<String> {
        let find = || {
            let named = self.variable("AWS_REGION").or_else(|| self.variable("AWS_DEFAULT_REGION"));
            named.map(str::to_owned).or_else(|| self.profile().get("region").map(str::to_owned))
        };
        self.region.get_or_init(find).clone()
    }

    /// The variable that sets the region or the endpoint.
    pub(crate) fn address_variable(&self) -> Option<&'static str> {
        let names = [ENDPOINT, "AWS_REGION", "AWS_DEFAULT_REGION"];
        names.into_iter().find(|name| self.variable(name).is_some())
    }

    /// The endpoint that replaces all others, such as a gateway's.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        self.variable(ENDPOINT)
    }

    fn needs_no_keys(&self) -> bool {
        self.variable(SKIP_AUTH) == Some("1")
    }

    fn profile(&self) -> Profile {
        Profile::find(|name| self.variable(name))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    async fn printed_by(&self, command: &str) -> Result<AwsKeys, String> {
        let kept = || mutex::lock(&self.printed);
        if let Some(CommandOutput { command: by, keys, expires: ends }) = &*kept()
            && by == command
            && ends.is_none_or(|ends| now() + BEFORE_THE_END_MS < ends)
        {
            return Ok(keys.clone());
        }
        let output = output_of(command).await?;
        let (keys, ends) = parse_credential_process(&output)?;
        *kept() =
            Some(CommandOutput { command: command.to_owned(), keys: keys.clone(), expires: ends });
        Ok(keys)
    }
}

const SKIP_AUTH: &str = "AWS_BEDROCK_SKIP_AUTH";
const ENDPOINT: &str = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME";

fn keys(id: &str, secret: &str, token: Option<&str>) -> AwsKeys {
    AwsKeys {
        access_key_id: id.to_owned(),
        secret_access_key: Secret::new(secret),
        session_token: token.filter(|token| !token.is_empty()).map(Secret::new),
        region: None,
    }
}

/// Parses the output of a `credential_process` and its expiry. Errors quote none of it.
fn parse_credential_process(output: &str) -> Result<(AwsKeys, Option<UnixMs>), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Output {
        access_key_id: String,
        secret_access_key: String,
        session_token: Option<String>,
        expiration: Option<String>,
    }
    let output: Output = serde_json::from_str(output)
        .map_err(|_| "the command did not print JSON with AccessKeyId and SecretAccessKey")?;
    let ends = output.expiration.as_deref().and_then(time::read_iso);
    let token = output.session_token.as_deref();
    Ok((keys(&output.access_key_id, &output.secret_access_key, token), ends))
}

#[cfg(test)]
mod tests;
