//! Files of results below `bench/results`; `bench/goals` reads them.

use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Values and charts of a benchmark.
pub struct Results<'a> {
    /// Suffix of the file names after the date, for example `-growth`.
    pub suffix: &'a str,
    /// When the benchmark began.
    pub begun: Timestamp,
    /// Description of the machine.
    pub machine: &'a Value,
    /// Measured values.
    pub measured: Value,
    /// Charts as SVG.
    pub chart: Option<String>,
}

impl Results<'_> {
    /// Writes `DATE<suffix>.json` and, if there are charts, `DATE<suffix>.svg`.
    pub fn write(self) -> anyhow::Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        std::fs::create_dir_all(&folder)?;
        let name = format!("{}{}", self.begun.strftime("%Y-%m-%d"), self.suffix);
        let results = json!({
            "begun": self.begun.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "machine": self.machine,
            "measured": self.measured,
        });
        let write = |ending: &str, text: String| {
            let path = folder.join(format!("{name}.{ending}"));
            std::fs::write(&path, text).with_context(|| path.display().to_string())
        };
        write("json", serde_json::to_string_pretty(&results)? + "\n")?;
        if let Some(chart) = self.chart {
            write("svg", chart)?;
        }
        println!("\nWritten to bench/results/{name}.json.");
        Ok(())
    }
}
