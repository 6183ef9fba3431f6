//! The target of runs: records run, scheduled time and arrival of every request, and responds at once.
//! Written by hand, because the sink shares the processors with the contenders.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use jiff::Timestamp;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::client::Client;
use super::process::Process;
use crate::peers::workload::{Load, parse};
use crate::peers::{now, sleep_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A run that has not arrived this long after the last scheduled time is lost.
const LOST_AFTER: Duration = Duration::from_secs(120);
/// Time in which duplicates arrive, and in which a contender completes its records.
const SETTLE: Duration = Duration::from_millis(500);
/// Time between two reads of the count of the sink.
const POLL: Duration = Duration::from_millis(20);

/// Connections that wait to be accepted. When the queue is full, the kernel drops the connection attempt,
/// and the client repeats it after a second.
const BACKLOG: u32 = 4_096;

/// The sink in a process of its own: this program with the argument `sink`.
pub struct Sink {
    process: Process,
}

impl Sink {
    /// Starts the process.
    pub fn start() -> anyhow::Result<Sink> {
        let process = Process::start(Command::new(std::env::current_exe()?).arg("sink"))?;
        Ok(Sink { process })
    }

    /// Listen address, as HOST:PORT.
    pub fn host(&self) -> &str {
        &self.process.host
    }

    /// Forgets the requests of a contender that was stopped.
    pub async fn clear(&self) -> anyhow::Result<()> {
        self.report().await.map(drop)
    }

    /// Waits for all requests of a load and returns the report. Fails if one was lost, duplicated or
    /// early.
    pub async fn receive(&self, load: Load) -> anyhow::Result<serde_json::Value> {
        let last = Timestamp::from_microsecond(load.due(load.count - 1))?;
        sleep_until(last).await;
        let until = last.checked_add(LOST_AFTER)?;
        let mut client = Client::connect(self.host()).await?;
        while now() < until {
            let count = client.must("GET", "/count", "").await?;
            if std::str::from_utf8(&count)?.parse::<usize>()? >= load.count {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        tokio::time::sleep(SETTLE).await;
        let report = self.report().await?;
        check(&report, load.count)?;
        Ok(report)
    }

    async fn report(&self) -> anyhow::Result<serde_json::Value> {
        let body = Client::connect(self.host()).await?.must("GET", "/report", "").await?;
        Ok(serde_json::from_slice(&body)?)
    }
}

fn check(report: &serde_json::Value, count: usize) -> anyhow::Result<()> {
    let number = |name: &str| report[name].as_u64().unwrap_or(0) as usize;
    let (doubled, early) = (number("doubled"), number("early"));
    let runs = number("count") - doubled;
    ensure!(runs >= count, "{} of {count} runs were lost", count - runs);
    ensure!(runs == count && number("highest") + 1 == count, "runs of other jobs arrived");
    ensure!(doubled == 0, "{doubled} runs were duplicated");
    ensure!(early == 0, "{early} runs were early");
    Ok(())
}

/// A request of a run. Times are microseconds since 1970.
struct Arrival {
    run: u128,
    due: i64,
    at: i64,
}

type Arrivals = Arc<Mutex<Vec<Arrival>>>;

fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    socket.listen(BACKLOG)
}

/// Serves until the process is killed. `GET /count` returns the number of requests, `GET /report` what
/// [`report`] says, and forgets the requests.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = listen()?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        let arrivals = Arrivals::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // An error of one connection does not matter: its request counts as lost.
            tokio::spawn(converse(stream, Arc::clone(&arrivals)));
        }
    })
}

/// Accepts connections and never responds, until the process is killed.
pub fn hang() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = listen()?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        loop {
            let (mut stream, _) = listener.accept().await?;
            // Reads until the client closes the connection.
            tokio::spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
        }
    })
}

async fn converse(mut stream: TcpStream, arrivals: Arrivals) -> anyhow::Result<()> {
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut answers = Vec::new();
    while stream.read_buf(&mut buffer).await? > 0 {
        let at = now().as_microsecond();
        let mut rest = buffer.as_slice();
        while let Some(request) = Request::parse(rest)? {
            answer(&request, at, &arrivals, &mut answers);
            rest = rest.get(request.length..).unwrap_or_default();
        }
        let done = buffer.len() - rest.len();
        buffer.drain(..done);
        stream.write_all(&answers).await?;
        answers.clear();
    }
    Ok(())
}

fn answer(request: &Request<'_>, at: i64, arrivals: &Arrivals, answers: &mut Vec<u8>) {
    let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
    let text = if request.head.starts_with(b"GET /count ") {
        arrivals.len().to_string()
    } else if request.head.starts_with(b"GET /report ") {
        report(std::mem::take(&mut *arrivals)).to_string()
    } else {
        // Requests of wrk and of the bare client tell no run and are not recorded.
        if let Some((run, due)) = parse(request.body).or_else(|| request.run_of_headers()) {
            arrivals.push(Arrival { run, due, at });
        }
        return answers.extend_from_slice(OK);
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
    answers.extend_from_slice(head.as_bytes());
    answers.extend_from_slice(text.as_bytes());
}

struct Request<'a> {
    head: &'a [u8],
    body: &'a [u8],
    length: usize,
}

impl<'a> Request<'a> {
    /// The first complete request of a buffer.
    fn parse(buffer: &'a [u8]) -> anyhow::Result<Option<Request<'a>>> {
        let Some(end) = memmem::find(buffer, b"\r\n\r\n") else { return Ok(None) };
        let head = buffer.get(..end).unwrap_or_default();
        let content = header(head, "content-length").map_or(Ok(0), str::parse::<usize>)?;
        let length = end + 4 + content;
        let body = buffer.get(end + 4..length);
        Ok(body.map(|body| Request { head, body, length }))
    }

    /// Run and scheduled time of a request of Kalends whose body does not tell them.
    fn run_of_headers(&self) -> Option<(u128, i64)> {
        let due = header(self.head, "x-ms-scheduler-expected-execution-time")?;
        let run = u128::from_str_radix(header(self.head, "x-ms-execution-tag")?, 16).ok()?;
        Some((run, due.parse::<Timestamp>().ok()?.as_microsecond()))
    }
}

/// Value of a header.
fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|&byte| byte == b'\n').find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value =
            value.strip_prefix(b":").filter(|_| found.eq_ignore_ascii_case(name.as_bytes()))?;
        Some(std::str::from_utf8(value).ok()?.trim())
    })
}

/// Numbers of requests, of different runs and of early requests, the arrival of the first and the last one,
/// and quantiles of the lateness in microseconds.
fn report(arrivals: Vec<Arrival>) -> serde_json::Value {
    let mut late: Vec<_> = arrivals.iter().map(|arrival| arrival.at - arrival.due).collect();
    late.sort_unstable();
    let share = |part: f64| late.get((late.len() as f64 * part) as usize).copied();
    let mut runs: Vec<_> = arrivals.iter().map(|arrival| arrival.run).collect();
    runs.sort_unstable();
    runs.dedup();
    serde_json::json!({
        "count": arrivals.len(),
        "doubled": arrivals.len() - runs.len(),
        "early": late.iter().filter(|&&late| late < 0).count(),
        // Of runs that are numbered.
        "highest": runs.last().and_then(|&run| u32::try_from(run).ok()),
        "first": arrivals.iter().map(|arrival| arrival.at).min(),
        "last": arrivals.iter().map(|arrival| arrival.at).max(),
        "p50": share(0.5), "p99": share(0.99), "p999": share(0.999), "max": late.last(),
    })
}
