//! What an operator sets about the door.

use std::net::SocketAddr;
use std::time::Duration;

use kalends_domain::EgressPolicy;
use url::Url;

/// What an operator sets about the door.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// Where jobs may go.
    pub policy: EgressPolicy,
    /// Certificates, in PEM, that are trusted beside those of the system.
    pub trusted: Vec<u8>,
    /// Through whom everything goes.
    pub proxy: Option<Proxy>,
    /// Who is asked for addresses of names; empty for those that the system asks.
    pub name_servers: Vec<SocketAddr>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// Connections at once to one target for one collection. A burst of jobs for one target waits
    /// its turn here, within its time-out, and does not flood it.
    pub connections_per_target_max: usize,
}

impl Default for EgressSettings {
    fn default() -> EgressSettings {
        EgressSettings {
            policy: EgressPolicy::default(),
            trusted: Vec::new(),
            proxy: None,
            name_servers: Vec::new(),
            connect_timeout: Duration::from_secs(20),
            connections_per_target_max: 256,
        }
    }
}

/// An HTTP proxy that makes connections when it is asked to with CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Why a text names no proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected http://HOST:PORT without user, path or query")]
pub struct ParseProxyError;

impl Proxy {
    /// Reads `http://HOST:PORT`.
    pub fn read(text: &str) -> Result<Proxy, ParseProxyError> {
        let url = Url::parse(text).map_err(|_| ParseProxyError)?;
        let is_plain = url.scheme() == "http"
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none();
        let host = url.host_str().filter(|_| is_plain).ok_or(ParseProxyError)?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Proxy { host, port: url.port_or_known_default().ok_or(ParseProxyError)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_read_from_their_addresses() {
        let proxy = |host: &str, port| Ok(Proxy { host: host.into(), port });
        assert_eq!(Proxy::read("http://proxy.corp:3128"), proxy("proxy.corp", 3128));
        assert_eq!(Proxy::read("http://[::1]:3128/"), proxy("::1", 3128));
        for text in ["proxy:3128", "https://proxy:3128", "http://u@proxy:1", "http://proxy/x", ""] {
            assert_eq!(Proxy::read(text), Err(ParseProxyError), "{text}");
        }
    }
}
