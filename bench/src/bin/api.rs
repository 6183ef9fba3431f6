//! The API at 64 connections; see bench/README.md.
//!
//! ```text
//! api [--folder FOLDER] [JOBS]                                      SQLite
//! scripts/with-postgres --durable api --postgres [JOBS]             PostgreSQL
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kalends_bench::api::load::{Connection, Rate, Until, ask, request};
use kalends_bench::api::servers::{Server, bare};
use kalends_bench::peers::database::Postgres;
use kalends_bench::peers::{machine, now};
use kalends_bench::results::Results;
use tokio::runtime::Builder;

const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";
const VERSION: &str = "api-version=2026-11-01";
const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// Number of requests of each kind that are timed individually.
const PAGES: usize = 20;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == "--bare").is_some() {
        let bytes = arguments.next().context("how many bytes?")?.parse()?;
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(bare(bytes));
    }
    let mut base = std::env::temp_dir();
    if arguments.next_if(|argument| argument == "--folder").is_some() {
        base = arguments.next().map_or(base, PathBuf::from);
    }
    let is_postgres = arguments.next_if(|argument| argument == "--postgres").is_some();
    let jobs = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let folder = base.join(format!("kalends-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    // One thread generates the load and leaves the other cores to the server.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(async {
        if !is_postgres {
            let store = format!("sqlite:{}", folder.join("kalends.db").display());
            return measure("SQLite, WAL, synchronous FULL", &store, &folder, jobs).await;
        }
        let mut postgres = Postgres::connect().await?;
        let store = format!("{}, {}", postgres.version, postgres.durability);
        let url = postgres.create().await?;
        let measured = measure(&store, &url, &folder, jobs).await;
        postgres.drop(&url).await?;
        measured
    });
    std::fs::remove_dir_all(&folder)?;
    measured
}

async fn measure(store: &str, url: &str, folder: &Path, jobs: usize) -> anyhow::Result<()> {
    let binary = std::env::var_os("KALENDS").map_or_else(release, PathBuf::from);
    let (machine, begun) = (machine::describe(folder)?, now());
    let kalends = Server::kalends(&binary, url, folder)?;
    let address = kalends.address;
    let collection = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
    let put = request("PUT", &format!("{COLLECTION}?{VERSION}"), collection);
    ensure!(Connection::open(address).await?.ask(&put).await? == "201", "no collection");
    let made = put_jobs(address, Until::Asked(jobs), &["201"], 0, jobs).await?;
    let mut connection = Connection::open(address).await?;
    connection.ask(&get(0)).await?;
    let bare = Server::bare(connection.body().len())?;

    let (mut bare_rates, mut gets, mut puts) = (Vec::new(), Vec::new(), Vec::new());
    let until = Until::Passed(ROUND);
    for round in 1..=ROUNDS {
        let requests = Arc::new(move |number| get(scatter(number, jobs)));
        let ok = &["200"];
        bare_rates.push(ask(bare.address, CONNECTIONS, until, ok, requests.clone()).await?);
        gets.push(ask(address, CONNECTIONS, until, ok, requests).await?);
        puts.push(put_jobs(address, until, ok, round, jobs).await?);
    }
    let (bare, get, put) = (median(bare_rates), median(gets), median(puts));
    println!(
        "| {store}; {CONNECTIONS} connections, {jobs} jobs | a second | p50 ms | p99 ms |\n|---|--:|--:|--:|"
    );
    for (name, rate) in
        [("bare handler", &bare), ("GET a job", &get), ("PUT, new", &made), ("PUT, edit", &put)]
    {
        let (half, most) = (rate.milliseconds(0.5), rate.milliseconds(0.99));
        println!("| {name} | {:.0} | {half:.2} | {most:.2} |", rate.a_second);
    }
    println!("\n| a page of 100, one connection | median ms | longest ms |\n|---|--:|--:|");
    let longest = pages(address, jobs).await?;
    println!();
    let files = Results {
        suffix: if url.starts_with("sqlite:") { "-api" } else { "-api-postgres" },
        begun,
        machine: &machine,
        measured: serde_json::json!({
            "store": store,
            "jobs": jobs,
            "bare_per_second": bare.a_second,
            "get_per_second": get.a_second,
            "put_per_second": put.a_second,
            "put_p99_milliseconds": put.milliseconds(0.99),
            "longest_page_milliseconds": longest,
        }),
        chart: None,
    };
    files.write()?;
    verdict("GET at least half of the bare handler", get.a_second / bare.a_second, 0.5);
    verdict("durable PUTs a second", put.a_second, 5_000.0);
    verdict("p99 of PUT within 25 ms", 25.0 / put.milliseconds(0.99), 1.0);
    verdict("pages within 20 ms", 20.0 / longest, 1.0);
    Ok(())
}

