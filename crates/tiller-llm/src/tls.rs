//! Explains TLS errors in plain text, since the library prints Rust types.

use std::fmt;

use rustls::{CertificateError, Error};

use crate::diagnosis::{Cause, CertificateFault};

/// The reason, and its cause.
pub(crate) fn explain(err: &Error) -> (String, Cause) {
    match err {
        Error::InvalidMessage(_) => ("the server does not speak TLS".to_owned(), Cause::NoTls),
        Error::InvalidCertificate(err) => {
            let (reason, fault) = certificate(err);
            let reason = format!("the server's certificate {reason}");
            (reason, Cause::Certificate(fault))
        }
        Error::AlertReceived(alert) => {
            let reason = format!("the server refuses the TLS connection: {}", describe(alert));
            (reason, Cause::NotSecure)
        }
        Error::PeerIncompatible(why) => {
            let reason = format!("the server's TLS is not compatible: {}", describe(why));
            (reason, Cause::NotSecure)
        }
        Error::PeerMisbehaved(why) => {
            let reason = format!("the server breaks the rules of TLS: {}", describe(why));
            (reason, Cause::NotSecure)
        }
        err => (format!("TLS fails: {}", describe(err)), Cause::NotSecure),
    }
}

fn certificate(err: &CertificateError) -> (String, CertificateFault) {
    let (reason, fault) = match err {
        CertificateError::UnknownIssuer => {
            ("is signed by an unknown authority", CertificateFault::UnknownAuthority)
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("has expired", CertificateFault::OutOfDate)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet", CertificateFault::OutOfDate)
        }
        CertificateError::NotValidForName => ("is for another name", CertificateFault::OtherName),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names = match presented.as_slice() {
                [] => "names no host".to_owned(),
                // As the library prints them: `DnsName("localhost")`.
                names => {
                    let bare = |name: &String| {
                        let inside = name.split_once('(').map_or(&**name, |(_, inside)| inside);
                        inside.trim_end_matches(')').trim_matches('"').to_owned()
                    };
                    format!("is for {}", names.iter().map(bare).collect::<Vec<_>>().join(", "))
                }
            };
            return (names, CertificateFault::OtherName);
        }
        CertificateError::Revoked => ("has been revoked", CertificateFault::Other),
        // The library's own type is private; its printed name is known.
        CertificateError::Other(err) if err.0.to_string() == "CaUsedAsEndEntity" => (
            "is that of a certificate authority (CA:TRUE), not of a server",
            CertificateFault::AuthorityAsServer,
        ),
        CertificateError::Other(err) => {
            return (format!("is not valid: {}", describe(&err.0)), CertificateFault::Other);
        }
        err => return (format!("is not valid: {}", describe(err)), CertificateFault::Other),
    };
    (reason.to_owned(), fault)
}

/// `HandshakeFailure` as "handshake failure": the first name in the `Debug` output.
fn describe(value: &impl fmt::Debug) -> String {
    let printed = format!("{value:?}");
    let end = printed.find(|c: char| !c.is_alphanumeric()).unwrap_or(printed.len());
    let mut words = String::new();
    for c in printed[..end].chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use rustls::{AlertDescription, OtherError, PeerIncompatible};

    use super::*;

    /// Prints its name, as the library's errors do.
    #[derive(Debug)]
    struct CaUsedAsEndEntity;

    impl fmt::Display for CaUsedAsEndEntity {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl std::error::Error for CaUsedAsEndEntity {}

    #[test]
    fn tls_errors_are_plain_sentences() {
        let authority = OtherError(Arc::new(CaUsedAsEndEntity));
        let mut report = String::new();
        for err in [
            Error::InvalidCertificate(CertificateError::UnknownIssuer),
            Error::InvalidCertificate(CertificateError::Expired),
            Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected: "api.example".try_into().unwrap(),
                presented: vec!["DnsName(\"localhost\")".to_owned(), "IpAddress(::1)".to_owned()],
            }),
            Error::InvalidCertificate(CertificateError::Other(authority)),
            Error::InvalidCertificate(CertificateError::BadSignature),
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
            Error::NoApplicationProtocol,
        ] {
            report += &format!("{}\n", explain(&err).0);
        }
        expect![[r#"
            the server's certificate is signed by an unknown authority
            the server's certificate has expired
            the server's certificate is for localhost, ::1
            the server's certificate is that of a certificate authority (CA:TRUE), not of a server
            the server's certificate is not valid: bad signature
            the server refuses the TLS connection: handshake failure
            the server's TLS is not compatible: no cipher suites in common
            TLS fails: no application protocol
        "#]]
        .assert_eq(&report);
    }
}
