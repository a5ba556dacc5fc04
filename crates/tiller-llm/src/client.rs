//! The HTTP client, created with the first request and then shared, so that the next request of a
//! conversation reuses the connection.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tiller_agent::provider::ProviderError;

/// Covers everything before the request is sent: DNS, proxy, TCP, TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often an HTTP/2 connection is pinged while an answer streams, and how long the server may
/// take to reply. A model may think for minutes, but its server replies meanwhile.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
const REDIRECTS_MAX: usize = 20;
const USER_AGENT: &str = concat!("tiller/", env!("CARGO_PKG_VERSION"));

/// The client for this URL. It follows no redirects, which would send the key elsewhere. Must be
/// called inside a Tokio runtime with time and I/O enabled.
pub(crate) fn for_url(url: &str) -> Result<&'static Client, ProviderError> {
    // Loading the system's certificates takes longer than a whole request to a model on this
    // machine, so plain HTTP does without them.
    static SECURE: OnceLock<Result<Client, String>> = OnceLock::new();
    static PLAIN: OnceLock<Result<Client, String>> = OnceLock::new();
    let plain = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let client = if plain {
        PLAIN.get_or_init(|| build(built_in_roots, Policy::none()))
    } else {
        SECURE.get_or_init(|| build(system_roots, Policy::none()))
    };
    client.as_ref().map_err(ProviderError::fatal)
}

/// The client for requests that follow redirects.
pub(crate) fn that_follows() -> Result<&'static Client, ProviderError> {
    // One for all URLs, since a redirect may lead from http to https.
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| build(system_roots, Policy::limited(REDIRECTS_MAX)));
    client.as_ref().map_err(ProviderError::fatal)
}

/// The proxy for this URL, as `host:port`. It is read from the environment, by the same rules as in
/// the client.
pub(crate) fn proxy_for(url: &str) -> Option<String> {
    static PROXIES: OnceLock<Matcher> = OnceLock::new();
    let proxies = PROXIES.get_or_init(Matcher::from_system);
    let proxy = proxies.intercept(&url.parse().ok()?)?;
    let host = proxy.uri().host()?;
    let port = proxy.uri().port_u16();
    Some(port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn build(
    tls: fn() -> Result<ClientConfig, rustls::Error>,
    redirects: Policy,
) -> Result<Client, String> {
    let mut tls = tls().map_err(|err| format!("cannot set up TLS: {err}"))?;
    // The server chooses; the first is preferred.
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .redirect(redirects)
        // The previous URL may contain private data that the next server should not see.
        .referer(false)
        .pool_max_idle_per_host(4)
        .build()
        .map_err(|err| format!("cannot set up HTTP: {err}"))
}

/// The system's certificates, since a company's own authority is only found there. If there are
/// none, as in a minimal container, the bundled list of Mozilla.
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
