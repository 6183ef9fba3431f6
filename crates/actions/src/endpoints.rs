//! Endpoints of the services that jobs send to: a domain suffix that follows the name of an account,
//! namespace or tenant, or the base URL of an emulator, whose paths begin with the name. Only the
//! operator configures them.

use std::str::FromStr;

use kalends_domain::MessageFormat;
use url::{Host, Url};

/// The endpoints of all services, with defaults for Azure.
#[derive(Clone, Debug)]
pub struct Services {
    /// Storage queues; the name is an account.
    pub queues: Endpoint,
    /// The format of queue messages without `messageFormat`.
    pub queue_format: MessageFormat,
    /// Service Bus over HTTPS; the name is a namespace.
    pub service_bus: Endpoint,
    /// Service Bus over AMQP; derived from `service_bus` if absent.
    pub service_bus_amqp: Option<AmqpEndpoint>,
    /// OAuth token endpoints; the name is a tenant.
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

/// The endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `https://{name}.{suffix}/`.
    Suffix(String),
    /// `{base}/{name}/`, for emulators.
    Base(Url),
}

/// An endpoint that cannot be parsed, with a description of the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {0}")]
pub struct ParseEndpointError(&'static str);

impl Endpoint {
    /// The URL of one account, namespace or tenant. It ends with a slash.
    pub(crate) fn of(&self, name: &str) -> Option<Url> {
        match self {
            Endpoint::Suffix(suffix) => Url::parse(&format!("https://{name}.{suffix}/")).ok(),
            Endpoint::Base(_) => self.below(&[name, ""]),
        }
    }

    /// A URL with path segments below the service itself.
    pub(crate) fn below(&self, segments: &[&str]) -> Option<Url> {
        let mut url = match self {
            Endpoint::Suffix(host) => Url::parse(&format!("https://{host}/")).ok()?,
            Endpoint::Base(base) => base.clone(),
        };
        url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
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

/// Whether the URL has neither credentials nor a fragment.
fn is_bare(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// How an attempt authenticates to an AMQP broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmqpLogin {
    /// Claims-based security with a signed token, as in Service Bus.
    Token,
    /// SASL PLAIN with the name of the key and the key as user and password.
    Plain,
}

/// The endpoint of an AMQP broker: `amqp[s]://host[:port][/prefix][?sasl=plain]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpEndpoint {
    /// Scheme `https` if the connection uses TLS, else `http`.
    pub(crate) address: Url,
    /// Prefix of the names of queues and topics.
    pub(crate) prefix: String,
    pub(crate) login: AmqpLogin,
}

impl AmqpEndpoint {
    /// The endpoint of a Service Bus namespace.
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

    /// The host for the AMQP open frame and the audience of tokens.
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
    fn a_suffix_follows_the_name_and_a_base_url_precedes_it() {
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
    fn ambiguous_endpoints_are_refused() {
        for text in ["", "a..b", "a/b", "a:80", "ftp://a", "http://u@a", "http://a?x", "http://a#x"]
        {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        for text in ["", "host", "http://host", "amqp://u:p@host", "amqp://host?sasl=external"] {
            assert!(text.parse::<AmqpEndpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn amqp_endpoints_have_default_ports_prefixes_and_logins() {
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
