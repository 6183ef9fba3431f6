//! Bursts of runs due at the same time, and runs at a steady rate; see bench/README.md.
//!
//! ```text
//! engine burst [COUNT …]             COUNT one-time jobs due at the same time
//! engine steady RATE SECONDS [IDLE]  minutely jobs, RATE of them due each second, and IDLE jobs that
//!                                    are not due for years
//! engine neighbours COUNT RATE SECONDS ROUNDS
//!                                    RATE runs each second beside COUNT runs that wait for a target
//!                                    that never responds, and without them
//! ```
//!
//! `KALENDS` sets the path of the binary, `KALENDS_STORE` its store; both have defaults.

mod neighbours;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::{Timestamp, ToSpan as _};
use kalends_bench::engine::client::Client;
use kalends_bench::engine::process::Process;
use kalends_bench::engine::{BODY_BYTES, CONNECTIONS, JOBS_PER_COLLECTION, sink};
use kalends_bench::peers::{machine, now, sleep_until};
use kalends_bench::results::Results;

/// Duration of the baseline measurement with a bare client.
const BARE: Duration = Duration::from_secs(3);
/// Minimum rate at which jobs are created; the due time must be after the last creation.
const DEFINED_PER_SECOND: usize = 2_500;
/// Number of requests that are built before they are sent.
const PUT_TOGETHER: usize = 64_000;
/// A run that has not arrived after this time is lost.
const LOST_AFTER: Duration = Duration::from_secs(120);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sink"] => sink::serve(),
        ["hanging"] => sink::hang(),
        ["burst", counts @ ..] => {
            let counts = counts
                .iter()
                .map(|text| Ok(text.parse()?))
                .collect::<anyhow::Result<Vec<usize>>>()?;
            let counts = if counts.is_empty() { vec![10_000, 100_000] } else { counts };
            measure(async |bench| {
                for &count in &counts {
                    bench.burst(count).await?;
                }
                Ok(())
            })
        }
        ["steady", rate, seconds, idle @ ..] => {
            let (rate, seconds) = (rate.parse()?, seconds.parse()?);
            let idle = idle.first().map(|text| text.parse()).transpose()?;
            measure(async |bench| {
                if let Some(idle) = idle {
                    let later = now() + jiff::SignedDuration::from_hours(365 * 24);
                    bench.define(idle, |_| format!(r#""startTime":"{later:.0}","#)).await?;
                }
                bench.steady(rate, seconds).await
            })
        }
        ["neighbours", count, rate, seconds, rounds] => {
            let (count, rate) = (count.parse()?, rate.parse()?);
            let (seconds, rounds) = (seconds.parse()?, rounds.parse()?);
            measure(async |bench| bench.neighbours(count, rate, seconds, rounds).await)
        }
        _ => bail!(
            "engine burst [COUNT …] | steady RATE SECONDS [IDLE] \
             | neighbours COUNT RATE SECONDS ROUNDS"
        ),
    }
}

fn measure(work: impl AsyncFnOnce(&mut Bench) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let folder = std::env::temp_dir().join(format!("kalends-bench-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let sink = Process::start(Command::new(std::env::current_exe()?).arg("sink"))?;
        let program = std::env::var("KALENDS").unwrap_or("target/release/kalends".into());
        let store = std::env::var("KALENDS_STORE");
        let store = store.unwrap_or(format!("sqlite:{}/kalends.db", folder.display()));
        let mut serve = Command::new(program);
        let server =
            Process::start(serve.args(["serve", "--listen", "127.0.0.1:0", "--store", &store]))?;
        let mut bench = Bench { sink, server, made: 0 };
        bench.bare().await?;
        let worked = work(&mut bench).await;
        drop(bench);
        std::fs::remove_dir_all(&folder)?;
        worked
    })
}

struct Bench {
    sink: Process,
    server: Process,
    made: usize,
}

