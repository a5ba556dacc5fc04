//! The addresses of a server: `unix:PATH` and `ws://HOST:PORT`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Lines of JSON on a Unix socket.
    Unix(PathBuf),
    /// A WebSocket, with one record per message.
    WebSocket(SocketAddr),
}

impl Address {
    /// Parses an address. `unix:` alone is the socket in the agent folder.
    pub fn read(text: &str, agent_dir: &Path) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(match path {
                "" => agent_dir.join("tiller.sock"),
                path => PathBuf::from(path),
            }));
        }
        let expected =
            || format!("{text:?} is no address; expected unix:PATH, or ws://HOST:PORT with a port");
        let host = text.strip_prefix("ws://").ok_or_else(expected)?;
        let host = host.strip_suffix('/').unwrap_or(host);
        let host = match host.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => host.to_owned(),
        };
        host.parse().map(Address::WebSocket).map_err(|_| expected())
    }

    /// The same address for a program with another working directory.
    pub(crate) fn absolute(&self, cwd: &Path) -> Address {
        match self {
            Address::Unix(path) => Address::Unix(cwd.join(path)),
            Address::WebSocket(address) => Address::WebSocket(*address),
        }
    }

    /// Whether only programs of this machine can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::WebSocket(address) => is_loopback(address.ip()),
        }
    }
}

pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::WebSocket(address) => write!(f, "ws://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, expected, is_local) in [
            ("unix:", "unix:/agent/tiller.sock", true),
            ("unix:/run/t.sock", "unix:/run/t.sock", true),
            ("ws://127.0.0.1:7433", "ws://127.0.0.1:7433", true),
            ("ws://localhost:0/", "ws://127.0.0.1:0", true),
            ("ws://[::1]:7433", "ws://[::1]:7433", true),
            ("ws://0.0.0.0:7433", "ws://0.0.0.0:7433", false),
        ] {
            let address = Address::read(text, Path::new("/agent")).unwrap();
            assert_eq!(address.to_string(), expected);
            assert_eq!(address.is_local(), is_local, "{text}");
        }
        for text in ["", "7433", "ws://127.0.0.1", "ws://example.com:80", "wss://127.0.0.1:1"] {
            let error = Address::read(text, Path::new("/agent")).unwrap_err();
            assert!(error.contains("is no address"), "{error}");
        }
    }
}
