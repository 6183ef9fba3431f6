//! Accepts connections: how many, for how long, and how much they may send before a handler runs.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::app::App;
use crate::connection::{Connection, ConnectionService, Transport};
use crate::connection_activity::{ConnectionActivity, MeteredStream};
use crate::connection_limit::ConnectionLimit;
use crate::protocol::{DetectedProtocol, Protocol, detect_protocol};
use crate::strict_http1::StrictHttp1Stream;
use crate::tls::{ALPN_HTTP2, Tls};

/// Bytes of the request line and the headers together.
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// Headers of a request; clients of this API send about fifteen.
pub(crate) const HEADERS_MAX: usize = 100;
/// Open connections. Further ones wait in the accept queue of the kernel. Each uses a file
/// descriptor, of which a process usually has 1,024.
const CONNECTIONS_MAX: u16 = 512;
/// Concurrent TLS handshakes: each costs about a hundred times as much CPU as a request.
const HANDSHAKES_MAX: usize = 64;
/// Time for a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// Requests in flight on all connections. HTTP/2 allows more of them than there are connections;
/// requests above the limit are rejected at once.
const REQUESTS_MAX: usize = 1_024;
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
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    let per_client = ConnectionLimit::new(
        app.settings.connections_per_client_max,
        app.settings.trusted_proxies.clone(),
    );
    let metrics = Arc::clone(&app.metrics);
    let server = Arc::new(Server::new(app, tls));
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let permit = connections.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((listener.accept().await?, permit))
        };
        let ((stream, client), permit) = tokio::select! {
            next = next => match next {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    pause(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let Some(client_permit) = per_client.acquire(client.ip()) else {
            // Dropping the stream closes the connection before a byte of it is read.
            metrics.connection_rejected();
            continue;
        };
        let (server, stopped) = (Arc::clone(&server), stopped.clone());
        tokio::spawn(async move {
            // Connection errors concern the client alone and are not logged.
            let _ = server.serve_stream(stream, client, stopped).await;
            drop((client_permit, permit));
        });
    }
    drop(listener);
    events.stop();
    stopping.send_replace(());
    // All permits are available once all connections are closed.
    let _ = timeout(SHUTDOWN_TIME_MAX, connections.acquire_many(CONNECTIONS_MAX.into())).await;
    Ok(())
}

/// Protocol settings and limits that all connections share.
struct Server {
    app: Arc<App>,
    tls: Option<Arc<Tls>>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    handshakes: Semaphore,
    requests: Arc<Semaphore>,
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
        let handshakes = Semaphore::new(HANDSHAKES_MAX);
        let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
        Server { app: Arc::new(app), tls, http1, http2, handshakes, requests }
    }

    /// Finds the protocol of a connection, by ALPN or by its first bytes, and serves it.
    async fn serve_stream(
        &self,
        stream: TcpStream,
        client: SocketAddr,
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
                self.serve_connection(detected, client, Transport::Plain, stopped).await;
            }
            Some(tls) => {
                let time_max = HANDSHAKE_TIME_MAX.min(time_max);
                let stream = tokio::select! {
                    accepted = timeout(time_max, self.accept_tls(stream, tls)) => accepted??,
                    _ = stopped.changed() => return Ok(()),
                };
                let protocol = match stream.get_ref().1.alpn_protocol() {
                    Some(ALPN_HTTP2) => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                let detected = DetectedProtocol { protocol, prefix: Bytes::new(), stream };
                self.serve_connection(detected, client, Transport::Tls, stopped).await;
            }
        }
        Ok(())
    }

    async fn accept_tls(&self, stream: TcpStream, tls: &Tls) -> io::Result<TlsStream<TcpStream>> {
        let _permit = self.handshakes.acquire().await.map_err(io::Error::other)?;
        let accepted = TlsAcceptor::from(tls.config()).accept(stream).await;
        accepted.inspect_err(|_| self.app.metrics.handshake_failed())
    }

    async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        detected: DetectedProtocol<S>,
        client: SocketAddr,
        transport: Transport,
        stopped: watch::Receiver<()>,
    ) {
        let DetectedProtocol { protocol, prefix, stream } = detected;
        let _open = self.app.metrics.connection_opened(protocol, transport);
        let activity = Arc::new(ConnectionActivity::default());
        let stream = MeteredStream::new(prefix, stream, Arc::clone(&activity));
        let timeouts = self.app.settings.timeouts;
        let request_time_max = timeouts.request_head + timeouts.request_body;
        let idle_time_max = match protocol {
            Protocol::Http1 => timeouts.keep_alive.max(request_time_max),
            Protocol::Http2 => request_time_max,
        };
        let service = ConnectionService(Arc::new(Connection {
            app: Arc::clone(&self.app),
            peer: client.ip(),
            protocol,
            transport,
            activity: Arc::clone(&activity),
            server_permits: Arc::clone(&self.requests),
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

async fn pause(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}
