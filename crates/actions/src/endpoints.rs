//! Where the services are that jobs send to: a suffix to which a name is put in front, or an
//! address of an emulator under which a name is a folder. Only whoever runs the server says which.

use std::str::FromStr;

use kalends_domain::MessageFormat;
use url::{Host, Url};

/// Where services are, and how the installation speaks to them.
#[derive(Clone, Debug)]
pub struct Services {
    /// Storage queues: accounts.
    pub queues: Endpoint,
    /// The form of queue messages that do not say theirs.
    pub queue_format: MessageFormat,
    /// Service Bus over HTTPS: namespaces.
    pub service_bus: Endpoint,
    /// Service Bus over AMQP, where that is somewhere else.
    pub service_bus_amqp: Option<AmqpEndpoint>,
    /// Tokens: tenants.
    pub login: Endpoint,
}

impl Default for Services {
    fn default() -> Services {
        Services {
            queues: Endpoint::Suffix("queue.core.windows.net".to_owned()),
            queue_format: MessageFormat::Envelope,
            service_bus: Endpoint::Suffix("servicebus.windows.net".to_owned()),
            service_bus_amqp: None,
            login: Endpoint::Suffix("login.microsoftonline.com".to_owned()),
        }
    }
}

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `https://{name}.{suffix}/`.
    Suffix(String),
    /// `{address}/{name}/`, for emulators.
    Base(Url),
}

/// What is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct ParseEndpointError(&'static str);

impl Endpoint {
    /// The address of one account, namespace or tenant. It ends with a slash.
    pub(crate) fn of(&self, name: &str) -> Option<Url> {
        match self {
            Endpoint::Suffix(suffix) => Url::parse(&format!("https://{name}.{suffix}/")).ok(),
            Endpoint::Base(_) => self.below(&[name, ""]),
        }
    }

    /// An address below the service itself, whose names are folders.
    pub(crate) fn below(&self, folders: &[&str]) -> Option<Url> {
        let mut url = match self {
            Endpoint::Suffix(host) => Url::parse(&format!("https://{host}/")).ok()?,
            Endpoint::Base(base) => base.clone(),
        };
        url.path_segments_mut().ok()?.pop_if_empty().extend(folders);
        Some(url)
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Endpoint, ParseEndpointError> {
        const EXPECTED: ParseEndpointError = ParseEndpointError(
            "a suffix such as core.example.org or an address such as http://host:1",
        );
        if !text.contains("://") {
            let is_suffix = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
                && text.split('.').all(|label| !label.is_empty());
            return is_suffix.then(|| Endpoint::Suffix(text.to_owned())).ok_or(EXPECTED);
        }
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        let is_plain = matches!(url.scheme(), "http" | "https") && is_bare(&url);
        (is_plain && url.query().is_none()).then_some(Endpoint::Base(url)).ok_or(EXPECTED)
    }
}

/// No user and no fragment.
fn is_bare(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// Who one is to an AMQP broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmqpLogin {
    /// By a signed token, as Service Bus has it.
    Token,
    /// By the key's name and the key as user and password, as other brokers have it.
    Plain,
}

/// Where an AMQP broker is: `amqp[s]://host[:port][/prefix][?sasl=plain]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpEndpoint {
    /// For the network: scheme `https` where the connection is encrypted.
    pub(crate) address: Url,
    /// What stands before the name of a queue or topic.
    pub(crate) prefix: String,
    pub(crate) login: AmqpLogin,
}

impl AmqpEndpoint {
    /// The broker of a namespace of Service Bus.
    pub(crate) fn of(service: &Endpoint, namespace: &str) -> Option<AmqpEndpoint> {
        let (scheme, port, host) = match service {
            Endpoint::Suffix(suffix) => ("https", 5671, format!("{namespace}.{suffix}")),
            Endpoint::Base(base) if base.scheme() == "http" => {
                ("http", 5672, base.host_str()?.to_owned())
            }
            Endpoint::Base(base) => ("https", 5671, base.host_str()?.to_owned()),
        };
        let address = Url::parse(&format!("{scheme}://{host}:{port}/")).ok()?;
        Some(AmqpEndpoint { address, prefix: String::new(), login: AmqpLogin::Token })
    }

    /// The host, as the broker and tokens know it.
    pub(crate) fn host(&self) -> String {
        match self.address.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(address) => address.to_string(),
            None => String::new(),
        }
    }
}

impl FromStr for AmqpEndpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<AmqpEndpoint, ParseEndpointError> {
        const EXPECTED: ParseEndpointError = ParseEndpointError(
            "an address such as amqps://host:5671 or amqps://host:5671?sasl=plain",
        );
        let (scheme, rest) = text.split_once("://").ok_or(EXPECTED)?;
        let (scheme, default_port) = match scheme {
            "amqps" => ("https", 5671),
            "amqp" => ("http", 5672),
            _ => return Err(EXPECTED),
        };
        let mut url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| EXPECTED)?;
        let login = match url.query() {
            None => AmqpLogin::Token,
            Some("sasl=plain") => AmqpLogin::Plain,
            Some(_) => return Err(EXPECTED),
        };
        if !is_bare(&url) {
            return Err(EXPECTED);
        }
        if url.port().is_none() {
            url.set_port(Some(default_port)).map_err(|()| EXPECTED)?;
        }
        let prefix = match url.path() {
            "/" => String::new(),
            path => path.to_owned(),
        };
        url.set_path("/");
        url.set_query(None);
        Ok(AmqpEndpoint { address: url, prefix, login })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_follows_the_name_and_an_address_is_followed_by_it() {
        let check = |endpoint: &str, expected: &str| {
            let endpoint: Endpoint = endpoint.parse().unwrap();
            assert_eq!(endpoint.of("acc").unwrap().as_str(), expected);
        };
        check("queue.core.windows.net", "https://acc.queue.core.windows.net/");
        check("http://127.0.0.1:10001", "http://127.0.0.1:10001/acc/");
        check("http://127.0.0.1:10001/", "http://127.0.0.1:10001/acc/");
        check("https://emulator/x", "https://emulator/x/acc/");
        let login = Services::default().login.below(&["contoso.com", "oauth2", "token"]).unwrap();
        assert_eq!(login.as_str(), "https://login.microsoftonline.com/contoso.com/oauth2/token");
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_endpoint() {
        for text in ["", "a..b", "a/b", "a:80", "ftp://a", "http://u@a", "http://a?x", "http://a#x"]
        {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        for text in ["", "host", "http://host", "amqp://u:p@host", "amqp://host?sasl=external"] {
            assert!(text.parse::<AmqpEndpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn brokers_have_their_ports_prefixes_and_logins() {
        let check = |text: &str, address: &str, prefix: &str, login| {
            let broker: AmqpEndpoint = text.parse().unwrap();
            let found = (broker.address.as_str(), broker.prefix.as_str(), broker.login);
            assert_eq!(found, (address, prefix, login), "{text}");
        };
        check("amqps://host", "https://host:5671/", "", AmqpLogin::Token);
        check("amqp://127.0.0.1:1", "http://127.0.0.1:1/", "", AmqpLogin::Token);
        let plain = AmqpLogin::Plain;
        check("amqp://host/queues/?sasl=plain", "http://host:5672/", "/queues/", plain);
        let azure = AmqpEndpoint::of(&Services::default().service_bus, "contoso").unwrap();
        assert_eq!(azure.address.as_str(), "https://contoso.servicebus.windows.net:5671/");
        assert_eq!(azure.host(), "contoso.servicebus.windows.net");
    }
}
