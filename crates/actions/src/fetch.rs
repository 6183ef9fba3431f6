//! Downloads documents for the server itself, such as the keys of an identity provider.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use kalends_domain::{
    CollectionName, CollectionPath, EgressMode, EgressPolicy, GroupName, GroupPath, NameError,
    Secret, SubscriptionId,
};
use kalends_environment::Entropy;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
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

/// Characters that are encoded in client credentials. Not those of ids and secrets that need no
/// encoding: some servers do not decode.
const FORM_VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Credentials of this server at another one, sent as HTTP Basic (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug)]
pub struct ClientSecret<'a> {
    /// Client id.
    pub id: &'a str,
    /// Client secret.
    pub secret: &'a Secret,
}

impl ClientSecret<'_> {
    fn authorization(&self) -> String {
        let encode = |text| utf8_percent_encode(text, FORM_VALUE);
        let pair = format!("{}:{}", encode(self.id), encode(self.secret.reveal()));
        format!("Basic {}", STANDARD.encode(pair))
    }
}

/// The content of a POST.
struct Form {
    body: String,
    authorization: Option<String>,
}

/// The response to a form.
pub struct FormResponse {
    /// HTTP status: 200 or 4xx.
    pub status: u16,
    /// The body, which may contain credentials.
    pub body: Vec<u8>,
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
        Ok(self.exchange(url, None, bytes_max).await?.body)
    }

    /// Posts a form and downloads the response of at most `bytes_max` bytes. Redirects are not
    /// followed.
    pub async fn post_form(
        &self,
        url: &str,
        body: String,
        client: Option<ClientSecret<'_>>,
        bytes_max: usize,
    ) -> Result<FormResponse, FetchError> {
        let authorization = client.map(|client| client.authorization());
        self.exchange(url, Some(Form { body, authorization }), bytes_max).await
    }

    async fn exchange(
        &self,
        url: &str,
        form: Option<Form>,
        bytes_max: usize,
    ) -> Result<FormResponse, FetchError> {
        let url = Url::parse(url).ok().filter(is_trusted).ok_or(FetchError::InvalidUrl)?;
        let download = download(&self.0, &url, form, bytes_max);
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, download).await;
        fetched.unwrap_or(Err(FetchError::Timeout))
    }
}

/// A URL in its normal form, if TLS or the loopback interface protects what is sent there.
pub fn trusted_url(text: &str) -> Option<String> {
    Url::parse(text).ok().filter(is_trusted).map(String::from)
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

async fn download(
    egress: &Egress,
    url: &Url,
    form: Option<Form>,
    bytes_max: usize,
) -> Result<FormResponse, FetchError> {
    let is_form = form.is_some();
    let collection = server_collection().map_err(unreachable)?;
    let to = Destination::of_url(url, &collection).ok_or(FetchError::InvalidUrl)?;
    let connected = egress.connect(&to, &Identity::none(), &AttemptTimer::default()).await;
    let stream = connected.map_err(unreachable)?;
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let (mut request, body) = match form {
        None => (Request::get(target), Bytes::new()),
        Some(Form { body, authorization }) => {
            let post = Request::post(target)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            let request = match authorization {
                Some(authorization) => post.header(header::AUTHORIZATION, authorization),
                None => post,
            };
            (request, body.into())
        }
    };
    request = request
        .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(header::ACCEPT, "application/json")
        .header(header::ACCEPT_ENCODING, "identity");
    let request = request.body(Full::new(body)).map_err(unreachable)?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    let driver = tokio::spawn(connection);
    let read = async {
        let response = sender.send_request(request).await.map_err(unreachable)?;
        let status = response.status();
        // The body of a refused form has the reason.
        if status != hyper::StatusCode::OK && !(is_form && status.is_client_error()) {
            return Err(FetchError::Status(status.as_u16()));
        }
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        let body = body.map_err(|_| FetchError::Length)?.to_bytes().to_vec();
        Ok(FormResponse { status: status.as_u16(), body })
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
    fn client_credentials_are_encoded_only_where_necessary() {
        let secret = Secret::new("a:b+~c".to_owned());
        let client = ClientSecret { id: "6c55a6f0-6593.x_y", secret: &secret };
        let expected = STANDARD.encode("6c55a6f0-6593.x_y:a%3Ab%2B~c");
        assert_eq!(client.authorization(), format!("Basic {expected}"));
    }

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
