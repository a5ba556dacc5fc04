//! Explains connection errors: converts the HTTP library's errors to texts for the user.

use std::error::Error;
use std::io;

use tiller_agent::provider::ProviderError;

use crate::diagnosis::{Cause, LostWhen, shown};
use crate::{client, tls};

/// The error, and its cause.
pub(crate) fn explain(base_url: &str, err: &reqwest::Error) -> (ProviderError, Option<Cause>) {
    if err.is_builder() {
        let message = format!("{:?} is no address of a server", shown(base_url));
        return (ProviderError::fatal(message), Some(Cause::NoAddress));
    }
    if let Some(tls) = cause::<rustls::Error>(err).filter(|_| err.is_connect()) {
        // A retry would meet the same certificate.
        let (reason, kind) = tls::explain(tls);
        return (ProviderError::fatal(format!("Connection error: {reason}")), Some(kind));
    }
    // The error type is private; its text is known.
    if causes(err).any(|cause| cause.to_string().starts_with("invalid HTTP")) {
        let message = "Connection error: the server does not speak HTTP";
        return (ProviderError::fatal(message), Some(Cause::NotTheApi));
    }
    let lost = ProviderError::retry("Connection error.");
    if !err.is_connect() {
        // The server closed the connection before it responded. This is temporary.
        return (lost, Some(Cause::Lost(LostWhen::BeforeAnswer)));
    }
    let io = causes(err).filter_map(|cause| cause.downcast_ref()).last().map(io::Error::kind);
    if client::proxy_for(base_url).is_some() {
        let kind = |how: &str| Some(Cause::Proxy(how.to_owned()));
        return match tunnel_error(err) {
            Some("proxy authorization required") => {
                let message = "Connection error: the proxy asks for a name and a password";
                (ProviderError::fatal(message), kind("asks for a name and a password"))
            }
            Some("unsuccessful") => (lost, kind("does not open a way there")),
            _ => (lost, kind(&format!("cannot be reached: {}", reason(err, io)))),
        };
    }
    let kind = if err.is_dns() { Cause::UnknownHost } else { Cause::Unreachable(reason(err, io)) };
    (lost, Some(kind))
}

fn reason(err: &reqwest::Error, io: Option<io::ErrorKind>) -> String {
    match io {
        _ if err.is_dns() => "its name cannot be looked up".to_owned(),
        _ if err.is_timeout() => "it does not answer".to_owned(),
        Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            "it hangs up".to_owned()
        }
        Some(kind) if kind != io::ErrorKind::Other => kind.to_string(),
        _ => "the connection cannot be made".to_owned(),
    }
}

/// The error of a proxy's tunnel, again recognised by its text.
fn tunnel_error(err: &reqwest::Error) -> Option<&'static str> {
    const KNOWN: [&str; 2] = ["proxy authorization required", "unsuccessful"];
    let mut words = causes(err).map(ToString::to_string);
    words.find_map(|words| {
        let what = words.strip_prefix("tunnel error: ")?;
        KNOWN.into_iter().find(|known| *known == what)
    })
}

fn cause<E: Error + 'static>(err: &reqwest::Error) -> Option<&E> {
    causes(err).find_map(|cause| cause.downcast_ref())
}

/// The error and its chain of sources.
fn causes<'a>(err: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(err), |&err| {
        // `source` of an I/O error skips the error inside it, which may be the relevant one.
        let inside = err.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inside {
            Some(inner) => Some(inner),
            None => err.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_issuer_is_found_in_the_error_chain() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let nested = io::Error::other(io::Error::other(tls));
        let mut words = causes(&nested).filter_map(|err| err.downcast_ref::<rustls::Error>());
        assert_eq!(words.next().unwrap().to_string(), "invalid peer certificate: UnknownIssuer");
    }
}
