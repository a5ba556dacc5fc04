//! Hints beside a provider's own error: what the user can do when a request fails. A hint names the
//! model, the cause, and where that is configured.

use tiller_agent::model::Model;
use tiller_llm::{Cause, CertificateFault, Diagnosis, LostWhen};

use super::full_name;
use crate::credentials::{KeySource, default_variable};

/// Where the key and the address were configured.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    pub(super) key: Option<KeySource>,
    pub(super) address: AddressSource,
}

#[derive(Clone, Debug)]
pub(super) enum AddressSource {
    /// Built in.
    Catalogue,
    ModelsFile,
    /// An environment variable.
    Variable(String),
}

impl Origins {
    pub(super) fn hint(&self, model: &Model, trouble: &Diagnosis) -> String {
        let Diagnosis { kind, address, proxy } = trouble;
        let advice = match kind {
            Cause::Key => {
                let remedy = self.another_key(&model.provider);
                format!("{} is not accepted. {remedy}.", self.key_name())
            }
            Cause::Permission => format!(
                "{} refused the request. {} may lack the permission for this model, or the \
                 provider does not serve this region. Check both in the provider's console.",
                model.provider,
                capitalised(&self.key_name())
            ),
            Cause::Credit => format!(
                "the account behind {} has no credit or quota left. Add credit at {}, or choose \
                 another model.",
                self.key_name(),
                model.provider
            ),
            Cause::Model => unknown_model(model),
            Cause::TooLong => format!(
                "the conversation does not fit into the model's context window of {} tokens. \
                 Shorten the message or the files with it, begin a new session, or choose a model \
                 with a larger window.",
                model.context_window
            ),
            Cause::Lost(LostWhen::BeforeAnswer) => {
                format!("{address} closed the connection before it answered.")
            }
            Cause::Lost(LostWhen::InAnswer) => {
                format!("the connection to {address} was lost in the middle of the answer.")
            }
            Cause::NotTheApi => self.not_the_api(model, trouble),
            Cause::NoAddress => {
                let check = self.check_address(&model.provider).unwrap_or_default();
                format!("the address must begin with https:// or http://. {check}.")
            }
            Cause::UnknownHost => {
                let check = self.check_address(&model.provider).unwrap_or(CHECK_NETWORK.to_owned());
                format!("cannot resolve the host of {address}. {check}.")
            }
            Cause::Unreachable(why) => match self.check_address(&model.provider) {
                Some(check) => {
                    format!("cannot connect to {address}: {why}. Is the server running? {check}.")
                }
                None => format!("cannot connect to {address}: {why}. {CHECK_NETWORK}."),
            },
            Cause::NoTls => {
                let check = self.check_address(&model.provider).unwrap_or(CHECK_NETWORK.to_owned());
                format!(
                    "{address} does not speak TLS. {check}; use http:// for a server without TLS."
                )
            }
            Cause::Certificate(fault) => self.certificate_hint(*fault, model, trouble),
            Cause::NotSecure => {
                let check = self.check_address(&model.provider).unwrap_or(CHECK_NETWORK.to_owned());
                format!("cannot make a secure connection to {address}. {check}.")
            }
            Cause::Proxy(how) => {
                let proxy = proxy.as_deref().unwrap_or("(unknown)");
                let variable =
                    if address.starts_with("http:") { "HTTP_PROXY" } else { "HTTPS_PROXY" };
                format!(
                    "the proxy {proxy} {how}. It is set by {variable} or ALL_PROXY, with a \
                     password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not \
                     used for."
                )
            }
        };
        format!("{}: {advice}", full_name(&model.provider, &model.id))
    }

    fn not_the_api(&self, model: &Model, trouble: &Diagnosis) -> String {
        let Diagnosis { address, proxy, .. } = trouble;
        let suspect = match (proxy, self.check_address(&model.provider)) {
            (Some(proxy), Some(check)) => format!("{check}, and the proxy {proxy}"),
            (Some(proxy), None) => format!("The proxy {proxy} may have answered instead"),
            (None, Some(check)) => check,
            (None, None) => "A proxy or gateway may have answered instead".to_owned(),
        };
        format!("the server at {address} does not implement the API {}. {suspect}.", model.api)
    }

