//! One measurement of one contender: a new store, jobs, and what the sink has received.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use kalends_bench::engine::BODY_BYTES;
use kalends_bench::engine::process::Process;
use kalends_bench::engine::sink::Sink;
use kalends_bench::peers::contender::{Contender, Program, Programs, Store, Worker};
use kalends_bench::peers::database::{Postgres, Redis};
use kalends_bench::peers::processor::seconds_of_tree;
use kalends_bench::peers::workload::Load;
use kalends_bench::peers::{kalends, now, sleep_until};

/// Jobs that are due each second of a steady load.
const RATE: usize = 1_000;
/// Time for the start of programs, in addition to that for the creation of jobs.
const START: Duration = Duration::from_secs(4);
/// All programs must be idle for this time before the first job is due.
const REST: SignedDuration = SignedDuration::from_millis(500);
/// Many runs at one scheduled time.
pub(crate) struct Burst {
    /// Number of runs.
    pub(crate) count: usize,
    /// Seconds from the scheduled time to the last arrival.
    pub(crate) seconds: f64,
    /// Processor time of the contender per run, in microseconds.
    pub(crate) processor: f64,
    /// Processor time of its database server per run, in microseconds.
    pub(crate) database: f64,
}

impl Burst {
    /// Throughput.
    pub(crate) fn runs_per_second(&self) -> f64 {
        self.count as f64 / self.seconds
    }
}

/// Runs at a constant rate.
pub(crate) struct Steady {
    /// Median lateness in milliseconds.
    pub(crate) p50: f64,
    /// 99th percentile of the lateness in milliseconds.
    pub(crate) p99: f64,
    /// Processor time of the contender as a share of one core.
    pub(crate) processor: f64,
    /// Processor time of its database server as a share of one core.
    pub(crate) database: f64,
}

/// Shared parts of all measurements.
pub(crate) struct Bench {
    pub(crate) programs: Programs,
    pub(crate) postgres: Postgres,
    sink: Sink,
    folder: PathBuf,
    measurements: usize,
}

/// A result before it is divided by a number of runs or seconds.
struct Outcome {
    report: serde_json::Value,
    processor_seconds: f64,
    database_seconds: f64,
}

/// Whatever runs the jobs.
enum Running {
    Kalends(Process),
    Peer(Worker),
}

impl Bench {
    pub(crate) fn new(
        programs: Programs,
        sink: Sink,
        postgres: Postgres,
        folder: PathBuf,
    ) -> Bench {
        Bench { programs, sink, postgres, folder, measurements: 0 }
    }

    /// Requests per second of `wrk` at the sink: the ceiling of every contender.
    pub(crate) fn wrk(&self) -> anyhow::Result<f64> {
        let script = self.folder.join("post.lua");
        let body = "x".repeat(BODY_BYTES);
        std::fs::write(&script, format!("wrk.method = \"POST\"\nwrk.body = \"{body}\"\n"))?;
        let output = Command::new("wrk")
            .args(["-t1", "-c64", "-d3s", "-s"])
            .arg(&script)
            .arg(format!("http://{}/", self.sink.host()))
            .output()
            .context("wrk")?;
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
        Ok(line.context("wrk printed no rate")?.trim().parse()?)
    }

    /// Measures many runs at one scheduled time.
    pub(crate) async fn burst(
        &mut self,
        contender: &Contender,
        count: usize,
    ) -> anyhow::Result<Burst> {
        let count = count.min(contender.burst_max);
        let (load, outcome) = self.measure(contender, count, 0).await?;
        let last = outcome.report["last"].as_i64().context("no arrival")?;
        let per_run = |seconds: f64| seconds * 1e6 / count as f64;
        Ok(Burst {
            count,
            seconds: (last - load.first) as f64 / 1e6,
            processor: per_run(outcome.processor_seconds),
            database: per_run(outcome.database_seconds),
        })
    }

    /// Measures runs at a constant rate.
    pub(crate) async fn steady(
        &mut self,
        contender: &Contender,
        seconds: usize,
    ) -> anyhow::Result<Steady> {
        let spacing = 1_000_000 / RATE as i64;
        let (_, outcome) = self.measure(contender, RATE * seconds, spacing).await?;
        let milliseconds =
            |name: &str| outcome.report[name].as_f64().map(|late| late / 1e3).context("no arrival");
        Ok(Steady {
            p50: milliseconds("p50")?,
            p99: milliseconds("p99")?,
            processor: outcome.processor_seconds / seconds as f64,
            database: outcome.database_seconds / seconds as f64,
        })
    }

