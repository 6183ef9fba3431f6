//! The target: records the arrival time of every request and responds immediately.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// A request of a run.
struct Arrival {
    /// Microseconds since 1970-01-01.
    at: i64,
    due: i64,
    tag: String,
}

type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// Serves until the process is killed. `GET /report` returns the recorded requests and clears them.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        let arrivals = Arrivals::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let arrivals = Arc::clone(&arrivals);
            tokio::spawn(async move {
                let answer = |request| answer(request, Arc::clone(&arrivals));
                let http = hyper::server::conn::http1::Builder::new();
                // Errors of single connections do not matter.
                let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    })
}

/// Accepts connections and never responds, until the process is killed.
pub fn hang() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        loop {
            let (mut stream, _) = listener.accept().await?;
            // Reads until the client closes the connection.
            tokio::spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
        }
    })
}

async fn answer(
    request: Request<Incoming>,
    arrivals: Arrivals,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let at = now();
    if request.uri().path() == "/report" {
        let taken = std::mem::take(&mut *arrivals.lock().unwrap_or_else(PoisonError::into_inner));
        return Ok(Response::new(Full::new(Bytes::from(report(taken).to_string()))));
    }
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    if let Some(due) = header("x-ms-scheduler-expected-execution-time") {
        let due = due.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_microsecond);
        let tag = header("x-ms-execution-tag").unwrap_or_default().to_owned();
        let arrival = Arrival { at, due, tag };
        arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }
    request.into_body().collect().await?;
    Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn report(arrivals: Vec<Arrival>) -> serde_json::Value {
    let mut late: Vec<_> = arrivals.iter().map(|arrival| arrival.at - arrival.due).collect();
    late.sort_unstable();
    let share = |part: f64| late.get((late.len() as f64 * part) as usize).copied();
    let tags: HashSet<_> = arrivals.iter().map(|arrival| &arrival.tag).collect();
    serde_json::json!({
        "count": arrivals.len(),
        "doubled": arrivals.len() - tags.len(),
        "early": late.iter().filter(|&&late| late < 0).count(),
        "first": arrivals.iter().map(|arrival| arrival.at).min(),
        "last": arrivals.iter().map(|arrival| arrival.at).max(),
        "p50": share(0.5), "p99": share(0.99), "p999": share(0.999), "max": late.last(),
    })
}
