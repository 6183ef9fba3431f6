//! Accepts connections: how many, for how long, and how much they may send before a handler runs.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::app::App;
use crate::audit::Windows;
use crate::capacity::{RequestCapacity, ShareLimits, SharedCapacity};
use crate::connection::{Connection, ConnectionService, Transport};
use crate::connection_activity::{ConnectionActivity, MeteredStream};
use crate::metrics::ServerMetrics;
use crate::open_connections::OpenConnections;
use crate::protocol::{DetectedProtocol, Protocol, detect_protocol};
use crate::strict_http1::StrictHttp1Stream;
use crate::tls::{ALPN_HTTP2, Tls};

/// Bytes of the request line and the headers together.
pub(crate) const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// Headers of a request; clients of this API send about fifteen.
pub(crate) const HEADERS_MAX: usize = 100;
/// Open connections. A further one takes the place of an idle one; if none is idle, it waits in the
/// accept queue of the kernel. Each uses a file descriptor, of which a process usually has 1,024.
const CONNECTIONS_MAX: u16 = 512;
/// TLS handshakes in progress. Each connection has one, and waits for its own client only; a client
/// with too many loses the connection.
const HANDSHAKES: ShareLimits =
    ShareLimits { total: CONNECTIONS_MAX as usize, per_client: 64, per_caller: 64 };
/// Time for a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// Requests in flight on one connection.
const STREAMS_MAX: usize = 64;
/// HTTP/2 flow-control windows: that of a stream holds the longest request body, that of the
/// connection several of them.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Streams reset before they were handled, after which hyper treats the connection as a rapid
/// reset attack and closes it.
const RESETS_MAX: usize = 20;
/// Interval and timeout of HTTP/2 pings.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIME_MAX: Duration = Duration::from_secs(10);
/// Time that a graceful shutdown waits for requests in flight.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(30);
/// Pause after `accept` failed; the usual cause, too many open files, is temporary.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval between two searches for an idle connection while all have requests in flight.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Time between two searches for counts of refused requests that are due.
const REFUSALS_PAUSE: Duration = Duration::from_secs(5);

