//! The HTTP client, built when the first request is made and then shared by all of them, so that
//! the next request of a conversation finds its connection open.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tiller_agent::provider::ProviderError;

/// For everything up to the moment a request can be sent: the name, the proxy, TCP, TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that carries an answer over HTTP/2 is asked this often whether it still lives, and
/// has this long to say so. A model may think for minutes, but its server answers meanwhile.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
const REDIRECTS_MAX: usize = 20;
const USER_AGENT: &str = concat!("tiller/", env!("CARGO_PKG_VERSION"));

/// The client for this address. It follows no redirect, which would carry the key to wherever that
/// points. Must be called inside a Tokio runtime with time and I/O enabled.
pub(crate) fn for_url(url: &str) -> Result<&'static Client, ProviderError> {
    // Reading the system's certificates costs more than a whole request to a model on this very
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

/// The client for somebody who wants to be led on to other addresses.
pub(crate) fn that_follows() -> Result<&'static Client, ProviderError> {
    // One for all addresses, since a plain one may lead to a secure one.
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| build(system_roots, Policy::limited(REDIRECTS_MAX)));
    client.as_ref().map_err(ProviderError::fatal)
}

/// The proxy that a request to this address goes through, as `host:port`. It is named by the
/// environment, and the client decides by the same rules.
pub(crate) fn proxy_for(url: &str) -> Option<String> {
    static PROXIES: OnceLock<Matcher> = OnceLock::new();
    let proxies = PROXIES.get_or_init(Matcher::from_system);
    let proxy = proxies.intercept(&url.parse().ok()?)?;
    let (host, port) = (proxy.uri().host()?, proxy.uri().port_u16());
    Some(port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn build(
    tls: fn() -> Result<ClientConfig, rustls::Error>,
    redirects: Policy,
) -> Result<Client, String> {
    let mut tls = tls().map_err(|err| format!("cannot set up TLS: {err}"))?;
    // The server chooses; the first is the one we would rather have.
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .redirect(redirects)
        // Where somebody was led from may say more than whom it is told should know.
        .referer(false)
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
