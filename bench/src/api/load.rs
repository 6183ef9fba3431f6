//! Connections that ask as fast as they are answered, and how long each answer took.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Makes the n-th request.
pub type Requests = Arc<dyn Fn(usize) -> Vec<u8> + Send + Sync>;

/// When a connection stops asking.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this time.
    Passed(Duration),
    /// After so many requests of all connections.
    Asked(usize),
}

/// How fast answers came.
#[derive(Clone, Debug)]
pub struct Rate {
    /// Answers a second.
    pub a_second: f64,
    /// In seconds, in order.
    latencies: Vec<f32>,
}

impl Rate {
    /// The latency that this share of the answers was within, in milliseconds.
    pub fn milliseconds(&self, share: f64) -> f64 {
        let place = (self.latencies.len() as f64 * share) as usize;
        let found = self.latencies.get(place.min(self.latencies.len().saturating_sub(1)));
        found.map_or(f64::NAN, |seconds| f64::from(*seconds) * 1e3)
    }
}

/// Asks on many connections. Every answer must have one of the statuses.
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

/// One connection, kept open.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(256 * 1024) })
    }

    /// Asks once. What was answered is in [`Connection::body`]; this is its status.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<String> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server has closed");
            let Some(head) = self.buffer.windows(4).position(|end| end == b"\r\n\r\n") else {
                continue;
            };
            let text = String::from_utf8_lossy(&self.buffer[..head]).to_ascii_lowercase();
            let length = text.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next());
            let length: usize = length.context("no length")?.parse()?;
            while self.buffer.len() < head + 4 + length {
                ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server has closed");
            }
            let status = text.split(' ').nth(1).context("no status")?.to_owned();
            self.buffer.drain(..head + 4);
            return Ok(status);
        }
    }

    /// The body of the last answer.
    pub fn body(&self) -> &[u8] {
        &self.buffer
    }
}

/// A request in HTTP/1.1.
pub fn request(method: &str, target: &str, body: &str) -> Vec<u8> {
    let head = "Host: localhost\r\nAccept: application/json\r\nUser-Agent: kalends-bench\r\n";
    let content = match body.len() {
        0 => String::new(),
        length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
    };
    format!("{method} {target} HTTP/1.1\r\n{head}{content}\r\n{body}").into_bytes()
}
