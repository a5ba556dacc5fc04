//! The address of a database: a PostgreSQL URL, with a few parameters of our own.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Where sessions are stored, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) config: Config,
    /// Certificates that are trusted in place of the system's.
    pub(crate) root_certificates: Option<PathBuf>,
    pub(crate) schema: String,
    /// The most connections.
    pub(crate) connections: usize,
    /// After how long without a sign of life other processes may take over a process's sessions.
    pub(crate) takeover: Duration,
    /// How long an append is tried.
    pub(crate) timeout: Duration,
}

impl Options {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS`.
    pub fn read(url: &str) -> Result<Options, String> {
        if !Options::is_url(url) {
            return Err("expected a URL that begins with postgres://".to_owned());
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut schema = "tiller".to_owned();
        let mut connections = 8;
        let mut takeover = 30;
        let mut timeout = 10;
        let mut root_certificates = None;
        let mut ssl_mode = None;
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "schema" => schema = schema_name(value)?,
                "connections" => connections = number(name, value, 1, 1_000)?,
                "takeover_seconds" => takeover = number(name, value, 1, 86_400)?,
                "timeout_seconds" => timeout = number(name, value, 1, 3_600)?,
                "sslrootcert" => root_certificates = Some(PathBuf::from(decoded(value))),
                "sslmode" => ssl_mode = Some(read_ssl_mode(value)?),
                _ => others.push(parameter),
            }
        }
        let plain = match others.as_slice() {
            [] => base.to_owned(),
            others => format!("{base}?{}", others.join("&")),
        };
        // The error of the parser does not repeat the URL, which may contain a password.
        let mut config: Config = plain.parse().map_err(|err: tokio_postgres::Error| {
            let cause = std::error::Error::source(&err).map(|cause| format!(": {cause}"));
            format!("{err}{}", cause.unwrap_or_default())
        })?;
        if config.get_hosts().is_empty() {
            return Err("the URL names no host".to_owned());
        }
        let is_local = config.get_hosts().iter().all(is_local);
        let default = if is_local { SslMode::Disable } else { SslMode::Require };
        config.ssl_mode(ssl_mode.unwrap_or(default));
        if config.get_user().is_none() {
            return Err("the URL names no user".to_owned());
        }
        if config.get_application_name().is_none() {
            config.application_name("tiller");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(timeout as u64));
        }
        if !others.iter().any(|parameter| parameter.starts_with("keepalives_idle=")) {
            // Firewalls forget connections that were idle for some minutes.
            config.keepalives_idle(Duration::from_secs(60));
        }
        Ok(Options {
            config,
            root_certificates,
            schema,
            connections,
            takeover: Duration::from_secs(takeover as u64),
            timeout: Duration::from_secs(timeout as u64),
        })
    }

    /// Whether a text is the URL of a PostgreSQL database.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// The database, for people: without the password.
    pub fn description(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let user = self.config.get_user().unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or(user);
        format!("{user}@{}/{database} (schema {})", hosts.join(","), self.schema)
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
    }
}

/// Certificates are always checked when TLS is used, so `require` means `verify-full`.
fn read_ssl_mode(value: &str) -> Result<SslMode, String> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        _ => Err("parameter sslmode: expected disable, prefer, require or verify-full".to_owned()),
    }
}

/// A schema becomes part of statements, so only plain names are accepted.
fn schema_name(value: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = value.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts_well && value.chars().all(is_plain) && value.len() <= 48 {
        Ok(value.to_owned())
    } else {
        Err("parameter schema: expected small letters, digits and `_`".to_owned())
    }
}

fn number(name: &str, value: &str, min: usize, max: usize) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("parameter {name}: expected a number from {min} to {max}"))
}

/// Replaces `%2F` and the like.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_parameters_of_our_own() {
        let url = "postgres://ada:secret@db.example.com:6432/work?schema=agents&connections=20\
                   &takeover_seconds=5&timeout_seconds=3&sslrootcert=%2Fetc%2Fca.pem";
        let options = Options::read(url).unwrap();
        assert_eq!((options.schema.as_str(), options.connections), ("agents", 20));
        assert_eq!(
            (options.takeover, options.timeout),
            (Duration::from_secs(5), Duration::from_secs(3))
        );
        assert_eq!(options.root_certificates, Some("/etc/ca.pem".into()));
        assert_eq!(options.config.get_ports(), [6432]);
        assert_eq!(options.description(), "ada@db.example.com/work (schema agents)");
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn remote_hosts_need_tls_unless_the_url_says_otherwise() {
        for (url, expected) in [
            ("postgres://u@db.example.com/d", SslMode::Require),
            ("postgres://u@db.example.com/d?sslmode=disable", SslMode::Disable),
            ("postgres://u@db.example.com/d?sslmode=verify-full", SslMode::Require),
            ("postgres://u@db.example.com/d?sslmode=prefer", SslMode::Prefer),
            ("postgres://u@localhost/d", SslMode::Disable),
            ("postgres://u@%2Ftmp%2Fpg/d", SslMode::Disable),
            ("postgresql:///d?host=/tmp/pg&user=u", SslMode::Disable),
        ] {
            assert_eq!(Options::read(url).unwrap().config.get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn wrong_urls_are_refused_without_repeating_the_password() {
        for (url, expected) in [
            ("mysql://u:secret@h/d", "expected a URL that begins with postgres://"),
            ("postgres:///d", "the URL names no host"),
            ("postgres://h/d", "the URL names no user"),
            (
                "postgres://u:secret@h/d?schema=A;drop",
                "parameter schema: expected small letters, digits and `_`",
            ),
            (
                "postgres://u@h/d?connections=0",
                "parameter connections: expected a number from 1 to 1000",
            ),
            (
                "postgres://u@h/d?sslmode=maybe",
                "parameter sslmode: expected disable, prefer, require or verify-full",
            ),
        ] {
            assert_eq!(Options::read(url).unwrap_err(), expected);
        }
        let unknown = Options::read("postgres://u:secret@h/d?colour=red").unwrap_err();
        assert!(unknown.contains("colour") && !unknown.contains("secret"), "{unknown}");
    }
}
