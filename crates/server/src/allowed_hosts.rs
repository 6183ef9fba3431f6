//! Host names that the server accepts, against DNS rebinding.

use std::net::IpAddr;

/// Host names that the server accepts. A web page can resolve a name of its own to the address of the
/// server (DNS rebinding); requests with such a name are rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedHosts {
    /// `localhost` and loopback addresses: the only choice that is safe without authentication.
    #[default]
    Loopback,
    /// Every name.
    Any,
    /// The listen address and a list of names.
    Named {
        /// The listen address. An unspecified address accepts every IP address and `localhost`.
        listen: IpAddr,
        /// Names without ports, compared without regard to case.
        names: Vec<String>,
    },
}

impl AllowedHosts {
    /// Whether a `Host` header is accepted. Ports are ignored: a proxy may listen on another one.
    pub(crate) fn allow(&self, host: &str) -> bool {
        match self {
            AllowedHosts::Any => true,
            AllowedHosts::Loopback => is_loopback(host),
            AllowedHosts::Named { listen, names } => {
                let name = without_port(host);
                let is_address = match address(name) {
                    // The server is reachable under every address of the machine.
                    Some(_) if listen.is_unspecified() => true,
                    Some(address) => address == *listen,
                    None => false,
                };
                let is_local = listen.is_loopback() || listen.is_unspecified();
                is_address
                    || (is_local && is_loopback(host))
                    || names.iter().any(|known| known.eq_ignore_ascii_case(name))
            }
        }
    }

    /// Whether other servers on the machine have the same names.
    pub(crate) fn are_shared(&self) -> bool {
        match self {
            AllowedHosts::Loopback => true,
            AllowedHosts::Any => false,
            AllowedHosts::Named { listen, .. } => listen.is_loopback(),
        }
    }

    /// The accepted names, for error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            AllowedHosts::Any => "any name".into(),
            AllowedHosts::Loopback => "localhost, 127.0.0.1 or [::1]".into(),
            AllowedHosts::Named { listen, names } => {
                let names = [&[listen.to_string()], names.as_slice()].concat();
                format!("one of {} or a name of the setting host", names.join(", "))
            }
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    inner.unwrap_or(name).parse().ok()
}

fn is_loopback(host: &str) -> bool {
    let name = without_port(host);
    match address(name) {
        Some(address) => address.is_loopback(),
        None => name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listen_address_and_the_names_are_accepted() {
        let check = |listen: &str, host: &str, expected| {
            let names = vec!["jobs.example.org".to_owned()];
            let hosts = AllowedHosts::Named { listen: listen.parse().unwrap(), names };
            assert_eq!(hosts.allow(host), expected, "{listen} {host}");
        };
        for listen in ["127.0.0.1", "10.0.0.5", "0.0.0.0", "::"] {
            check(listen, "jobs.example.org", true);
            check(listen, "JOBS.example.org:8443", true);
            check(listen, "evil.test", false);
            check(listen, "jobs.example.org.evil.test", false);
            check(listen, "", false);
        }
        check("10.0.0.5", "10.0.0.5:8080", true);
        check("10.0.0.5", "10.0.0.6:8080", false);
        check("10.0.0.5", "localhost:8080", false);
        check("127.0.0.1", "localhost:8080", true);
        check("127.0.0.1", "10.0.0.5", false);
        check("0.0.0.0", "10.0.0.6:8080", true);
        check("::", "[2001:db8::1]:8080", true);
        check("0.0.0.0", "localhost", true);
    }
}
