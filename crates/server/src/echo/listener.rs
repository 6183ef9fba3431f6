//! Accepts the connections of the echo target and responds to their requests.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kalends_actions::{REDACTED, redact_parameters};
use kalends_domain::SecretHeaders;
use kalends_wire::Json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::allowed_hosts::AllowedHosts;
use crate::echo::directive::{DELAY_MAX, Directive};
use crate::listener::{ACCEPT_PAUSE, HEAD_BYTES_MAX, HEADERS_MAX, pause};
use crate::strict_http1::StrictHttp1Stream;

/// Requests in flight. The limit keeps a delayed response from tying up more than a few sockets.
const REQUESTS_MAX: usize = 16;
/// Open connections: those with a request in flight, and those that send one or read a 503. The
/// target closes further ones.
const CONNECTIONS_MAX: usize = 4 * REQUESTS_MAX;
/// Bytes of a request body; a job sends at most 8,192 characters.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the request body that the response shows.
const SHOWN_BYTES_MAX: usize = 8 * 1024;
/// Time to receive a request head, and the body after it.
const RECEIVE_TIME_MAX: Duration = Duration::from_secs(10);
/// Time of a connection: it receives a request, waits for the delay and sends the response.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(30).saturating_add(DELAY_MAX);

/// The echo target.
pub struct EchoTarget {
    listener: TcpListener,
    address: SocketAddr,
    secret_headers: SecretHeaders,
    requests: Semaphore,
}

impl EchoTarget {
    /// An echo target on this listener. The response shows the values of `secret_headers` redacted.
    pub fn new(listener: TcpListener, secret_headers: SecretHeaders) -> io::Result<EchoTarget> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            let message = "the echo target listens on loopback addresses only";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let requests = Semaphore::new(REQUESTS_MAX);
        Ok(EchoTarget { listener, address, secret_headers, requests })
    }

    /// The address that the target listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Responds to requests until the future is dropped.
    pub async fn serve(self) {
        let target = Arc::new(self);
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let stream = match target.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection of the echo target failed");
                    pause(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Dropping the stream closes the connection.
            let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else { continue };
            let target = Arc::clone(&target);
            tokio::spawn(async move {
                let _ = timeout(CONNECTION_TIME_MAX, target.serve_connection(stream)).await;
                drop(permit);
            });
        }
    }

    /// Responds to one request: without keep-alive no idle connection takes a place.
    async fn serve_connection(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let stream = StrictHttp1Stream::new(stream, RECEIVE_TIME_MAX);
        let service = service_fn(async |request| Ok::<_, Infallible>(self.respond(request).await));
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .keep_alive(false)
            .header_read_timeout(RECEIVE_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX as usize)
            .max_headers(HEADERS_MAX);
        // Connection errors concern the client alone.
        let _ = http1.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        // A web page can resolve a name of its own to this address (DNS rebinding).
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| AllowedHosts::Loopback.allow(host)) {
            let message = "Host must be a loopback name, such as localhost or 127.0.0.1";
            return error(StatusCode::MISDIRECTED_REQUEST, message);
        }
        let Ok(_permit) = self.requests.try_acquire() else {
            let message =
                format!("The echo target handles at most {REQUESTS_MAX} requests at once");
            return error(StatusCode::SERVICE_UNAVAILABLE, &message);
        };
        let directive = match Directive::read(request.uri().path(), request.uri().query()) {
            Ok(directive) => directive,
            Err(invalid) => return error(StatusCode::BAD_REQUEST, &invalid.to_string()),
        };
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect();
        let body = match timeout(RECEIVE_TIME_MAX, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                let message =
                    format!("The body must be complete and have at most {BODY_BYTES_MAX} bytes");
                return error(StatusCode::PAYLOAD_TOO_LARGE, &message);
            }
            Err(_) => {
                return error(StatusCode::REQUEST_TIMEOUT, "The body must arrive within 10 s");
            }
        };
        pause(directive.delay).await;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let shown = body.get(..SHOWN_BYTES_MAX).unwrap_or(&body);
        let members = [
            ("method", Json::from(head.method.as_str())),
            ("path", Json::from(redact_parameters(path.to_owned()))),
            ("headers", self.shown_headers(&head.headers)),
            ("body", Json::from(redact_parameters(String::from_utf8_lossy(shown).into_owned()))),
        ];
        let echo = object(members.into_iter());
        json(directive.status, &echo)
    }

    fn shown_headers<'a>(&self, headers: &'a HeaderMap) -> Json<'a> {
        object(headers.iter().map(|(name, value)| {
            let value = match self.secret_headers.contains(name.as_str()) {
                true => Json::from(REDACTED),
                false => Json::from(String::from_utf8_lossy(value.as_bytes()).into_owned()),
            };
            (name.as_str(), value)
        }))
    }
}

fn object<'a>(members: impl Iterator<Item = (&'a str, Json<'a>)>) -> Json<'a> {
    Json::Object(members.map(|(name, value)| (Cow::Borrowed(name), value)).collect())
}

fn error(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    json(status, &object([("error", Json::from(message))].into_iter()))
}

/// A response with a JSON body, except for statuses that have none.
fn json(status: StatusCode, body: &Json<'_>) -> Response<Full<Bytes>> {
    let without_body =
        [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    let mut response = match without_body.contains(&status) {
        true => Response::default(),
        false => Response::new(Full::from(format!("{body}\n"))),
    };
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = http::HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    response
}
