//! Connections: how many, for how long, and how much they may send before anything is done.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::app::App;
use crate::resources;
use crate::strict::Strict;

/// Bytes of the request line and the headers together.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a request; clients of this API send some fifteen.
const HEADERS_MAX: usize = 100;
/// Connections at the same time. More wait to be accepted; each may hold a file descriptor, of
/// which a process usually has 1,024.
const CONNECTIONS_MAX: usize = 512;
/// How long requests under way are waited for when the server stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);
/// How long nothing is accepted after that failed; the usual cause, too many open files, passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests on a listener until `stop` comes true, then finishes those under way.
pub async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let events = app.events.clone();
    let head_time_max = app.settings.patience.head;
    let router = Router::new().fallback(resources::handle).with_state(app);
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let under_way = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((listener.accept().await?.0, place))
        };
        let (stream, place) = tokio::select! {
            next = next => match next {
                Ok(next) => next,
                Err(_) => {
                    pause(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        // Answers are small and whole: waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let connection = http.serve_connection(TokioIo::new(Strict::new(stream)), service.clone());
        let connection = under_way.watch(connection);
        tokio::spawn(async move {
            // What goes wrong on a connection is the business of who opened it.
            let _ = connection.await;
            drop(place);
        });
    }
    events.stop();
    let _ = timeout(STOP_TIME_MAX, under_way.shutdown()).await;
    Ok(())
}

async fn pause(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}