impl Bench {
    /// Measures a bare client that only sends requests.
    async fn bare(&self) -> anyhow::Result<()> {
        let body = "x".repeat(BODY_BYTES);
        let until = now().checked_add(BARE)?;
        let mut tasks = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut client, body) = (Client::connect(&self.sink.host).await?, body.clone());
            tasks.push(tokio::spawn(async move {
                let mut count = 0_usize;
                while now() < until {
                    client.must("POST", "/", &body).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            }));
        }
        let mut count = 0;
        for task in tasks {
            count += task.await??;
        }
        println!("bare client: {:.0} requests/s", count as f64 / BARE.as_secs_f64());
        Ok(())
    }

    async fn burst(&mut self, count: usize) -> anyhow::Result<()> {
        let due =
            now().checked_add(Duration::from_secs((count / DEFINED_PER_SECOND + 3) as u64))?;
        let due = Timestamp::from_second(due.as_second())?;
        self.define(count, |_| format!(r#""startTime":"{due}","#)).await?;
        if now() >= due {
            bail!("the jobs were not defined in time");
        }
        let before = self.server.processor_seconds()?;
        sleep_until(due).await;
        let report = self.wait_for(count).await?;
        let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
        let seconds = (number("last") - due.as_microsecond() as f64) / 1e6;
        println!(
            "burst of {count}: last after {seconds:.3} s, {:.0} runs/s, {:.1} µs of processor a run; \
             first after {:.1} ms; early {}, doubled {}; peak {:.0} MB",
            count as f64 / seconds,
            (self.server.processor_seconds()? - before) * 1e6 / count as f64,
            (number("first") - due.as_microsecond() as f64) / 1e3,
            report["early"],
            report["doubled"],
            self.server.peak_megabytes()?,
        );
        Ok(())
    }

    /// Creates minutely jobs of which `rate` are due each second, and waits for the first.
    async fn begin_steady(&mut self, rate: usize) -> anyhow::Result<Timestamp> {
        let count = rate * 60;
        let begin =
            now().checked_add(Duration::from_secs((count / DEFINED_PER_SECOND + 3) as u64))?;
        let begin = Timestamp::from_second(begin.as_second())?;
        let at = |job: usize| {
            let micros = job as i64 * 1_000_000 / rate as i64;
            let start = begin.checked_add(micros.microseconds()).unwrap_or(begin);
            format!(r#""startTime":"{start}","recurrence":{{"frequency":"Minute","interval":1}},"#)
        };
        self.define(count, at).await?;
        sleep_until(begin).await;
        Ok(begin)
    }

    async fn steady(&mut self, rate: usize, seconds: usize) -> anyhow::Result<()> {
        let begin = self.begin_steady(rate).await?;
        let before = self.server.processor_seconds()?;
        sleep_until(begin.checked_add((seconds as i64).seconds())?).await;
        let spent = self.server.processor_seconds()? - before;
        let report = self.report().await?;
        let milliseconds = |name: &str| report[name].as_f64().unwrap_or(f64::NAN) / 1e3;
        let files = Results {
            suffix: "-steady",
            begun: begin,
            machine: &machine::describe(&std::env::temp_dir())?,
            measured: serde_json::json!({
                "rate": rate,
                "seconds": seconds,
                "other_jobs": self.made - rate * 60,
                "p50_milliseconds": milliseconds("p50"),
                "p99_milliseconds": milliseconds("p99"),
                "early": report["early"],
                "doubled": report["doubled"],
                "processor_cores": spent / seconds as f64,
            }),
            chart: None,
        };
        files.write()?;
        println!(
            "{rate} runs/s for {seconds} s: {} came, late by {:.2} / {:.2} / {:.2} / {:.2} ms (p50, p99, \
             p99.9, most); early {}, doubled {}; {:.1} % of a core; peak {:.0} MB",
            report["count"],
            milliseconds("p50"),
            milliseconds("p99"),
            milliseconds("p999"),
            milliseconds("max"),
            report["early"],
            report["doubled"],
            spent / seconds as f64 * 100.0,
            self.server.peak_megabytes()?,
        );
        Ok(())
    }

    /// Creates jobs of the sink with the members that `members` returns.
    async fn define(
        &mut self,
        count: usize,
        members: impl Fn(usize) -> String,
    ) -> anyhow::Result<()> {
        let sink = self.sink.host.clone();
        self.define_at(&sink, "Enabled", count, members).await
    }

    /// Creates jobs of a target in collections of a state, with the members that `members` returns.
    async fn define_at(
        &mut self,
        target: &str,
        state: &str,
        count: usize,
        members: impl Fn(usize) -> String,
    ) -> anyhow::Result<()> {
        let text = "x".repeat(BODY_BYTES);
        let mut client = Client::connect(&self.server.host).await?;
        let first = self.made;
        let of = collection_of;
        for number in first..first + count {
            if number == first || number.is_multiple_of(JOBS_PER_COLLECTION) {
                let body = format!(
                    r#"{{"location":"West US","properties":{{"sku":{{"name":"P20Premium"}},"state":"{state}"}}}}"#
                );
                client
                    .must("PUT", &format!("{}?api-version=2016-03-01", of(number)), &body)
                    .await?;
            }
        }
        let request = |job: usize| {
            let number = first + job;
            let body = format!(
                r#"{{"properties":{{{}"action":{{"type":"Http","request":{{"uri":"http://{target}/","method":"POST","body":"{text}"}}}}}}}}"#,
                members(job)
            );
            (format!("{}/jobs/j{number}?api-version=2016-03-01", of(number)), body)
        };
        let began = now();
        for from in (0..count).step_by(PUT_TOGETHER) {
            let requests: Vec<_> = (from..count.min(from + PUT_TOGETHER)).map(request).collect();
            let mut tasks = Vec::new();
            for share in requests.chunks(requests.len().div_ceil(CONNECTIONS)) {
                let mut client = Client::connect(&self.server.host).await?;
                let share = share.to_vec();
                tasks.push(tokio::spawn(async move {
                    for (path, body) in share {
                        client.must("PUT", &path, &body).await?;
                    }
                    anyhow::Ok(())
                }));
            }
            for task in tasks {
                task.await??;
            }
        }
        let seconds = now().duration_since(began).as_secs_f64();
        println!("{count} jobs defined, {:.0}/s", count as f64 / seconds);
        self.made += count;
        Ok(())
    }

    async fn report(&self) -> anyhow::Result<serde_json::Value> {
        let body = Client::connect(&self.sink.host).await?.must("GET", "/report", "").await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Waits until the server reports that no job is due, without requests to the target.
    async fn wait_for(&self, count: usize) -> anyhow::Result<serde_json::Value> {
        let list = format!(
            "{}/jobs?api-version=2016-03-01&$filter=state%20eq%20Enabled&$top=1",
            collection_of(self.made - 1)
        );
        let until = now().checked_add(LOST_AFTER)?;
        let mut client = Client::connect(&self.server.host).await?;
        loop {
            let body = client.must("GET", &list, "").await?;
            let page: serde_json::Value = serde_json::from_slice(&body)?;
            if page["value"].as_array().context("a page")?.is_empty() || now() > until {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // Other collections may finish slightly later.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let report = self.report().await?;
        if report["count"].as_u64() != Some(count as u64) {
            bail!("{} of {count} came", report["count"]);
        }
        Ok(report)
    }
}

/// Path of the collection of a job.
fn collection_of(job: usize) -> String {
    let (subscription, collection) = (job / 100_000, job / JOBS_PER_COLLECTION);
    format!(
        "/subscriptions/00000000-0000-0000-0000-{subscription:012}/resourceGroups/g/providers/\
         Microsoft.Scheduler/jobCollections/c{collection}"
    )
}
