//! Shared parts of the Rust schedulers under comparison: command line, bodies of the requests and
//! a keep-alive HTTP client. The protocol is described in bench/peers/README.md.

use std::sync::OnceLock;

use anyhow::{Context as _, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Number of jobs that are stored with one statement.
pub const BATCH: usize = 1_000;

/// Length of a request body in bytes.
const BODY_BYTES: usize = 256;

/// Jobs to store.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of jobs.
    pub count: usize,
    /// Scheduled time of the first job, in microseconds since 1970.
    first: i64,
    /// Microseconds between the scheduled times of two jobs.
    spacing: i64,
}

/// Mode of the program.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Store jobs and exit.
    Load(Load),
    /// Run jobs until killed.
    Work,
}

impl Mode {
    /// Reads the command line.
    pub fn from_arguments() -> anyhow::Result<Mode> {
        let arguments: Vec<_> = std::env::args().skip(1).collect();
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["work"] => Ok(Mode::Work),
            ["load", count, first, spacing] => Ok(Mode::Load(Load {
                count: count.parse()?,
                first: first.parse()?,
                spacing: spacing.parse()?,
            })),
            _ => bail!("load COUNT FIRST_DUE_MICROSECONDS SPACING_MICROSECONDS | work"),
        }
    }
}

impl Load {
    /// Scheduled time of a job, in microseconds since 1970.
    pub fn due(&self, job: usize) -> i64 {
        self.first + job as i64 * self.spacing
    }

    /// Request body of a job, which tells the sink its number and scheduled time.
    pub fn body(&self, job: usize) -> String {
        let mut body = format!("id={job:010};due={:016};", self.due(job));
        body.extend(std::iter::repeat_n('x', BODY_BYTES - body.len()));
        body
    }
}

/// URL of the database.
pub fn store() -> anyhow::Result<String> {
    std::env::var("STORE").context("STORE is not set")
}

/// Posts a body to the sink over a pool of keep-alive connections.
pub async fn post(body: String) -> anyhow::Result<()> {
    static CLIENT: OnceLock<Client<HttpConnector, Full<Bytes>>> = OnceLock::new();
    static SINK: OnceLock<String> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Client::builder(TokioExecutor::new()).build(connector)
    });
    let sink = SINK.get_or_init(|| std::env::var("SINK").unwrap_or_default());
    let request = Request::post(format!("http://{sink}/")).body(Full::from(body))?;
    let response = client.request(request).await?;
    ensure!(response.status().is_success(), "{}", response.status());
    response.into_body().collect().await?;
    Ok(())
}
