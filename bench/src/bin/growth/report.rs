//! The results as a Markdown table, JSON and charts.

use jiff::Timestamp;
use kalends_bench::peers::plot::{Bar, Chart, Scale, svg};
use kalends_bench::results::Results;
use serde_json::{Value, json};

/// Results of a store with a number of jobs.
#[derive(Default)]
pub(crate) struct Size {
    pub(crate) store: &'static str,
    pub(crate) jobs: usize,
    pub(crate) load_seconds: f64,
    pub(crate) bytes_per_job: f64,
    /// From the start of the process until `/readyz` returns 200.
    pub(crate) ready_seconds: f64,
    pub(crate) ready_megabytes: f64,
    pub(crate) megabytes_after_runs: f64,
    /// Processor time of the server per run.
    pub(crate) processor_microseconds: f64,
    /// Processor time of the database server per run.
    pub(crate) database_microseconds: f64,
    /// From the scheduled time of 1,000 runs to the last arrival.
    pub(crate) last_after_milliseconds: f64,
}

impl Size {
    pub(crate) fn json(&self) -> Value {
        json!({
            "store": self.store,
            "durability": durability(self.store),
            "jobs": self.jobs,
            "load_seconds": self.load_seconds,
            "bytes_per_job": self.bytes_per_job,
            "ready_seconds": self.ready_seconds,
            "ready_megabytes": self.ready_megabytes,
            "megabytes_after_runs": self.megabytes_after_runs,
            "processor_microseconds_per_run": self.processor_microseconds,
            "database_processor_microseconds_per_run": self.database_microseconds,
            "last_of_1000_after_milliseconds": self.last_after_milliseconds,
        })
    }
}

fn durability(store: &str) -> &'static str {
    match store {
        "SQLite" => "WAL, synchronous FULL",
        _ => "fsync on, synchronous_commit on",
    }
}

/// Prints the table and writes `bench/results/DATE-growth.json` and `DATE-growth.svg`.
pub(crate) fn write(
    machine: &Value,
    begun: Timestamp,
    sizes: &[Size],
    is_quick: bool,
) -> anyhow::Result<()> {
    println!(
        "| Store | Jobs | CPU µs/run | CPU µs/run, database | Last of 1,000 after, ms | Ready after, s | \
         Resident, MB | Resident after runs, MB | Bytes per job |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for size in sizes {
        println!(
            "| {}, {} | {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} |",
            size.store,
            durability(size.store),
            size.jobs,
            size.processor_microseconds,
            size.database_microseconds,
            size.last_after_milliseconds,
            size.ready_seconds,
            size.ready_megabytes,
            size.megabytes_after_runs,
            size.bytes_per_job,
        );
    }
    let files = Results {
        suffix: if is_quick { "-growth-quick" } else { "-growth" },
        begun,
        machine,
        measured: json!({ "sizes": sizes.iter().map(Size::json).collect::<Vec<_>>() }),
        chart: Some(svg(&charts(sizes))?),
    };
    files.write()
}

fn charts(sizes: &[Size]) -> Vec<Chart> {
    let chart = |title: &str, value: fn(&Size) -> f64, unit: &str| Chart {
        title: title.into(),
        scale: Scale::Linear,
        bars: sizes
            .iter()
            .map(|size| Bar {
                label: format!("{}, {} jobs", size.store, size.jobs),
                value: value(size),
                text: format!("{:.3} {unit}", value(size)),
                is_highlighted: size.store == "SQLite",
            })
            .collect(),
    };
    vec![
        chart("Processor time of a run, database included", total_microseconds, "µs"),
        chart("Start-up until ready", |size| size.ready_seconds, "s"),
        chart("Resident memory when ready", |size| size.ready_megabytes, "MB"),
    ]
}

fn total_microseconds(size: &Size) -> f64 {
    size.processor_microseconds + size.database_microseconds
}