    fn certificate_hint(
        &self,
        fault: CertificateFault,
        model: &Model,
        trouble: &Diagnosis,
    ) -> String {
        let Diagnosis { address, proxy, .. } = trouble;
        let whose = match proxy {
            Some(proxy) => format!("The proxy {proxy} may have replaced it. "),
            None => String::new(),
        };
        match fault {
            CertificateFault::UnknownAuthority | CertificateFault::Other => format!(
                "the certificate of {address} cannot be trusted. {whose}Add your own authority or \
                 self-signed certificate to the system's certificates, or to the file that \
                 SSL_CERT_FILE names."
            ),
            CertificateFault::AuthorityAsServer => format!(
                "the server at {address} uses the certificate of an authority as its own, which is \
                 refused even if that authority is trusted. {whose}Give the server a certificate \
                 signed by this authority, and set SSL_CERT_FILE to the authority's file; or \
                 create the self-signed certificate again with `openssl req -x509 -addext \
                 basicConstraints=critical,CA:FALSE …`, and set SSL_CERT_FILE to it."
            ),
            CertificateFault::OtherName => {
                let check = self.check_address(&model.provider);
                let check = check.map(|check| format!("{check}, and the server's. "));
                let check = check.unwrap_or_default();
                format!("the certificate of {address} is for another name. {whose}{check}")
            }
            CertificateFault::OutOfDate => format!(
                "the certificate of {address} is out of date. {whose}Renew it if the server is \
                 yours, and check the clock of this machine."
            ),
        }
        .trim_end()
        .to_owned()
    }

    fn key_name(&self) -> String {
        match &self.key {
            Some(KeySource::SignIn(_)) => "the sign-in in auth.json".to_owned(),
            Some(KeySource::CommandLine) => "the key given with --api-key".to_owned(),
            Some(KeySource::Ambient(name)) => format!("the identity that {name} names"),
            Some(KeySource::Variable(name)) => format!("the key in {name}"),
            Some(KeySource::Extension) => "the key from an extension".to_owned(),
            Some(source @ (KeySource::AuthFile | KeySource::ModelsFile)) => {
                format!("the key in {source}")
            }
            None => "the key".to_owned(),
        }
    }

    fn another_key(&self, provider: &str) -> String {
        let store = format!("`tiller auth set {provider}`");
        match &self.key {
            Some(KeySource::CommandLine) => format!("Give another, or store one with {store}"),
            Some(KeySource::SignIn(_)) => format!("{SIGN_IN_AGAIN}, or store a key with {store}"),
            Some(KeySource::ModelsFile) => {
                format!("Change `apiKey` of `{provider}` there, or store one with {store}")
            }
            Some(KeySource::Variable(_)) => format!("Set another, or store one with {store}"),
            Some(KeySource::Extension) => {
                format!("Check the extension, or store one with {store}")
            }
            Some(KeySource::Ambient(_)) => {
                "Check whether it has expired and may use this model in this region".to_owned()
            }
            Some(KeySource::AuthFile) | None => {
                let variable = default_variable(provider).filter(|_| self.key.is_none());
                let set = variable.map(|name| format!("Set {name}, or store"));
                format!("{} another with {store}", set.unwrap_or("Store".to_owned()))
            }
        }
    }

    /// Where the address can be changed, if the user can change it.
    fn check_address(&self, provider: &str) -> Option<String> {
        match &self.address {
            AddressSource::Catalogue => None,
            AddressSource::Variable(name) => Some(format!("Check {name}")),
            AddressSource::ModelsFile => {
                Some(format!("Check `baseUrl` of `{provider}` in models.json"))
            }
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// How to renew a sign-in: tiller cannot sign in by itself.
pub(crate) const SIGN_IN_AGAIN: &str =
    "Sign in again with the program that wrote it to auth.json (in pi: `/login`)";

const CHECK_NETWORK: &str = "Check the network connection; behind a proxy, set HTTPS_PROXY";

fn unknown_model(model: &Model) -> String {
    let Model { provider, id, .. } = model;
    if model.api == "azure-openai-responses" {
        return format!(
            "there is no deployment of this name. Set the deployment's name with \
             AZURE_OPENAI_DEPLOYMENT_NAME_MAP={id}=DEPLOYMENT."
        );
    }
    format!(
        "{provider} has no such model, or not for this key. `tiller --list-models {provider}/` \
         shows those that are known; others can be described in models.json."
    )
}

#[cfg(test)]
mod tests;
