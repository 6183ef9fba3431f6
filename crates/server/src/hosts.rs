//! The names that a server answers to.

use std::net::IpAddr;

/// The names that a server answers to. A web page can let a name of its own point to any address;
/// under such a name it gets nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Those of the machine itself. Without authentication nothing else will do.
    #[default]
    Loopback,
    /// Any.
    Any,
    /// The address that is listened on, and these names.
    Named {
        /// The address.
        listen: IpAddr,
        /// The names, without ports.
        names: Vec<String>,
    },
}

impl Hosts {
    /// Whether a `Host` header names this server. Ports are not looked at: a proxy may have another.
    pub(crate) fn allow(&self, host: &str) -> bool {
        match self {
            Hosts::Any => true,
            Hosts::Loopback => is_loopback(host),
            Hosts::Named { listen, names } => {
                let name = without_port(host);
                let is_address = match address(name) {
                    // Whoever listens everywhere is reached under any address of the machine.
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

    /// Whether other servers of the machine have the same names.
    pub(crate) fn are_shared(&self) -> bool {
        match self {
            Hosts::Loopback => true,
            Hosts::Any => false,
            Hosts::Named { listen, .. } => listen.is_loopback(),
        }
    }

    /// The names in words.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Hosts::Any => "any name".into(),
            Hosts::Loopback => "localhost, 127.0.0.1 and [::1] only".into(),
            Hosts::Named { listen, names } => {
                let names = [&[listen.to_string()], names.as_slice()].concat();
                format!("{} only; --host adds a name", names.join(", "))
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
    fn a_server_answers_to_its_address_and_its_names() {
        let check = |listen: &str, host: &str, expected| {
            let names = vec!["jobs.example.org".to_owned()];
            let hosts = Hosts::Named { listen: listen.parse().unwrap(), names };
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
