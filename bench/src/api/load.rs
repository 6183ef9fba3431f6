//! A closed-loop load generator that records the latency of each response.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Returns the n-th request.
pub type Requests = Arc<dyn Fn(usize) -> Vec<u8> + Send + Sync>;

/// End of a load test.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this time.
    Passed(Duration),
    /// After this number of requests on all connections.
    Asked(usize),
}

/// Throughput and latencies.
#[derive(Clone, Debug)]
pub struct Rate {
    /// Responses per second.
    pub a_second: f64,
    /// Latencies in seconds, sorted.
    latencies: Vec<f32>,
}

impl Rate {
    /// Latency quantile in milliseconds.
    pub fn milliseconds(&self, share: f64) -> f64 {
        let place = (self.latencies.len() as f64 * share) as usize;
        let found = self.latencies.get(place.min(self.latencies.len().saturating_sub(1)));
        found.map_or(f64::NAN, |seconds| f64::from(*seconds) * 1e3)
    }
}

/// Sends requests on many connections. Every response must have one of the statuses.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub async fn ask(
    address: SocketAddr,
    connections: usize,
    until: Until,
    statuses: &'static [&'static str],
    requests: Requests,
) -> anyhow::Result<Rate> {
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for first in 0..connections {
        let requests = Arc::clone(&requests);
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut latencies = Vec::new();
            for number in (first..).step_by(connections) {
                let is_over = match until {
                    Until::Passed(time) => begin.elapsed() >= time,
                    Until::Asked(count) => number >= count,
                };
                if is_over {
                    break;
                }
                let request = requests(number);
                let sent = Instant::now();
                let status = connection.ask(&request).await?;
                latencies.push(sent.elapsed().as_secs_f32());
                if !statuses.contains(&status.as_str()) {
                    bail!("{status} to {}", String::from_utf8_lossy(&request));
                }
            }
            Ok(latencies)
        }));
    }
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let a_second = latencies.len() as f64 / begin.elapsed().as_secs_f64();
    latencies.sort_by(f32::total_cmp);
    Ok(Rate { a_second, latencies })
}

/// A keep-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Range of the body in the buffer.
    body: Range<usize>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(256 * 1024), body: 0..0 })
    }

    /// Sends a request and returns the status of the response; [`Connection::body`] returns its body.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<String> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server has closed");
            // Minimal parsing: the load generator shares the processors with the server.
            let Some(head) = memmem::find(&self.buffer, b"\r\n\r\n") else { continue };
            let text = std::str::from_utf8(&self.buffer[..head])?;
            let length = memmem::find(text.as_bytes(), b"\r\ncontent-length: ");
            let length = &text[length.context("no length")? + "\r\ncontent-length: ".len()..];
            let length: usize = length.split('\r').next().context("no length")?.parse()?;
            let status = text.get(9..12).context("no status")?.to_owned();
            self.body = head + 4..head + 4 + length;
            while self.buffer.len() < self.body.end {
                ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server has closed");
            }
            return Ok(status);
        }
    }

    /// Body of the last response.
    pub fn body(&self) -> &[u8] {
        self.buffer.get(self.body.clone()).unwrap_or_default()
    }
}

/// Formats an HTTP/1.1 request.
pub fn request(method: &str, target: &str, body: &str) -> Vec<u8> {
    let head = "Host: localhost\r\nAccept: application/json\r\nUser-Agent: kalends-bench\r\n";
    let content = match body.len() {
        0 => String::new(),
        length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
    };
    format!("{method} {target} HTTP/1.1\r\n{head}{content}\r\n{body}").into_bytes()
}
