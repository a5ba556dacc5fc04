//! The HTTP client, built when the first request is made and then shared by all of them, so that
//! the next request of a conversation finds its connection open.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tiller_agent::provider::ProviderError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("tiller/", env!("CARGO_PKG_VERSION"));

/// The client for this address. Must be called inside a Tokio runtime with time and I/O enabled.
pub(crate) fn for_url(url: &str) -> Result<&'static Client, ProviderError> {
    // Reading the system's certificates costs more than a whole request to a model on this very
    // machine, so plain HTTP does without them.
    static SECURE: OnceLock<Result<Client, String>> = OnceLock::new();
    static PLAIN: OnceLock<Result<Client, String>> = OnceLock::new();
    let plain = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let client = if plain {
        PLAIN.get_or_init(|| build(built_in_roots))
    } else {
        SECURE.get_or_init(|| build(system_roots))
    };
    client.as_ref().map_err(ProviderError::fatal)
}

fn build(tls: fn() -> Result<ClientConfig, rustls::Error>) -> Result<Client, String> {
    let tls = tls().map_err(|err| format!("cannot set up TLS: {err}"))?;
    Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        // Following a redirect would carry the key to wherever it points.
        .redirect(Policy::none())
        .pool_max_idle_per_host(4)
        .build()
        .map_err(|err| format!("cannot set up HTTP: {err}"))
}

/// The system's certificates, because a company's own authority is only found there. Where there
/// are none, as in a bare container, Mozilla's list that we carry along.
fn system_roots() -> Result<ClientConfig, rustls::Error> {
    match tls()?.with_platform_verifier() {
        Ok(config) => Ok(config.with_no_client_auth()),
        Err(_no_certificates) => built_in_roots(),
    }
}

fn built_in_roots() -> Result<ClientConfig, rustls::Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    Ok(tls()?.with_root_certificates(roots).with_no_client_auth())
}

fn tls() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(crypto).with_safe_default_protocol_versions()
}
