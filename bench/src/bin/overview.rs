//! Search and overview of many jobs; see bench/README.md.
//!
//! ```text
//! overview [--folder FOLDER] [JOBS]
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kalends_bench::api::load::{Connection, Until, ask, request};
use kalends_bench::api::servers::Server;
use tokio::runtime::Builder;

const COLLECTIONS: usize = 10;
const CONNECTIONS: usize = 64;
/// Number of requests of each kind.
const REQUESTS: usize = 20;
/// Time over which the processor time of the background scans is measured.
const OBSERVED: Duration = Duration::from_secs(60);
/// Limit for the first scans.
const SCAN_MAX: Duration = Duration::from_secs(600);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut base = std::env::temp_dir();
    if arguments.next_if(|argument| argument == "--folder").is_some() {
        base = arguments.next().map_or(base, PathBuf::from);
    }
    let jobs = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let folder = base.join(format!("kalends-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&folder, jobs));
    std::fs::remove_dir_all(&folder)?;
    measured
}

async fn measure(folder: &Path, jobs: usize) -> anyhow::Result<()> {
    let release = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/kalends");
    let binary = std::env::var_os("KALENDS").map_or_else(release, PathBuf::from);
    let server = Server::kalends(&binary, folder)?;
    let address = server.address;
    for number in 0..COLLECTIONS {
        create(address, number).await?;
    }
    let requests = Arc::new(put);
    ask(address, CONNECTIONS, Until::Asked(jobs), &["200", "201"], requests).await?;
    println!("| {jobs} jobs | median ms | longest ms |\n|---|--:|--:|");
    let rare = format!("search=number-{}-", jobs - 1);
    for (name, query) in [
        ("list, first page", "limit=50"),
        ("list, enabled jobs", "limit=50&state=Enabled"),
        ("search, every job matches", "limit=50&search=example.org"),
        ("search, no match on the first pages", &rare),
        ("failing jobs, of which there are none", "state=Failing"),
    ] {
        time(address, name, &format!("/api/jobs?{query}")).await?;
    }
    let (pages, seconds) = follow(address, &format!("/api/jobs?{rare}")).await?;
    let (states, schedules) =
        (first_scan(address, "/api/overview").await?, first_scan(address, "/api/expected-runs").await?);
    for path in ["/api/overview", "/api/attention", "/api/expected-runs?by=collection"] {
        time(address, path, path).await?;
    }
    time(address, "list with counts of the overview", "/api/jobs?limit=50").await?;
    println!("\nsearch for the last job: {pages} pages, {seconds:.1} s");
    println!("first scan of states: {states:.1} s, of schedules: {schedules:.1} s");
    let before = processor_seconds(server.process_id())?;
    tokio::time::sleep(OBSERVED).await;
    let used = processor_seconds(server.process_id())? - before;
    println!("processor while the scans repeat: {:.1} % of a core", used * 100.0 / OBSERVED.as_secs_f64());
    Ok(())
}

/// The first job creates its collection.
async fn create(address: SocketAddr, number: usize) -> anyhow::Result<()> {
    let status = Connection::open(address).await?.ask(&put(number)).await?;
    ensure!(status == "201", "{status}");
    Ok(())
}

fn put(number: usize) -> Vec<u8> {
    let (minute, hour) = (number % 60, number / 60 % 24);
    let body = format!(
        r#"{{"properties":{{"description":"number-{number}-of many","action":{{"type":"Https","request":{{"uri":"https://example.org/{number}","method":"POST","body":"{{}}"}}}},"recurrence":{{"cron":"{minute} {hour} * * *","timeZone":"Europe/Berlin"}}}}}}"#
    );
    let collection = number % COLLECTIONS;
    request("PUT", &format!("/api/collections/c{collection}/jobs/job-{number:07}"), &body)
}

/// Times requests on one connection.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
async fn time(address: SocketAddr, name: &str, path: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let begin = Instant::now();
        let status = connection.ask(&request("GET", path, "")).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        ensure!(status == "200", "{status} to {path}");
    }
    times.sort_by(f64::total_cmp);
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("| {name} | {median:.1} | {longest:.1} |");
    Ok(())
}

/// Follows a search to its end. Returns its pages and seconds.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
async fn follow(address: SocketAddr, path: &str) -> anyhow::Result<(usize, f64)> {
    let begin = Instant::now();
    let mut connection = Connection::open(address).await?;
    let (mut path, mut pages) = (path.to_owned(), 0);
    loop {
        connection.ask(&request("GET", &path, "")).await?;
        pages += 1;
        let body: serde_json::Value = serde_json::from_slice(connection.body())?;
        match body["nextLink"].as_str().and_then(|link| link.find("/api/").map(|at| &link[at..])) {
            Some(next) => path = next.to_owned(),
            None => return Ok((pages, begin.elapsed().as_secs_f64())),
        }
    }
}

/// Seconds until a scan has a result.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
async fn first_scan(address: SocketAddr, path: &str) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let mut connection = Connection::open(address).await?;
    loop {
        connection.ask(&request("GET", path, "")).await?;
        let body: serde_json::Value = serde_json::from_slice(connection.body())?;
        if !body["calculatedAt"].is_null() {
            return Ok(begin.elapsed().as_secs_f64());
        }
        ensure!(begin.elapsed() < SCAN_MAX, "no scan has ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Processor time of a process, user and system.
fn processor_seconds(process: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may contain spaces.
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}
