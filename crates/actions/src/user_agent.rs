//! The HTTP client of the command line: requests that a person sends to a server of their choice.
//!
//! It differs from the client for jobs: it talks to one server only, the egress policy of jobs does not
//! apply, responses may be as long as the caller accepts, and a response can be read while it arrives.
//! It follows no redirects, so a token never reaches another server.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use kalends_domain::{AllowEntry, EgressMode, EgressPolicy};
use kalends_environment::Entropy;
use tokio::time::timeout;
use url::{Host, Position, Url};

use crate::egress::{ConnectError, Destination, Egress, EgressSettings, Identity};
use crate::fetch::server_collection;
use crate::timing::AttemptTimer;

/// Time limit of name resolution, connect and TLS handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit from the request to the headers of the response. The server limits its work to less.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum UserAgentError {
    /// The URL is not http or https, or has no host.
    #[error("the URL must start with http:// or https:// and have a host")]
    InvalidUrl,
    /// The CA bundle cannot be read.
    #[error("the CA file has no valid certificate: {0}")]
    CaBundle(#[source] io::Error),
    /// The host name has no address.
    #[error("the host name {0} has no address")]
    UnknownHost(String),
    /// No address accepts connections.
    #[error("nothing accepts connections there")]
    Refused,
    /// The certificate of the server is not trusted.
    #[error("the certificate of the server is not trusted: {0}")]
    Untrusted(String),
    /// The TLS handshake failed, as with a server that does not speak TLS.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
    /// The server did not respond in time.
    #[error("the server did not respond in time")]
    Timeout,
    /// The connection broke, or the response is not HTTP.
    #[error("{0}")]
    Protocol(String),
    /// The body is longer than the caller accepts.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
}

/// Sends requests to one server, over keep-alive connections: one for each request in flight.
pub struct UserAgent {
    egress: Egress,
    url: Url,
    to: Destination,
    idle: Mutex<Vec<Connection>>,
}

type Connection = SendRequest<Full<Bytes>>;

/// The body of a response, which may still be arriving.
pub struct ResponseBody(Incoming);

impl UserAgent {
    /// Keep-alive connections that stay open between requests. A server accepts 128 of a client by
    /// default, which may share its address with others.
    pub const IDLE_CONNECTIONS_MAX: usize = 16;

    /// A client of the server at `url`, whose path and query are ignored. `ca_bundle` has additional CA
    /// certificates in PEM.
    pub fn new(
        url: &Url,
        ca_bundle: Vec<u8>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<UserAgent, UserAgentError> {
        let collection = server_collection().map_err(|_| UserAgentError::InvalidUrl)?;
        let to = Destination::of_url(url, &collection).ok_or(UserAgentError::InvalidUrl)?;
        let settings = EgressSettings {
            policy: policy_for(&to),
            ca_bundle,
            connect_timeout: CONNECT_TIMEOUT,
            ..EgressSettings::default()
        };
        let egress = Egress::new(settings, entropy).map_err(UserAgentError::CaBundle)?;
        Ok(UserAgent { egress, url: url.clone(), to, idle: Mutex::default() })
    }

    /// Whether requests stay on this machine: the host is a loopback address or `localhost`.
    pub fn is_loopback(url: &Url) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
            None => false,
        }
    }

    /// Sends a request, whose URI is a path with an optional query, and reads the response with a body
    /// of at most `bytes_max` bytes.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        bytes_max: usize,
    ) -> Result<Response<Vec<u8>>, UserAgentError> {
        let (mut connection, response) = self.exchange(self.prepare(request)?).await?;
        let (head, body) = response.into_parts();
        let body = collect(body, bytes_max).await?;
        if connection.ready().await.is_ok() {
            self.keep(connection);
        }
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request over a connection of its own and returns the response while its body arrives.
    pub async fn stream(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<ResponseBody>, UserAgentError> {
        let request = self.prepare(request)?;
        let mut sender = self.connect().await?;
        let sent = within(sender.send_request(request)).await?;
        Ok(sent.map_err(|error| protocol_error(&error))?.map(ResponseBody))
    }

    fn prepare(&self, mut request: Request<Bytes>) -> Result<Request<Full<Bytes>>, UserAgentError> {
        let host = &self.url[Position::BeforeHost..Position::AfterPort];
        let host = host.parse().map_err(|_| UserAgentError::InvalidUrl)?;
        request.headers_mut().insert(header::HOST, host);
        Ok(request.map(Full::new))
    }

    /// Sends a request over an idle connection, or a new one.
    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), UserAgentError> {
        while let Some(mut connection) = self.take_idle() {
            match within(connection.try_send_request(request)).await? {
                Ok(response) => return Ok((connection, response)),
                // The server closed the connection; nothing was sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(protocol_error(&error.into_error())),
                },
            }
        }
        let mut connection = self.connect().await?;
        let sent = within(connection.send_request(request)).await?;
        Ok((connection, sent.map_err(|error| protocol_error(&error))?))
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < UserAgent::IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    async fn connect(&self) -> Result<Connection, UserAgentError> {
        let (none, timer) = (Identity::none(), AttemptTimer::default());
        let stream = self.egress.connect(&self.to, &none, &timer).await.map_err(connect_error)?;
        let connected = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connected.map_err(|error| protocol_error(&error))?;
        // Its error reaches the request that uses the connection.
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl ResponseBody {
    /// The next bytes, as they arrive; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, UserAgentError> {
        chunk(&mut self.0).await
    }

    /// The whole body, of at most `bytes_max` bytes.
    pub async fn collect(self, bytes_max: usize) -> Result<Vec<u8>, UserAgentError> {
        collect(self.0, bytes_max).await
    }
}

async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>, UserAgentError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(protocol_error(&error)),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Vec<u8>, UserAgentError> {
    let mut collected = Vec::new();
    while let Some(bytes) = within(chunk(&mut body)).await?? {
        if collected.len() + bytes.len() > bytes_max {
            return Err(UserAgentError::TooLong(bytes_max));
        }
        collected.extend_from_slice(&bytes);
    }
    Ok(collected)
}

/// A policy that opens the destination on its port: a person may call every server.
fn policy_for(to: &Destination) -> EgressPolicy {
    let (host, port) = (&to.host, to.port);
    let entry = AllowEntry::parse(&format!("{host}:{port}"));
    let allow = entry.into_iter().collect();
    EgressPolicy { mode: EgressMode::SingleUser, allow, ..EgressPolicy::default() }
}

async fn within<T>(exchange: impl Future<Output = T>) -> Result<T, UserAgentError> {
    timeout(RESPONSE_TIMEOUT, exchange).await.map_err(|_| UserAgentError::Timeout)
}

fn connect_error(error: ConnectError) -> UserAgentError {
    match error {
        ConnectError::Unresolved(name) => UserAgentError::UnknownHost(name),
        ConnectError::Refused => UserAgentError::Refused,
        ConnectError::Untrusted(cause) => UserAgentError::Untrusted(cause.to_string()),
        ConnectError::Handshake(cause) => UserAgentError::Handshake(cause.to_string()),
        ConnectError::HandshakeTimeout => UserAgentError::Timeout,
        other => UserAgentError::Protocol(other.to_string()),
    }
}

/// hyper leaves the cause out of its message.
fn protocol_error(error: &hyper::Error) -> UserAgentError {
    UserAgentError::Protocol(match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })
}
