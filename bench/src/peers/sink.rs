//! The target of all contenders: records number, scheduled time and arrival of every request, and
//! responds at once. Written by hand, because the sink shares the processors with the contenders.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use jiff::Timestamp;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::sleep_until;
use super::workload::{Load, parse};
use crate::engine::client::Client;
use crate::engine::process::Process;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A run that has not arrived this long after the last scheduled time is lost.
const LOST_AFTER: Duration = Duration::from_secs(120);
/// Time in which duplicates arrive, and in which a contender completes its records.
const SETTLE: Duration = Duration::from_millis(500);
/// Time between two reads of the count of the sink.
const POLL: Duration = Duration::from_millis(20);

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
        while super::now() < until {
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
    let (received, jobs, early) = (number("count"), number("jobs"), number("early"));
    ensure!(jobs >= count, "{} of {count} runs were lost", count - jobs);
    ensure!(jobs == count && number("highest") + 1 == count, "runs of other jobs arrived");
    ensure!(received == jobs, "{} runs were duplicated", received - jobs);
    ensure!(early == 0, "{early} runs were early");
    Ok(())
}

/// A request of a job. Times are microseconds since 1970.
struct Arrival {
    job: u32,
    due: i64,
    at: i64,
}

type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// Serves until the process is killed. `GET /count` returns the number of requests, `GET /report` what
/// [`report`] says, and forgets the requests.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
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

async fn converse(mut stream: TcpStream, arrivals: Arrivals) -> anyhow::Result<()> {
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut answers = Vec::new();
    while stream.read_buf(&mut buffer).await? > 0 {
        let at = now();
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
        // wrk sends bodies without a number, which are not recorded.
        if let Some((job, due)) = parse(request.body) {
            arrivals.push(Arrival { job, due, at });
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
        let (head, mut content) = (buffer.get(..end).unwrap_or_default(), 0);
        for line in head.split(|&byte| byte == b'\n') {
            if let Some((name, value)) = line.split_at_checked(b"content-length:".len())
                && name.eq_ignore_ascii_case(b"content-length:")
            {
                content = std::str::from_utf8(value)?.trim().parse()?;
            }
        }
        let length = end + 4 + content;
        let body = buffer.get(end + 4..length);
        Ok(body.map(|body| Request { head, body, length }))
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Numbers of requests, of different jobs and of early requests, the arrival of the last one, and
/// quantiles of the lateness in microseconds.
fn report(arrivals: Vec<Arrival>) -> serde_json::Value {
    let mut late: Vec<_> = arrivals.iter().map(|arrival| arrival.at - arrival.due).collect();
    late.sort_unstable();
    let share = |part: f64| late.get((late.len() as f64 * part) as usize).copied();
    let mut jobs: Vec<_> = arrivals.iter().map(|arrival| arrival.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    serde_json::json!({
        "count": arrivals.len(),
        "jobs": jobs.len(),
        "highest": jobs.last(),
        "early": late.iter().filter(|&&late| late < 0).count(),
        "first": arrivals.iter().map(|arrival| arrival.at).min(),
        "last": arrivals.iter().map(|arrival| arrival.at).max(),
        "p50": share(0.5), "p99": share(0.99), "max": late.last(),
    })
}