/// Serves requests until `stop` completes, then shuts down gracefully: no further connection is
/// accepted and requests in flight are finished.
pub async fn serve(
    listener: TcpListener,
    app: App,
    tls: Option<Arc<Tls>>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let events = app.events.clone();
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX.into()));
    let (stopping, stopped) = watch::channel(());
    let open = OpenConnections::new(
        app.settings.connections_per_client_max,
        app.settings.trusted_proxies.clone(),
    );
    let metrics = Arc::clone(&app.metrics);
    let server = Arc::new(Server::new(app, tls));
    let app = Arc::clone(&server.app);
    let counting = tokio::spawn(write_refusal_counts(Arc::clone(&app)));
    let mut stop = pin!(stop);
    loop {
        let (stream, client) = tokio::select! {
            next = listener.accept() => match next {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    pause(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let Some(mut connection) = open.open(client.ip()) else {
            // Dropping the stream closes the connection before a byte of it is read.
            metrics.connection_rejected();
            continue;
        };
        let permit = tokio::select! {
            permit = acquire_room(&connections, &open, &metrics) => permit,
            () = &mut stop => break,
        };
        let (server, stopped) = (Arc::clone(&server), stopped.clone());
        tokio::spawn(async move {
            let activity = Arc::clone(&connection.activity);
            tokio::select! {
                // Connection errors concern the client alone and are not logged.
                _ = server.serve_stream(stream, client.ip(), activity, stopped) => {}
                () = connection.closed() => {}
            }
            drop((connection, permit));
        });
    }
    drop(listener);
    events.stop();
    stopping.send_replace(());
    // All permits are available once all connections are closed.
    let _ = timeout(SHUTDOWN_TIME_MAX, connections.acquire_many(CONNECTIONS_MAX.into())).await;
    counting.abort();
    app.access.audit.write_refusal_counts(app.now(), Windows::All).await;
    Ok(())
}

/// Writes the counts of refused requests to the audit log while the server runs.
async fn write_refusal_counts(app: Arc<App>) {
    loop {
        pause(REFUSALS_PAUSE).await;
        app.access.audit.write_refusal_counts(app.now(), Windows::Ended).await;
    }
}

/// Waits for a permit for one more connection. Without a free one, idle connections make room.
async fn acquire_room(
    permits: &Arc<Semaphore>,
    open: &OpenConnections,
    metrics: &ServerMetrics,
) -> io::Result<OwnedSemaphorePermit> {
    loop {
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            return Ok(permit);
        }
        if open.close_idle() {
            metrics.connection_evicted();
        }
        if let Ok(permit) = timeout(FULL_PAUSE, Arc::clone(permits).acquire_owned()).await {
            return permit.map_err(io::Error::other);
        }
    }
}

/// Protocol settings and limits that all connections share.
struct Server {
    app: Arc<App>,
    tls: Option<Arc<Tls>>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    handshakes: Arc<SharedCapacity>,
    requests: Arc<RequestCapacity>,
}

impl Server {
    fn new(app: App, tls: Option<Arc<Tls>>) -> Server {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(app.settings.timeouts.keep_alive)
            .max_buf_size(HEAD_BYTES_MAX as usize)
            .max_headers(HEADERS_MAX);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_BYTES_MAX)
            .max_concurrent_streams(STREAMS_MAX as u32)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(RESETS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIME_MAX);
        let is_single_user = app.access.is_single_user();
        let handshakes = if is_single_user { HANDSHAKES.without_shares() } else { HANDSHAKES };
        let handshakes = SharedCapacity::new(handshakes);
        let requests = Arc::new(RequestCapacity::new(is_single_user));
        Server { app: Arc::new(app), tls, http1, http2, handshakes, requests }
    }

    /// Finds the protocol of a connection, by ALPN or by its first bytes, and serves it.
    async fn serve_stream(
        &self,
        stream: TcpStream,
        peer: IpAddr,
        activity: Arc<ConnectionActivity>,
        mut stopped: watch::Receiver<()>,
    ) -> io::Result<()> {
        // Responses are written whole; Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let time_max = self.app.settings.timeouts.request_head;
        match &self.tls {
            None => {
                let detected = tokio::select! {
                    detected = timeout(time_max, detect_protocol(stream)) => detected??,
                    _ = stopped.changed() => return Ok(()),
                };
                let peer = Peer { address: peer, transport: Transport::Plain };
                self.serve_connection(detected, peer, activity, stopped).await;
            }
            Some(tls) => {
                let time_max = HANDSHAKE_TIME_MAX.min(time_max);
                let stream = tokio::select! {
                    accepted = timeout(time_max, self.accept_tls(stream, peer, tls)) => accepted??,
                    _ = stopped.changed() => return Ok(()),
                };
                let protocol = match stream.get_ref().1.alpn_protocol() {
                    Some(ALPN_HTTP2) => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                let detected = DetectedProtocol { protocol, prefix: Bytes::new(), stream };
                let peer = Peer { address: peer, transport: Transport::Tls };
                self.serve_connection(detected, peer, activity, stopped).await;
            }
        }
        Ok(())
    }

    async fn accept_tls(
        &self,
        stream: TcpStream,
        peer: IpAddr,
        tls: &Tls,
    ) -> io::Result<TlsStream<TcpStream>> {
        let is_proxy = self.app.settings.trusted_proxies.contain(peer);
        let permit = (!is_proxy).then(|| self.handshakes.acquire(peer.into(), None)).transpose();
        let Ok(_permit) = permit else {
            self.app.metrics.connection_rejected();
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        let accepted = TlsAcceptor::from(tls.config()).accept(stream).await;
        accepted.inspect_err(|_| self.app.metrics.handshake_failed())
    }

    async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        detected: DetectedProtocol<S>,
        peer: Peer,
        activity: Arc<ConnectionActivity>,
        stopped: watch::Receiver<()>,
    ) {
        let Peer { address, transport } = peer;
        let DetectedProtocol { protocol, prefix, stream } = detected;
        let _open = self.app.metrics.connection_opened(protocol, transport);
        let stream = MeteredStream::new(prefix, stream, Arc::clone(&activity));
        let timeouts = self.app.settings.timeouts;
        let request_time_max = timeouts.request_head + timeouts.request_body;
        let idle_time_max = match protocol {
            Protocol::Http1 => timeouts.keep_alive.max(request_time_max),
            Protocol::Http2 => request_time_max,
        };
        let service = ConnectionService(Arc::new(Connection {
            app: Arc::clone(&self.app),
            peer: address,
            protocol,
            transport,
            activity: Arc::clone(&activity),
            capacity: Arc::clone(&self.requests),
            connection_permits: Arc::new(Semaphore::new(STREAMS_MAX)),
        }));
        match protocol {
            Protocol::Http1 => {
                let stream = StrictHttp1Stream::new(stream, timeouts.request_head);
                let connection = self.http1.serve_connection(TokioIo::new(stream), service);
                drive(connection, &activity, idle_time_max, stopped).await;
            }
            Protocol::Http2 => {
                let connection = self.http2.serve_connection(TokioIo::new(stream), service);
                drive(connection, &activity, idle_time_max, stopped).await;
            }
        }
    }
}

/// The other end of a connection.
struct Peer {
    address: IpAddr,
    transport: Transport,
}

/// Drives a connection until its client closes it, or the server stops, or the connection is idle
/// for too long: no request and no byte that its client reads. A connection that is still idle
/// after a graceful shutdown is dropped.
async fn drive(
    connection: impl GracefulConnection,
    activity: &ConnectionActivity,
    idle_time_max: Duration,
    mut stopped: watch::Receiver<()>,
) {
    let mut connection = pin!(connection);
    let mut is_shutting_down = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.changed(), if !is_shutting_down => {}
            () = pause(idle_time_max) => match (activity.is_idle(), is_shutting_down) {
                (false, _) => continue,
                (true, false) => {}
                (true, true) => return,
            },
        }
        connection.as_mut().graceful_shutdown();
        is_shutting_down = true;
    }
}

pub(crate) async fn pause(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}
