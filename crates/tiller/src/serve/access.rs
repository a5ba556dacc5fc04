//! Who may use a TCP address: the token, and the checks against web pages of others.
//!
//! A page in a browser can send requests to loopback addresses. Its `Origin` gives it away, and so
//! does the `Host` of a name that was rebound to a loopback address.

use std::net::IpAddr;

use super::address::is_loopback;
use super::token::is_same;

/// What a server accepts.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessRules {
    pub(crate) token: String,
    /// Names beside loopback addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Origins beside the server itself.
    pub(crate) origins: Vec<String>,
    /// The server was told to accept other machines, so a `Host` may be any address.
    pub(crate) allows_remote: bool,
}

/// The headers that decide about a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) authorization: Option<&'a str>,
    /// The values of `Sec-WebSocket-Protocol`.
    pub(crate) protocols: &'a str,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessDenied {
    /// The `Host` is none of ours.
    Host,
    /// A page of another server sends the request.
    Origin,
    /// The token is missing or wrong.
    Token,
}

impl AccessRules {
    /// Checks where a request comes from. For everything but the page itself, the token follows.
    pub(crate) fn check_source(&self, facts: &RequestFacts<'_>) -> Result<(), AccessDenied> {
        let Some(host) = facts.host.filter(|host| self.accepts_host(host)) else {
            return Err(AccessDenied::Host);
        };
        let is_own = |origin: &str| {
            let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            name.is_some_and(|name| name.eq_ignore_ascii_case(host))
        };
        match facts.origin {
            Some(origin) if !is_own(origin) && !self.origins.iter().any(|one| one == origin) => {
                Err(AccessDenied::Origin)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_token(&self, facts: &RequestFacts<'_>) -> Result<(), AccessDenied> {
        let bearer = facts.authorization.and_then(|value| value.strip_prefix("Bearer "));
        let in_protocols =
            facts.protocols.split(',').find_map(|name| name.trim().strip_prefix("token."));
        match bearer.or(in_protocols) {
            Some(shown) if is_same(&self.token, shown.trim()) => Ok(()),
            _ => Err(AccessDenied::Token),
        }
    }

    fn accepts_host(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|one| one.eq_ignore_ascii_case(name))
        {
            return true;
        }
        // A name can be bound to any address by its owner, an address cannot.
        name.parse::<IpAddr>().is_ok_and(|ip| self.allows_remote || is_loopback(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> AccessRules {
        AccessRules {
            token: "secret-secret-secret".into(),
            hosts: vec!["tiller.example".into()],
            origins: vec!["https://app.example".into()],
            allows_remote: false,
        }
    }

    #[test]
    fn requests_from_elsewhere_are_refused() {
        for (host, origin, expected) in [
            (Some("127.0.0.1:7433"), None, Ok(())),
            (Some("localhost:7433"), Some("http://localhost:7433"), Ok(())),
            (Some("[::1]:7433"), Some("http://[::1]:7433"), Ok(())),
            (Some("tiller.example"), Some("https://app.example"), Ok(())),
            (None, None, Err(AccessDenied::Host)),
            (Some("evil.example:7433"), None, Err(AccessDenied::Host)),
            (Some("192.168.1.2:7433"), None, Err(AccessDenied::Host)),
            (Some("127.0.0.1.evil.example"), None, Err(AccessDenied::Host)),
            (Some("localhost:7433"), Some("http://evil.example"), Err(AccessDenied::Origin)),
            (Some("localhost:7433"), Some("http://localhost:80"), Err(AccessDenied::Origin)),
            (Some("localhost:7433"), Some("null"), Err(AccessDenied::Origin)),
        ] {
            let facts = RequestFacts { host, origin, ..RequestFacts::default() };
            assert_eq!(rules().check_source(&facts), expected, "{host:?} {origin:?}");
        }
        let remote = AccessRules { allows_remote: true, ..rules() };
        let facts = RequestFacts { host: Some("192.168.1.2:7433"), ..RequestFacts::default() };
        assert_eq!(remote.check_source(&facts), Ok(()));
    }

    #[test]
    fn token_comes_in_a_header_or_as_a_protocol() {
        let token = "secret-secret-secret";
        let bearer = format!("Bearer {token}");
        for (authorization, protocols, expected) in [
            (Some(bearer.as_str()), String::new(), Ok(())),
            (None, format!("tiller, token.{token}"), Ok(())),
            (None, String::new(), Err(AccessDenied::Token)),
            (None, "tiller".to_owned(), Err(AccessDenied::Token)),
            (None, "token.other".to_owned(), Err(AccessDenied::Token)),
            (Some("Bearer "), String::new(), Err(AccessDenied::Token)),
            (Some("Basic secret-secret-secret"), String::new(), Err(AccessDenied::Token)),
        ] {
            let protocols = protocols.as_str();
            let facts = RequestFacts { authorization, protocols, ..RequestFacts::default() };
            assert_eq!(rules().check_token(&facts), expected, "{authorization:?} {protocols}");
        }
    }
}
