//! Who we are to Amazon: keys in the environment, or a profile in its tools' own files.
//!
//! What those tools ask of a server (single sign-on, roles, the metadata of a machine) is left to
//! them. A profile may name a command that prints keys, and `aws configure export-credentials`
//! prints those of any profile.

mod profile;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use tiller_agent::message::UnixMs;
use tiller_llm::{AwsKeys, Secret};
use tiller_session::time;

use super::config_value::output_of;
use crate::clock::Clock;
use profile::Profile;

/// The provider whose requests are signed.
pub(crate) const PROVIDER: &str = "amazon-bedrock";

/// What signs requests. The provider's own token is listed with the keys of the others.
pub(super) const KEY_VARIABLES: [&str; 3] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Keys that a command printed are not used any more this long before they end: the request has
/// to arrive, too.
const BEFORE_THE_END_MS: UnixMs = 60_000;

/// Amazon's part of the environment.
#[derive(Default)]
pub(crate) struct Aws {
    variables: Arc<HashMap<String, String>>,
    /// What the last command printed.
    printed: Mutex<Option<CommandOutput>>,
    /// Looked up once: it stands in the address of every model.
    region: OnceLock<Option<String>>,
}

struct CommandOutput {
    by: String,
    keys: AwsKeys,
    ends: Option<UnixMs>,
}

impl Aws {
    pub(super) fn new(variables: Arc<HashMap<String, String>>) -> Aws {
        Aws { variables, ..Aws::default() }
    }

    /// The variable that says where keys are to be found.
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

    /// The keys, whatever it takes. A gateway may know who we are without.
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
            let why = match profile.is_empty() {
                true => format!("there is no profile `{name}`"),
                false => format!("the profile `{name}` has no keys and no credential_process"),
            };
            return Err(format!(
                "{why}. Set what `aws configure export-credentials --profile {name} --format env` \
                 prints"
            ));
        };
        let printed = self.printed_by(command).await;
        printed.map(with_region).map_err(|why| format!("credential_process of `{name}`: {why}"))
    }

    /// The part of the world to ask, if anybody says so.
    pub(crate) fn region(&self) -> Option<String> {
        let find = || {
            let named = self.variable("AWS_REGION").or_else(|| self.variable("AWS_DEFAULT_REGION"));
            named.map(str::to_owned).or_else(|| self.profile().get("region").map(str::to_owned))
        };
        self.region.get_or_init(find).clone()
    }

    /// The variable that names the region, or another address altogether.
    pub(crate) fn address_variable(&self) -> Option<&'static str> {
        let names = [ENDPOINT, "AWS_REGION", "AWS_DEFAULT_REGION"];
        names.into_iter().find(|name| self.variable(name).is_some())
    }

    /// Another address for everything, such as a gateway's.
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
        let kept = || self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(CommandOutput { by, keys, ends }) = &*kept()
            && by == command
            && ends.is_none_or(|ends| Clock::System.now() + BEFORE_THE_END_MS < ends)
        {
            return Ok(keys.clone());
        }
        let output = output_of(command).await?;
        let (keys, ends) = read_printed(&output)?;
        *kept() = Some(CommandOutput { by: command.to_owned(), keys: keys.clone(), ends });
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

/// What a `credential_process` prints, and when it ends. What is wrong with it is told without a
/// word of it.
fn read_printed(output: &str) -> Result<(AwsKeys, Option<UnixMs>), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Output {
        access_key_id: String,
        secret_access_key: String,
        session_token: Option<String>,
        expiration: Option<String>,
    }
    let output: Output = serde_json::from_str(output)
        .map_err(|_| "the command printed no JSON with AccessKeyId and SecretAccessKey")?;
    let ends = output.expiration.as_deref().and_then(time::read_iso);
    let token = output.session_token.as_deref();
    Ok((keys(&output.access_key_id, &output.secret_access_key, token), ends))
}

#[cfg(test)]
mod tests;