fn verdict(name: &str, value: f64, least: f64) {
    let verdict = if value >= least { "PASS" } else { "MISS" };
    println!("* {verdict}: {name}: {value:.2}");
}

/// Lists and searches. Every job has its own name, URL and description.
async fn pages(address: SocketAddr, jobs: usize) -> anyhow::Result<f64> {
    let mut longest = 0.0_f64;
    let last = jobs - 1;
    for (name, filter, expected) in [
        ("list, the first page", String::new(), jobs.min(100)),
        ("search, all match", "contains(name,'job')".to_owned(), jobs.min(100)),
        ("search, one matches, the last", format!("contains(name,'{}')", job_name(last)), 1),
        ("search in the description, one matches", format!("contains(name,'no. {last}.')"), 1),
        ("search, none matches", "contains(name,'nothing like it')".to_owned(), 0),
        ("search of two letters, none matches", "contains(name,'qq')".to_owned(), 0),
        ("disabled, none", "state eq 'Disabled'".to_owned(), 0),
        ("tag, one in a thousand", "tag eq 'shard=7'".to_owned(), jobs.div_ceil(1000).min(100)),
        ("tag, none", "tag eq 'shard=none'".to_owned(), 0),
    ] {
        let filter = match filter.is_empty() {
            true => String::new(),
            false => format!("&$filter={}", filter.replace(' ', "%20")),
        };
        let request = request("GET", &format!("{COLLECTION}/jobs?{VERSION}&$top=100{filter}"), "");
        // The server closes connections that were idle for some seconds.
        let mut connection = Connection::open(address).await?;
        let mut times = Vec::new();
        for _ in 0..PAGES {
            times.push(time(&mut connection, &request).await?);
        }
        let mut found = 0;
        loop {
            let body: serde_json::Value = serde_json::from_slice(connection.body())?;
            found += body["value"].as_array().map_or(0, Vec::len);
            // A short page may be followed by more results; a full one is sufficient.
            let Some(next) = body["nextLink"].as_str().filter(|_| found < expected.max(1)) else {
                break;
            };
            let target = next.strip_prefix("http://localhost").unwrap_or(next);
            time(&mut connection, &self::request("GET", target, "")).await?;
        }
        ensure!(found == expected, "{name}: {found} instead of {expected}");
        times.sort_by(f64::total_cmp);
        let (half, most) = (times[PAGES / 2], times[PAGES - 1]);
        longest = longest.max(half);
        println!("| {name} | {half:.2} | {most:.2} |");
    }
    Ok(longest)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
async fn time(connection: &mut Connection, request: &[u8]) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let status = connection.ask(request).await?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    ensure!(status == "200", "{status}: {}", String::from_utf8_lossy(connection.body()));
    Ok(took)
}

async fn put_jobs(
    address: SocketAddr,
    until: Until,
    statuses: &'static [&'static str],
    round: usize,
    jobs: usize,
) -> anyhow::Result<Rate> {
    let requests = Arc::new(move |number: usize| {
        let job = if round == 0 { number } else { scatter(number, jobs) };
        request("PUT", &target(job), &definition(job, round, number))
    });
    ask(address, CONNECTIONS, until, statuses, requests).await
}

fn median(mut rates: Vec<Rate>) -> Rate {
    rates.sort_by(|one, other| one.a_second.total_cmp(&other.a_second));
    rates.swap_remove(rates.len() / 2)
}

/// A permutation of the numbers below `below` with distant neighbours.
fn scatter(number: usize, below: usize) -> usize {
    number.wrapping_mul(7_368_787) % below
}

fn job_name(job: usize) -> String {
    format!("job-{job:08}")
}

fn target(job: usize) -> String {
    format!("{COLLECTION}/jobs/{}?{VERSION}", job_name(job))
}

fn get(job: usize) -> Vec<u8> {
    request("GET", &target(job), "")
}

/// A definition that differs from all previous ones of the job.
fn definition(job: usize, round: usize, number: usize) -> String {
    format!(
        r#"{{"properties":{{"description":"nightly export of shop no. {job}.","tags":{{"shard":"{}","edit":"{round}-{number}"}},"startTime":"2027-01-01T00:00:00Z","recurrence":{{"frequency":"Day","interval":1,"timeZone":"Europe/Berlin","schedule":{{"hours":[2],"minutes":[30]}}}},"action":{{"type":"Https","request":{{"uri":"https://shop-{job}.example.com/export?full=yes","method":"POST","headers":{{"Content-Type":"application/json"}},"body":"{{\"day\":\"yesterday\"}}"}},"retryPolicy":{{"retryType":"Fixed","retryInterval":"PT1M","retryCount":3}}}}}}}}"#,
        job % 1000
    )
}

fn release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/kalends")
}
