//! The results as Markdown tables, JSON and charts.

use jiff::Timestamp;
use kalends_bench::peers::contender::{Contender, Store};
use kalends_bench::peers::plot::{Bar, Chart, Scale, svg};
use kalends_bench::peers::{machine, median};
use kalends_bench::results;
use serde_json::{Value, json};

use crate::measure::{Bench, Burst, Steady};

/// The contender that the others are divided by.
const REFERENCE: &str = "Kalends, SQLite";

/// Results of a run.
pub(crate) struct Results {
    machine: Value,
    begun: Timestamp,
    /// Requests per second of wrk, one value for each round.
    pub(crate) wrk: Vec<f64>,
    contenders: Vec<ContenderResults>,
}

/// Results of a contender.
pub(crate) struct ContenderResults {
    name: &'static str,
    version: String,
    durability: String,
    settings: &'static str,
    pub(crate) bursts: Vec<Burst>,
    pub(crate) steady: Vec<Steady>,
    /// Why measurements are missing.
    pub(crate) failures: Vec<String>,
}

impl ContenderResults {
    /// Adds version, settings and durability.
    pub(crate) fn describe(&mut self, contender: &Contender, bench: &Bench) -> anyhow::Result<()> {
        self.version = bench.programs.version(contender)?;
        self.settings = contender.settings;
        self.durability = match contender.store {
            Store::None => "not durable".into(),
            Store::Sqlite => "SQLite, WAL, synchronous FULL".into(),
            Store::Postgres => format!("{}, {}", bench.postgres.version, bench.postgres.durability),
            Store::Redis(appendfsync) => {
                let version = machine::first_line("redis-server", &["--version"]);
                let version = version.split_whitespace().nth(2).unwrap_or_default();
                let version = version.trim_start_matches("v=");
                format!("Redis {version}, appendfsync {}", appendfsync.value())
            }
        };
        Ok(())
    }

    fn burst(&self, value: impl Fn(&Burst) -> f64) -> f64 {
        median(self.bursts.iter().map(value).collect())
    }

    fn steady(&self, value: impl Fn(&Steady) -> f64) -> f64 {
        median(self.steady.iter().map(value).collect())
    }

    fn json(&self) -> Value {
        let bursts = self.bursts.iter().map(|burst| {
            json!({
                "count": burst.count,
                "seconds": burst.seconds,
                "runs_per_second": burst.runs_per_second(),
                "processor_microseconds_per_run": burst.processor,
                "database_processor_microseconds_per_run": burst.database,
            })
        });
        let steady = self.steady.iter().map(|steady| {
            json!({
                "p50_milliseconds": steady.p50,
                "p99_milliseconds": steady.p99,
                "processor_cores": steady.processor,
                "database_processor_cores": steady.database,
            })
        });
        json!({
            "name": self.name,
            "version": self.version,
            "durability": self.durability,
            "settings": self.settings,
            "bursts": bursts.collect::<Vec<_>>(),
            "steady": steady.collect::<Vec<_>>(),
            "failures": self.failures,
        })
    }
}

impl Results {
    /// No results yet.
    pub(crate) fn new(machine: Value, begun: Timestamp) -> Results {
        Results { machine, begun, wrk: vec![], contenders: vec![] }
    }

    /// The results of a contender.
    pub(crate) fn of(&mut self, contender: &Contender) -> &mut ContenderResults {
        let found = self.contenders.iter().position(|results| results.name == contender.name);
        let place = found.unwrap_or_else(|| {
            self.contenders.push(ContenderResults {
                name: contender.name,
                version: String::new(),
                durability: String::new(),
                settings: "",
                bursts: vec![],
                steady: vec![],
                failures: vec![],
            });
            self.contenders.len() - 1
        });
        &mut self.contenders[place]
    }

    /// Prints the tables and writes `bench/results/DATE.json` and `DATE.svg`.
    pub(crate) fn write(&self, is_quick: bool) -> anyhow::Result<()> {
        self.print();
        let files = results::Results {
            suffix: if is_quick { "-quick" } else { "" },
            begun: self.begun,
            machine: &self.machine,
            measured: json!({
                "wrk_requests_per_second": self.wrk,
                "contenders": self.contenders.iter().map(ContenderResults::json).collect::<Vec<_>>(),
            }),
            chart: Some(svg(&[self.burst_chart(), self.lateness_chart()])?),
        };
        files.write()
    }

