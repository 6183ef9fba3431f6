//! Requests of one connection: the limit on those in flight, metrics, and the headers that depend
//! on the connection.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::Service;
use kalends_wire::Version;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::body::ResponseBody;
use crate::capacity::{CapacityExceeded, RequestCapacity, RequestSlot};
use crate::connection_activity::ConnectionActivity;
use crate::forwarded::{RequestSource, Scheme};
use crate::listener::HEADERS_MAX;
use crate::protocol::Protocol;
use crate::resources;
use crate::response::ApiError;

/// HSTS for one year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// An open connection.
pub(crate) struct Connection {
    pub(crate) app: Arc<App>,
    /// Address of the peer: a client, or a proxy in front of it.
    pub(crate) peer: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) transport: Transport,
    pub(crate) activity: Arc<ConnectionActivity>,
    /// Capacity for the requests of all connections.
    pub(crate) capacity: Arc<RequestCapacity>,
    /// One permit for each request in flight on this connection. A stream that the client resets
    /// keeps its permit until its handler ends, so resets do not raise the limit.
    pub(crate) connection_permits: Arc<Semaphore>,
}

/// The origin of a request: its client, and the connection that it arrived on.
pub(crate) struct RequestOrigin {
    pub(crate) source: RequestSource,
    pub(crate) protocol: Protocol,
    pub(crate) slot: Arc<RequestSlot>,
    pub(crate) permit: ConnectionPermit,
}

/// Permit of a request in flight on its connection. The task that handles the request holds it until
/// it ends.
pub(crate) struct ConnectionPermit(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

impl Transport {
    fn scheme(self) -> Scheme {
        match self {
            Transport::Plain => Scheme::Http,
            Transport::Tls => Scheme::Https,
        }
    }
}

impl Connection {
    /// Handles a request, records its metrics and logs it.
    async fn serve(&self, request: Box<Request<Incoming>>) -> Response<ResponseBody> {
        let Some(_activity) = self.activity.begin_request() else { return self.busy() };
        let _metrics = self.app.metrics.begin_request();
        let start = self.app.clock.uptime();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let proxies = &self.app.settings.trusted_proxies;
        let scheme = self.transport.scheme();
        let source = RequestSource::read(proxies, self.peer, scheme, request.headers());
        let (client, scheme) = (source.client, source.scheme);
        let response = self.handle(request, source).await;
        let response = self.add_hsts(response, scheme);
        let response = response.map(|body| body.on_connection(&self.activity));
        let took = self.app.clock.uptime().saturating_sub(start);
        let status = response.status();
        let route = self.app.metrics.end_request(uri.path(), &method, status, took);
        let id = response.headers().get("x-ms-request-id").and_then(|id| id.to_str().ok());
        tracing::debug!(
            request = id.unwrap_or("-"),
            client = %client.0,
            %method,
            route,
            status = status.as_u16(),
            microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "request handled"
        );
        response
    }

    async fn handle(
        &self,
        mut request: Box<Request<Incoming>>,
        source: RequestSource,
    ) -> Response<ResponseBody> {
        if self.protocol == Protocol::Http2
            && let Err(status) = normalise_http2(&mut request)
        {
            let mut response = Response::new(ResponseBody::empty());
            *response.status_mut() = status;
            return response;
        }
        let permit = Arc::clone(&self.connection_permits).acquire_owned().await;
        // Never closed.
        let Ok(permit) = permit.map(ConnectionPermit) else { return self.busy() };
        let slot = RequestSlot::outside(Arc::clone(&self.capacity), source.client.into());
        let slot = Arc::new(slot);
        let origin = RequestOrigin { source, protocol: self.protocol, slot, permit };
        resources::handle(&self.app, origin, request).await
    }

    /// The response to a request that is not handled.
    fn busy(&self) -> Response<ResponseBody> {
        self.app.metrics.request_rejected();
        let error = ApiError::from(CapacityExceeded::Total);
        let ids = self.app.new_response_ids();
        error.response(Version::V2016_03_01).into_http(&self.app, ids)
    }

    /// Adds HSTS unless the host names are shared: HSTS for `localhost` would break other servers
    /// on the machine.
    fn add_hsts(
        &self,
        mut response: Response<ResponseBody>,
        scheme: Scheme,
    ) -> Response<ResponseBody> {
        let is_shared = self.app.settings.hosts.are_shared();
        if scheme == Scheme::Https && !is_shared {
            response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
        }
        response
    }
}

/// The hyper service of a connection.
pub(crate) struct ConnectionService(pub(crate) Arc<Connection>);

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = Arc::clone(&self.0);
        // Boxed, because each of the futures that it passes through would have room for it.
        let request = Box::new(request);
        Box::pin(async move { Ok(connection.serve(request).await) })
    }
}

/// Gives an HTTP/2 request the `Host` header that an HTTP/1.1 request has.
fn normalise_http2<B>(request: &mut Request<B>) -> Result<(), StatusCode> {
    if request.headers().len() > HEADERS_MAX {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    match (authority, host) {
        (Some(authority), Some(host)) if authority.as_bytes() != host => {
            Err(StatusCode::BAD_REQUEST)
        }
        (Some(authority), None) => {
            let host = HeaderValue::from_str(&authority).map_err(|_| StatusCode::BAD_REQUEST)?;
            request.headers_mut().insert(header::HOST, host);
            Ok(())
        }
        _ => Ok(()),
    }
}
