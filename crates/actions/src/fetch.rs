//! Documents that the service needs for itself, such as the keys of an identity provider.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use kalends_domain::{
    CollectionName, CollectionPath, EgressMode, EgressPolicy, GroupName, GroupPath, NameError,
    SubscriptionId,
};
use kalends_environment::Entropy;
use url::{Host, Position, Url};

use crate::egress::{Destination, Egress, EgressSettings, Identity};
use crate::laps::Laps;

/// A whole fetch takes no longer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is no address, or one that others could answer for.
    #[error("expected an https address, or an http one of this machine")]
    Address,
    /// Nobody answers, or not as a web server does.
    #[error("{0}")]
    Unreachable(String),
    /// It is answered with another status than 200; redirects are not followed.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// It is longer than allowed, or was cut.
    #[error("the answer is cut, or longer than allowed")]
    Length,
    /// It took too long.
    #[error("no answer in time")]
    Late,
}

/// Fetches documents through the one door to the network.
#[derive(Clone)]
pub struct Fetcher(Egress);

impl Fetcher {
    /// Fails where certificates that are to be trusted cannot be read. An operator says what is
    /// fetched, so that the mode that holds for jobs is not asked; what is never reached is not
    /// reached here either.
    pub fn new(settings: EgressSettings, entropy: Arc<dyn Entropy>) -> io::Result<Fetcher> {
        let policy = EgressPolicy { mode: EgressMode::SingleUser, ..settings.policy };
        Egress::new(EgressSettings { policy, ..settings }, entropy).map(Fetcher)
    }

    /// Fetches a document of at most `bytes_max` bytes.
    pub async fn fetch(&self, address: &str, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
        let url = Url::parse(address).ok().filter(is_trusted).ok_or(FetchError::Address)?;
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, exchange(&self.0, &url, bytes_max)).await;
        fetched.unwrap_or(Err(FetchError::Late))
    }
}

/// Whether nobody on the way can answer in the place of who was asked.
fn is_trusted(url: &Url) -> bool {
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// Entries of the allow-list that are for one collection are not for the service: none is called
/// like this.
fn nobody() -> Result<CollectionPath, NameError> {
    Ok(CollectionPath {
        group: GroupPath {
            subscription: SubscriptionId::new("00000000-0000-0000-0000-000000000000")?,
            group: GroupName::new("kalends")?,
        },
        collection: CollectionName::new("service")?,
    })
}

async fn exchange(egress: &Egress, url: &Url, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    let unreachable = |why: String| FetchError::Unreachable(why);
    let nobody = nobody().map_err(|error| unreachable(error.to_string()))?;
    let to = Destination::of_url(url, &nobody).ok_or(FetchError::Address)?;
    let connected = egress.connect(&to, &Identity::none(), &Laps::default()).await;
    let stream = connected.map_err(|why| unreachable(format!("no connection: {why:?}")))?;
    let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(header::ACCEPT, "application/json")
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Empty::<Bytes>::new())
        .map_err(|error| unreachable(error.to_string()))?;
    let shaken = handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| unreachable(error.to_string()))?;
    let driver = tokio::spawn(connection);
    let read = async {
        let answered = sender.send_request(request).await;
        let answer = answered.map_err(|error| unreachable(error.to_string()))?;
        if answer.status() != hyper::StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let body = Limited::new(answer.into_body(), bytes_max).collect().await;
        body.map(|body| body.to_bytes().to_vec()).map_err(|_| FetchError::Length)
    };
    let done = read.await;
    driver.abort();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_nobody_can_forge_are_fetched() {
        for address in [
            "https://login.example/keys",
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "http://localhost/",
        ] {
            assert!(is_trusted(&Url::parse(address).unwrap()), "{address}");
        }
        for address in [
            "http://login.example/keys",
            "file:///etc/passwd",
            "http://10.0.0.1/",
            "ftp://localhost/",
        ] {
            assert!(!is_trusted(&Url::parse(address).unwrap()), "{address}");
        }
    }
}