    fn print(&self) {
        let machine = |name: &str| match &self.machine[name] {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        println!(
            "{} cores ({}), {}, {}, Linux {}; fdatasync {} ms, load average {} at the start.",
            machine("cores"),
            machine("processor"),
            machine("memory"),
            machine("system"),
            machine("kernel"),
            machine("fdatasync_milliseconds"),
            machine("load_average"),
        );
        let reference = self.contenders.iter().find(|results| results.name == REFERENCE);
        let reference = reference.map_or(f64::NAN, |results| results.burst(Burst::runs_per_second));
        let wrk = median(self.wrk.clone());
        println!(
            "\n| Contender | Durability | Runs at one time | Last after, s | Runs/s | ÷ Kalends, SQLite | ÷ wrk | \
             CPU µs/run | CPU µs/run, database |\n|---|---|--:|--:|--:|--:|--:|--:|--:|"
        );
        println!(
            "| wrk at the sink | not durable | – | – | {wrk:.0} | {:.2} | 1.00 | – | – |",
            wrk / reference
        );
        for results in self.contenders.iter().filter(|results| !results.bursts.is_empty()) {
            let rate = results.burst(Burst::runs_per_second);
            println!(
                "| {} {} | {} | {:.0} | {:.2} | {rate:.0} | {:.2} | {:.2} | {:.0} | {:.0} |",
                results.name,
                results.version,
                results.durability,
                results.burst(|burst| burst.count as f64),
                results.burst(|burst| burst.seconds),
                rate / reference,
                rate / wrk,
                results.burst(|burst| burst.processor),
                results.burst(|burst| burst.database),
            );
        }
        println!(
            "\n| Contender, 1,000 runs/s | Durability | Late p50, ms | Late p99, ms | % of a core | % of a core, \
             database |\n|---|---|--:|--:|--:|--:|"
        );
        for results in self.contenders.iter().filter(|results| !results.steady.is_empty()) {
            println!(
                "| {} {} | {} | {:.2} | {:.2} | {:.0} | {:.0} |",
                results.name,
                results.version,
                results.durability,
                results.steady(|steady| steady.p50),
                results.steady(|steady| steady.p99),
                results.steady(|steady| steady.processor) * 100.0,
                results.steady(|steady| steady.database) * 100.0,
            );
        }
        for results in &self.contenders {
            for failure in &results.failures {
                println!("\nMissing: {}: {failure}.", results.name);
            }
        }
    }

    fn burst_chart(&self) -> Chart {
        let wrk = median(self.wrk.clone());
        let ceiling = Bar {
            label: "wrk at the sink".into(),
            value: wrk,
            text: format!("{wrk:.0}"),
            is_highlighted: false,
        };
        let bars = self.contenders.iter().filter(|results| !results.bursts.is_empty());
        let bars = bars.map(|results| {
            let rate = results.burst(Burst::runs_per_second);
            bar(results, rate, format!("{rate:.0} ({:.2} of wrk)", rate / wrk))
        });
        Chart {
            title: "Runs per second, all due at one time".into(),
            scale: Scale::Linear,
            bars: std::iter::once(ceiling).chain(bars).collect(),
        }
    }

    fn lateness_chart(&self) -> Chart {
        let bars = self.contenders.iter().filter(|results| !results.steady.is_empty());
        let bars = bars.map(|results| {
            let (p50, p99) =
                (results.steady(|steady| steady.p50), results.steady(|steady| steady.p99));
            bar(results, p99, format!("{p99:.2} ms (p50 {p50:.2} ms)"))
        });
        Chart {
            title: "Lateness at 1,000 runs per second, 99th percentile, logarithmic".into(),
            scale: Scale::Logarithmic,
            bars: bars.collect(),
        }
    }
}

fn bar(results: &ContenderResults, value: f64, text: String) -> Bar {
    let is_highlighted = results.name.starts_with("Kalends");
    Bar { label: results.name.into(), value, text, is_highlighted }
}
