//! Downloads documents for the server itself, such as the keys of an identity provider.

use std::error::Error;
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
use crate::timing::AttemptTimer;

/// Time limit of a download.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URL is invalid, or plain http to another machine.
    #[error("must be an https URL, or an http URL of this machine")]
    InvalidUrl,
    /// No connection, or no HTTP response.
    #[error("{0}")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The status is not 200. Redirects are not followed.
    #[error("the response has the status {0}")]
    Status(u16),
    /// The body is incomplete or exceeds the limit.
    #[error("the response is incomplete or exceeds the size limit")]
    Length,
    /// The download exceeded its time limit.
    #[error("no response in time")]
    Timeout,
}

/// Downloads documents over checked connections.
#[derive(Clone)]
pub struct Fetcher(Egress);

impl Fetcher {
    /// Fails if the CA bundle cannot be read. The operator configures the URLs, so the egress mode
    /// for jobs does not apply; destinations that are denied in every mode are denied here too.
    pub fn new(settings: EgressSettings, entropy: Arc<dyn Entropy>) -> io::Result<Fetcher> {
        let policy = EgressPolicy { mode: EgressMode::SingleUser, ..settings.policy };
        Egress::new(EgressSettings { policy, ..settings }, entropy).map(Fetcher)
    }

    /// Downloads a document of at most `bytes_max` bytes.
    pub async fn fetch(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
        let url = Url::parse(url).ok().filter(is_trusted).ok_or(FetchError::InvalidUrl)?;
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, download(&self.0, &url, bytes_max)).await;
        fetched.unwrap_or(Err(FetchError::Timeout))
    }
}

/// Whether TLS or the loopback interface protects the response from forgery.
fn is_trusted(url: &Url) -> bool {
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// A collection name for the egress policy. No user can create it, so allow-list entries of single
/// collections do not apply.
pub(crate) fn server_collection() -> Result<CollectionPath, NameError> {
    Ok(CollectionPath {
        group: GroupPath {
            subscription: SubscriptionId::new("00000000-0000-0000-0000-000000000000")?,
            group: GroupName::new("kalends")?,
        },
        collection: CollectionName::new("service")?,
    })
}

async fn download(egress: &Egress, url: &Url, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    let collection = server_collection().map_err(unreachable)?;
    let to = Destination::of_url(url, &collection).ok_or(FetchError::InvalidUrl)?;
    let connected = egress.connect(&to, &Identity::none(), &AttemptTimer::default()).await;
    let stream = connected.map_err(unreachable)?;
    let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(header::ACCEPT, "application/json")
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Empty::<Bytes>::new())
        .map_err(unreachable)?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    let driver = tokio::spawn(connection);
    let read = async {
        let response = sender.send_request(request).await.map_err(unreachable)?;
        if response.status() != hyper::StatusCode::OK {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        body.map(|body| body.to_bytes().to_vec()).map_err(|_| FetchError::Length)
    };
    let result = read.await;
    driver.abort();
    result
}

fn unreachable(error: impl Error + Send + Sync + 'static) -> FetchError {
    FetchError::Unreachable(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_loopback_urls_are_trusted() {
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
