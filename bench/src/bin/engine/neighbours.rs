//! Start lag of healthy jobs beside a large number of runs that wait for a target that never responds.

use std::process::Command;
use std::time::Duration;

use anyhow::bail;
use kalends_bench::engine::JOBS_PER_COLLECTION;
use kalends_bench::engine::client::Client;
use kalends_bench::engine::process::Process;
use kalends_bench::peers::median;

use crate::{Bench, collection_of};

/// Goal: p99 with neighbours divided by p99 without them.
const RATIO_MAX: f64 = 2.0;
/// Time after the neighbours were switched on or off that is reported by itself.
const SETTLE: Duration = Duration::from_secs(5);

/// Start lag of healthy jobs in milliseconds and resident memory of the server in MB.
struct Sample {
    p50: f64,
    p99: f64,
    memory: Vec<f64>,
}

impl Bench {
    /// Alternates between `seconds` without neighbours and `seconds` with `count` of them.
    pub(crate) async fn neighbours(
        &mut self,
        count: usize,
        rate: usize,
        seconds: usize,
        rounds: usize,
    ) -> anyhow::Result<()> {
        let hanging = Process::start(Command::new(std::env::current_exe()?).arg("hanging"))?;
        self.made = self.made.next_multiple_of(JOBS_PER_COLLECTION);
        let first = self.made;
        // Without a start time a job is due at once, but its collection is disabled.
        self.define_at(&hanging.host, "Disabled", count, |_| String::new()).await?;
        let noisy: Vec<_> =
            (first..self.made).step_by(JOBS_PER_COLLECTION).map(collection_of).collect();
        self.made = self.made.next_multiple_of(JOBS_PER_COLLECTION);
        self.begin_steady(rate).await?;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            without
                .push(self.sample(&format!("round {round}, without neighbours"), seconds).await?);
            self.switch(&noisy, "enable").await?;
            with.push(self.sample(&format!("round {round}, with {count}"), seconds).await?);
            self.switch(&noisy, "disable").await?;
        }
        let p99 = |samples: &[Sample]| median(samples.iter().map(|sample| sample.p99).collect());
        let p50 = |samples: &[Sample]| median(samples.iter().map(|sample| sample.p50).collect());
        let ratio = p99(&with) / p99(&without);
        let memory = with.iter().flat_map(|sample| sample.memory.iter().copied());
        let most = memory.clone().fold(0.0, f64::max);
        let first = with.first().and_then(|sample| sample.memory.last()).copied();
        let last = with.last().and_then(|sample| sample.memory.last()).copied();
        println!(
            "{count} waiting runs: start lag p50 {:.2} ms without, {:.2} ms with; p99 {:.2} and {:.2} ms, \
             ratio {ratio:.2} (goal {RATIO_MAX}): {}; resident {:.0} MB after the first round, {:.0} MB \
             after the last, {most:.0} MB at most",
            p50(&without),
            p50(&with),
            p99(&without),
            p99(&with),
            if ratio <= RATIO_MAX { "PASS" } else { "FAIL" },
            first.unwrap_or(f64::NAN),
            last.unwrap_or(f64::NAN),
        );
        Ok(())
    }

    /// Enables or disables collections.
    async fn switch(&self, collections: &[String], action: &str) -> anyhow::Result<()> {
        let mut client = Client::connect(&self.server.host).await?;
        for collection in collections {
            let path = format!("{collection}/{action}?api-version=2016-03-01");
            client.must("POST", &path, "").await?;
        }
        Ok(())
    }

    async fn sample(&self, name: &str, seconds: usize) -> anyhow::Result<Sample> {
        tokio::time::sleep(SETTLE).await;
        let change = self.report().await?;
        println!("{name}, first {} s: {}", SETTLE.as_secs(), lateness(&change));
        let mut memory = Vec::new();
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            memory.push(self.server.resident_megabytes()?);
        }
        let report = self.report().await?;
        if report["doubled"].as_u64() != Some(0) || report["early"].as_u64() != Some(0) {
            bail!("{name}: early or duplicate requests: {report}");
        }
        println!(
            "{name}: {}; resident {:.0} to {:.0} MB",
            lateness(&report),
            memory.first().copied().unwrap_or(f64::NAN),
            memory.last().copied().unwrap_or(f64::NAN),
        );
        let (p50, p99) = (milliseconds(&report, "p50"), milliseconds(&report, "p99"));
        Ok(Sample { p50, p99, memory })
    }
}

fn milliseconds(report: &serde_json::Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or(f64::NAN) / 1e3
}

fn lateness(report: &serde_json::Value) -> String {
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| milliseconds(report, name));
    format!("{} came, late by {p50:.2} / {p99:.2} / {max:.2} ms (p50, p99, most)", report["count"])
}
