//! Settings of outbound connections.

use std::net::SocketAddr;
use std::time::Duration;

use kalends_domain::EgressPolicy;
use url::Url;

/// Settings of outbound connections, from the command line or the configuration file.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// Which destinations jobs may connect to.
    pub policy: EgressPolicy,
    /// Additional CA certificates in PEM; the system's are always trusted.
    pub ca_bundle: Vec<u8>,
    /// HTTP proxy for all connections; `None` connects directly.
    pub proxy: Option<Proxy>,
    /// DNS servers; the system resolver if empty.
    pub name_servers: Vec<SocketAddr>,
    /// Time limit of a TCP connect, over all addresses of a host name. Default: 20 seconds.
    pub connect_timeout: Duration,
    /// Concurrent HTTP requests of one collection to one target. Further attempts wait, within their
    /// timeout, so that a burst of jobs does not overload the target. Default: 256.
    pub connections_per_target_max: usize,
}

impl Default for EgressSettings {
    fn default() -> EgressSettings {
        EgressSettings {
            policy: EgressPolicy::default(),
            ca_bundle: Vec::new(),
            proxy: None,
            name_servers: Vec::new(),
            connect_timeout: Duration::from_secs(20),
            connections_per_target_max: 256,
        }
    }
}

/// An HTTP proxy that supports CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A proxy URL that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be http://HOST:PORT without user, path or query")]
pub struct ParseProxyError;

impl Proxy {
    /// Parses `http://HOST:PORT`.
    pub fn parse(text: &str) -> Result<Proxy, ParseProxyError> {
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
    fn proxies_are_parsed_from_urls_without_user_path_or_query() {
        let proxy = |host: &str, port| Ok(Proxy { host: host.into(), port });
        assert_eq!(Proxy::parse("http://proxy.corp:3128"), proxy("proxy.corp", 3128));
        assert_eq!(Proxy::parse("http://[::1]:3128/"), proxy("::1", 3128));
        for text in ["proxy:3128", "https://proxy:3128", "http://u@proxy:1", "http://proxy/x", ""] {
            assert_eq!(Proxy::parse(text), Err(ParseProxyError), "{text}");
        }
    }
}
