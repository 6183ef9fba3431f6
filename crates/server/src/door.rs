//! Where a connection hands in its requests: how many at once, and what every answer has to say
//! of the connection.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::Service;
use kalends_wire::{ErrorCode, ErrorDetails, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Client;
use crate::activity::Activity;
use crate::answer::Refused;
use crate::app::App;
use crate::listener::{HEADERS_MAX, STREAMS_MAX};
use crate::preface::Protocol;
use crate::resources;

/// A year, as browsers are advised to remember that a name is served over TLS alone.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The door of one connection.
pub(crate) struct Door {
    pub(crate) app: Arc<App>,
    /// Who is at the other end.
    pub(crate) client: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) security: Security,
    pub(crate) activity: Arc<Activity>,
    /// Requests of all connections.
    pub(crate) everybody: Arc<Semaphore>,
    /// Requests of this connection. A client that takes requests back does not make room by that:
    /// they are carried out all the same.
    pub(crate) own: Arc<Semaphore>,
}

/// How a request came.
pub(crate) struct Arrived {
    pub(crate) client: Client,
    pub(crate) protocol: Protocol,
    pub(crate) places: Places,
}

/// The places of a request. What carries it out holds them as long as it works on it.
pub(crate) struct Places {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Whether others can listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    Tls,
}

impl Door {
    pub(crate) fn rooms() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(STREAMS_MAX))
    }

    /// Answers, counts and tells the log.
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (_under_way, _counted) = (self.activity.begin(), self.app.figures.request());
        let begin = self.app.clock.uptime();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = self.handle(request).await;
        let took = self.app.clock.uptime().saturating_sub(begin);
        let status = response.status();
        let route = self.app.figures.answered(uri.path(), &method, status, took);
        let id = response.headers().get("x-ms-request-id").and_then(|id| id.to_str().ok());
        tracing::debug!(
            request = id.unwrap_or("-"),
            client = %self.client,
            %method,
            route,
            status = status.as_u16(),
            microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
        response
    }

    async fn handle(&self, mut request: Request<Incoming>) -> Response<Body> {
        if self.protocol == Protocol::Http2
            && let Err(status) = as_http1(&mut request)
        {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            return response;
        }
        let response = match self.places().await {
            Some(places) => {
                let client = Client(self.client);
                let arrived = Arrived { client, protocol: self.protocol, places };
                resources::handle(&self.app, arrived, request.map(Body::new)).await
            }
            None => {
                self.app.figures.refused_as_busy();
                let message = "too much is asked at once; try again";
                let refused = Refused::from(ErrorDetails::one(ErrorCode::ServerBusy, "", message));
                refused.answer(Version::V2016_03_01).respond(&self.app, self.app.new_ids())
            }
        };
        self.sign(response)
    }

    async fn places(&self) -> Option<Places> {
        let own = Arc::clone(&self.own).acquire_owned().await.ok()?;
        Some(Places { _own: own, _of_all: Arc::clone(&self.everybody).try_acquire_owned().ok()? })
    }

    /// A name of the machine itself is left alone: other servers share it.
    fn sign(&self, mut response: Response<Body>) -> Response<Body> {
        let is_shared = self.app.settings.hosts.are_shared();
        if self.security == Security::Tls && !is_shared {
            response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, TLS_ONLY);
        }
        response
    }
}

/// What hyper asks.
pub(crate) struct Answering(pub(crate) Arc<Door>);

impl Service<Request<Incoming>> for Answering {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let door = Arc::clone(&self.0);
        Box::pin(async move { Ok(door.answer(request).await) })
    }
}

/// Makes a request of HTTP/2 look like one of HTTP/1.1, whose host has a header of its own.
fn as_http1<B>(request: &mut Request<B>) -> Result<(), StatusCode> {
    if request.headers().len() > HEADERS_MAX {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    let named = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let given = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    match (named, given) {
        (Some(named), Some(given)) if named.as_bytes() != given => Err(StatusCode::BAD_REQUEST),
        (Some(named), None) => {
            let host = HeaderValue::from_str(&named).map_err(|_| StatusCode::BAD_REQUEST)?;
            request.headers_mut().insert(header::HOST, host);
            Ok(())
        }
        _ => Ok(()),
    }
}
