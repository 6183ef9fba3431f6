//! Connections: how many, for how long, and how much they may send before anything is done.

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

use crate::activity::{Activity, Counted};
use crate::app::App;
use crate::clients::Clients;
use crate::door::{Answering, Door, Security};
use crate::preface::{Protocol, Recognised, recognise};
use crate::strict::Strict;
use crate::tls::{HTTP2, Tls};

/// Bytes of the request line and the headers together.
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// Headers of a request; clients of this API send some fifteen.
pub(crate) const HEADERS_MAX: usize = 100;
/// Connections at the same time. More wait to be accepted; each may hold a file descriptor, of
/// which a process usually has 1,024.
const CONNECTIONS_MAX: u16 = 512;
/// Handshakes at the same time: they take a hundred times the work of a request.
const HANDSHAKES_MAX: usize = 64;
/// How long a handshake may take.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// Requests under way at the same time, on all connections. With HTTP/2 there may be more of them
/// than connections; what is over is refused at once.
const REQUESTS_MAX: usize = 1_024;
/// Requests under way at the same time on a connection.
pub(crate) const STREAMS_MAX: usize = 64;
/// Bytes that a client of HTTP/2 may send ahead: for a request the longest body there is, for the
/// connection some of them.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Requests taken back before they were looked at, after which a client is taken for a flood.
const RESETS_MAX: usize = 20;
/// A client that owes nothing and is owed something is asked this often whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIME_MAX: Duration = Duration::from_secs(10);
/// How long requests under way are waited for when the server stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);
/// How long nothing is accepted after that failed; the usual cause, too many open files, passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests on a listener until `stop` comes true, then finishes those under way.
pub async fn serve(
    listener: TcpListener,
    app: App,
    tls: Option<Arc<Tls>>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let events = app.events.clone();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX.into()));
    let (stopping, stopped) = watch::channel(());
    let clients = Clients::new(app.settings.connections_per_client_max);
    let figures = Arc::clone(&app.figures);
    let host = Arc::new(Host::new(app, tls));
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((listener.accept().await?, place))
        };
        let ((stream, client), place) = tokio::select! {
            next = next => match next {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    pause(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let Some(entered) = clients.enter(client.ip()) else {
            // It is closed before a byte of it is read.
            figures.connection_refused();
            continue;
        };
        let (host, stopped) = (Arc::clone(&host), stopped.clone());
        tokio::spawn(async move {
            // What goes wrong on a connection is the business of who opened it.
            let _ = host.welcome(stream, client, stopped).await;
            drop((entered, place));
        });
    }
    drop(listener);
    events.stop();
    stopping.send_replace(());
    // All places are free when all connections are closed.
    let _ = timeout(STOP_TIME_MAX, room.acquire_many(CONNECTIONS_MAX.into())).await;
    Ok(())
}

/// What connections are served with.
struct Host {
    app: Arc<App>,
    tls: Option<Arc<Tls>>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    handshakes: Semaphore,
    requests: Arc<Semaphore>,
}

impl Host {
    fn new(app: App, tls: Option<Arc<Tls>>) -> Host {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(app.settings.patience.next)
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
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIME_MAX);
        let handshakes = Semaphore::new(HANDSHAKES_MAX);
        let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
        Host { app: Arc::new(app), tls, http1, http2, handshakes, requests }
    }

    /// Finds out what a connection speaks, and serves it.
    async fn welcome(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        mut stopped: watch::Receiver<()>,
    ) -> io::Result<()> {
        // Answers are small and whole: waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let patience = self.app.settings.patience.head;
        match &self.tls {
            None => {
                let recognised = tokio::select! {
                    recognised = timeout(patience, recognise(stream)) => recognised??,
                    _ = stopped.changed() => return Ok(()),
                };
                self.serve(recognised, client, Security::Plain, stopped).await;
            }
            Some(tls) => {
                let stream = tokio::select! {
                    shaken = timeout(HANDSHAKE_TIME_MAX.min(patience), self.shake(stream, tls)) => shaken??,
                    _ = stopped.changed() => return Ok(()),
                };
                let protocol = match stream.get_ref().1.alpn_protocol() {
                    Some(HTTP2) => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                let recognised = Recognised { protocol, begin: Bytes::new(), stream };
                self.serve(recognised, client, Security::Tls, stopped).await;
            }
        }
        Ok(())
    }

    async fn shake(&self, stream: TcpStream, tls: &Tls) -> io::Result<TlsStream<TcpStream>> {
        let _place = self.handshakes.acquire().await.map_err(io::Error::other)?;
        let shaken = TlsAcceptor::from(tls.config()).accept(stream).await;
        shaken.inspect_err(|_| self.app.figures.handshake_failed())
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        recognised: Recognised<S>,
        client: SocketAddr,
        security: Security,
        stopped: watch::Receiver<()>,
    ) {
        let Recognised { protocol, begin, stream } = recognised;
        let _open = self.app.figures.connection(protocol, security);
        let activity = Arc::new(Activity::default());
        let stream = Counted::new(begin, stream, Arc::clone(&activity));
        let patience = self.app.settings.patience;
        let idle_time_max = match protocol {
            Protocol::Http1 => patience.next.max(patience.head + patience.body),
            Protocol::Http2 => patience.head + patience.body,
        };
        let door = Answering(Arc::new(Door {
            app: Arc::clone(&self.app),
            client,
            protocol,
            security,
            activity: Arc::clone(&activity),
            everybody: Arc::clone(&self.requests),
            own: Door::rooms(),
        }));
        match protocol {
            Protocol::Http1 => {
                let stream = TokioIo::new(Strict::new(stream, patience.head));
                let connection = self.http1.serve_connection(stream, door);
                attend(connection, &activity, idle_time_max, stopped).await;
            }
            Protocol::Http2 => {
                let connection = self.http2.serve_connection(TokioIo::new(stream), door);
                attend(connection, &activity, idle_time_max, stopped).await;
            }
        }
    }
}

/// Lets a connection go on until its client ends it, the server stops, or nothing happens on it for
/// too long: no request, and no byte that its client takes.
async fn attend(
    connection: impl GracefulConnection,
    activity: &Activity,
    idle_time_max: Duration,
    mut stopped: watch::Receiver<()>,
) {
    let mut connection = pin!(connection);
    let mut is_asked_to_end = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.changed(), if !is_asked_to_end => {}
            () = pause(idle_time_max) => match (activity.is_idle(), is_asked_to_end) {
                (false, _) => continue,
                (true, false) => {}
                (true, true) => return,
            },
        }
        connection.as_mut().graceful_shutdown();
        is_asked_to_end = true;
    }
}

async fn pause(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}