    /// Measures with a new store. Repeats with more time if the jobs are not stored before they are
    /// due.
    async fn measure(
        &mut self,
        contender: &Contender,
        count: usize,
        spacing: i64,
    ) -> anyhow::Result<(Load, Outcome)> {
        let mut time =
            START + Duration::from_secs_f64(count as f64 / contender.stores_per_second as f64);
        for _ in 0..3 {
            let first = Timestamp::from_second(now().checked_add(time)?.as_second() + 1)?;
            let load = Load { count, first: first.as_microsecond(), spacing };
            if let Some(outcome) = self.measure_once(contender, load).await? {
                return Ok((load, outcome));
            }
            time *= 2;
        }
        bail!("the jobs were not stored in time")
    }

    /// `None` if the jobs are not stored before they are due.
    async fn measure_once(
        &mut self,
        contender: &Contender,
        load: Load,
    ) -> anyhow::Result<Option<Outcome>> {
        self.measurements += 1;
        let folder = self.folder.join(self.measurements.to_string());
        std::fs::create_dir(&folder)?;
        let (mut redis, mut database) = (None, None);
        let url = match contender.store {
            Store::None => String::new(),
            Store::Sqlite => format!("sqlite:{}", folder.join("kalends.db").display()),
            Store::Postgres => {
                database = Some(self.postgres.process);
                self.postgres.create().await?
            }
            Store::Redis(appendfsync) => {
                let server = Redis::start(&folder, appendfsync).await?;
                database = Some(server.process());
                redis.insert(server).url.clone()
            }
        };
        let measured = self.measure_with(contender, load, &url, &folder, database).await;
        if contender.store == Store::Postgres {
            self.postgres.drop(&url).await?;
        }
        drop(redis);
        std::fs::remove_dir_all(&folder)?;
        measured
    }

    async fn measure_with(
        &self,
        contender: &Contender,
        load: Load,
        url: &str,
        folder: &std::path::Path,
        database: Option<u32>,
    ) -> anyhow::Result<Option<Outcome>> {
        let command = self.programs.command(contender)?;
        let mut command = command.context("not installed; see bench/peers/install")?;
        let running = match contender.program {
            Program::Kalends => {
                command.args([
                    "serve",
                    "--limits-plans",
                    "off",
                    "--listen",
                    "127.0.0.1:0",
                    "--store",
                    url,
                ]);
                if contender.store == Store::Postgres {
                    // As for SQLite by default.
                    command.arg("--key-file").arg(folder.join("key"));
                    command.arg("--audit-log").arg(folder.join("audit.log"));
                }
                let server = Process::start(&mut command)?;
                kalends::create_jobs(&server.host, self.sink.host(), load).await?;
                Running::Kalends(server)
            }
            program => {
                command.env("STORE", url).env("SINK", self.sink.host());
                let mut worker = clone(&command);
                let numbers =
                    [load.count.to_string(), load.first.to_string(), load.spacing.to_string()];
                let loaded = command.arg("load").args(&numbers).stdout(Stdio::null()).status()?;
                ensure!(loaded.success(), "it did not store the jobs");
                worker.arg("work");
                if program == Program::Floor {
                    worker.args(&numbers);
                }
                Running::Peer(Worker::start(&mut worker)?)
            }
        };
        if contender.store == Store::Postgres {
            self.postgres.settle(url).await?;
        }
        let first = Timestamp::from_microsecond(load.first)?;
        if now() > first.checked_sub(REST)? {
            return Ok(None);
        }
        self.sink.clear().await?;
        let process = running.process();
        let processor_seconds = || -> anyhow::Result<(f64, f64)> {
            Ok((seconds_of_tree(process)?, database.map_or(Ok(0.0), seconds_of_tree)?))
        };
        sleep_until(first.checked_sub(SignedDuration::from_millis(50))?).await;
        let before = processor_seconds()?;
        let report = self.sink.receive(load).await?;
        let after = processor_seconds()?;
        Ok(Some(Outcome {
            report,
            processor_seconds: after.0 - before.0,
            database_seconds: after.1 - before.1,
        }))
    }
}

impl Running {
    fn process(&self) -> u32 {
        match self {
            Running::Kalends(server) => server.id(),
            Running::Peer(worker) => worker.process(),
        }
    }
}

/// A command with the same program, arguments and environment.
fn clone(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            copy.env(name, value);
        }
    }
    copy
}
