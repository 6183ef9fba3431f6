//! The cost of a run, the start-up and the memory of the server with few and with many jobs; see
//! bench/README.md.
//!
//! ```text
//! scripts/with-postgres --durable growth [--quick] [--store sqlite|postgres] [JOBS …]
//! ```
//!
//! `KALENDS` sets the path of the binary. The jobs are loaded without the API; all that is measured goes
//! through it.

mod load;
mod report;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use kalends_bench::engine::CONNECTIONS;
use kalends_bench::engine::client::Client;
use kalends_bench::engine::process::Process;
use kalends_bench::engine::sink;
use kalends_bench::engine::sink::Sink;
use kalends_bench::peers::contender::Programs;
use kalends_bench::peers::database::Postgres;
use kalends_bench::peers::processor::seconds_of_tree;
use kalends_bench::peers::workload::Load;
use kalends_bench::peers::{kalends, machine, median, now, sleep_until};

use crate::load::{Loader, PostgresLoader, SqliteLoader, job_path};
use crate::report::Size;

/// Most runs of a burst, and number of jobs of the smallest store.
const BURST: usize = 1_000;
/// Number of bursts at each size, each of other jobs.
const BURSTS: usize = 8;
/// Number of bursts of a quick run.
const QUICK_BURSTS: usize = 3;
/// A job that is completed cannot be edited for the next burst.
const RECURRENCE: &str = r#""recurrence":{"frequency":"Month","interval":12},"#;
/// Time to edit the jobs of a burst.
const EDITS: SignedDuration = SignedDuration::from_secs(4);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut sizes, mut is_quick, mut only) = (Vec::new(), false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "sink" => return sink::serve(),
            "--quick" => is_quick = true,
            "--store" => only = arguments.next(),
            size => sizes.push(size.parse()?),
        }
    }
    if sizes.is_empty() {
        sizes = match is_quick {
            // Loading a million jobs takes longer than all other parts of a quick run.
            true => vec![1_000, 100_000],
            false => vec![1_000, 100_000, 1_000_000, 10_000_000],
        };
    }
    let folder = std::env::temp_dir().join(format!("kalends-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&folder, &sizes, is_quick, only.as_deref()));
    std::fs::remove_dir_all(&folder)?;
    measured
}

async fn measure(
    folder: &Path,
    sizes: &[usize],
    is_quick: bool,
    only: Option<&str>,
) -> anyhow::Result<()> {
    let (machine, begun) = (machine::describe(folder)?, now());
    let mut measured = Vec::new();
    let bursts = if is_quick { QUICK_BURSTS } else { BURSTS };
    let is_selected = |name: &str| only.is_none_or(|only| only == name);
    if is_selected("sqlite") {
        let path = folder.join("kalends.db");
        let loader = SqliteLoader { path };
        measured.extend(grow("SQLite", loader, None, folder, sizes, bursts).await?);
        // The disk is needed for the other store.
        std::fs::remove_dir_all(folder)?;
        std::fs::create_dir(folder)?;
    }
    if is_selected("postgres") {
        let mut postgres = Postgres::connect().await?;
        let loader = PostgresLoader { url: postgres.create().await?, key: folder.join("key") };
        let (process, url) = (postgres.process, loader.url.clone());
        measured.extend(grow("PostgreSQL", loader, Some(process), folder, sizes, bursts).await?);
        postgres.drop(&url).await?;
    }
    report::write(&machine, begun, &measured, is_quick)
}

/// Measures one store that grows from size to size.
async fn grow(
    store: &'static str,
    loader: impl Loader,
    database: Option<u32>,
    folder: &Path,
    sizes: &[usize],
    bursts: usize,
) -> anyhow::Result<Vec<Size>> {
    let sink = Sink::start()?;
    let mut measured = Vec::new();
    let mut loaded = 0;
    for &jobs in sizes {
        eprintln!("{store}, {jobs} jobs");
        let (bytes, load_seconds) = timed(loader.load(loaded, jobs)).await;
        loaded = jobs;
        let (server, ready_seconds) = timed(start(&loader, folder)).await;
        let server = server?;
        let mut size = Size {
            store,
            jobs,
            load_seconds,
            bytes_per_job: bytes? as f64 / jobs as f64,
            ready_seconds,
            ready_megabytes: server.resident_megabytes()?,
            ..Size::default()
        };
        let mut last_after = Vec::new();
        let (mut runs, mut seconds, mut database_seconds) = (0, 0.0, 0.0);
        for round in 0..bursts {
            let count = jobs.min(BURST);
            let first = Timestamp::from_second(now().checked_add(EDITS)?.as_second() + 1)?;
            let load = Load { count, first: first.as_microsecond(), spacing: 0 };
            // Jobs far apart, and others in each round.
            let job = move |place: usize| (place * (jobs / count) + round * 37) % jobs;
            edit(&server.host, sink.host(), load, job).await?;
            ensure!(now() < first, "the jobs were not edited in time");
            sleep_until(first.checked_sub(SignedDuration::from_millis(50))?).await;
            let processor_seconds = || -> anyhow::Result<(f64, f64)> {
                Ok((seconds_of_tree(server.id())?, database.map_or(Ok(0.0), seconds_of_tree)?))
            };
            let before = processor_seconds()?;
            let report = sink.receive(load).await?;
            let after = processor_seconds()?;
            let last = report["last"].as_f64().unwrap_or(f64::NAN);
            last_after.push((last - load.first as f64) / 1e3);
            runs += count;
            seconds += after.0 - before.0;
            database_seconds += after.1 - before.1;
        }
        size.last_after_milliseconds = median(last_after);
        size.processor_microseconds = seconds * 1e6 / runs as f64;
        size.database_microseconds = database_seconds * 1e6 / runs as f64;
        size.megabytes_after_runs = server.resident_megabytes()?;
        eprintln!("{}", size.json());
        measured.push(size);
    }
    Ok(measured)
}

/// Starts the server and waits until it is ready.
async fn start(loader: &impl Loader, folder: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(Programs::from_environment().kalends);
    command.args(["serve", "--limits-plans", "off", "--listen", "127.0.0.1:0"]);
    command.arg("--audit-log").arg(folder.join("audit.log"));
    loader.select(&mut command);
    let server = Process::start(&mut command)?;
    loop {
        let answer = Client::connect(&server.host).await?.send("GET", "/readyz", "").await?;
        if answer.status == 200 {
            return Ok(server);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Makes existing jobs run at the time of a load.
async fn edit(
    server: &str,
    sink: &str,
    load: Load,
    job: impl Fn(usize) -> usize + Copy + Send + 'static,
) -> anyhow::Result<()> {
    let mut tasks = Vec::new();
    for first in 0..CONNECTIONS.min(load.count) {
        let mut client = Client::connect(server).await?;
        let sink = sink.to_owned();
        tasks.push(tokio::spawn(async move {
            let start = Timestamp::from_microsecond(load.first)?;
            for place in (first..load.count).step_by(CONNECTIONS) {
                let path = format!("{}?api-version=2016-03-01", job_path(job(place))?);
                let body = load.body(place);
                let definition = kalends::definition(&start, RECURRENCE, &sink, &body);
                client.must("PUT", &path, &definition).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
async fn timed<T>(work: impl Future<Output = T>) -> (T, f64) {
    let begin = Instant::now();
    let result = work.await;
    (result, begin.elapsed().as_secs_f64())
}
