//! Processes of a measurement.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A process, killed when dropped.
pub struct Process {
    child: Child,
    /// Listen address, as HOST:PORT.
    pub host: String,
}

impl Process {
    /// Starts a program and waits until it prints its listen address on standard error.
    pub fn start(command: &mut Command) -> anyhow::Result<Process> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let errors = child.stderr.take().context("standard error")?;
        let mut lines = BufReader::new(errors).lines();
        let host = loop {
            let line = lines.next().context("it ended before it listened")??;
            if let Some((_, host)) = line.split_once("listening on http://") {
                break host.to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Process { child, host })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time in seconds.
    pub fn processor_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit(')').next().context("a stat line")?;
        let fields: Vec<_> = after_name.split_whitespace().collect();
        let ticks = |number: usize| fields.get(number).and_then(|text| text.parse::<f64>().ok());
        // The kernel counts in hundredths of a second.
        Ok((ticks(11).context("user time")? + ticks(12).context("system time")?) / 100.0)
    }

    /// Peak resident memory in MB.
    pub fn peak_megabytes(&self) -> anyhow::Result<f64> {
        self.status_megabytes("VmHWM:")
    }

    /// Resident memory in MB.
    pub fn resident_megabytes(&self) -> anyhow::Result<f64> {
        self.status_megabytes("VmRSS:")
    }

    fn status_megabytes(&self, name: &'static str) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: f64 =
            value.and_then(|text| text.trim().strip_suffix(" kB")).context(name)?.trim().parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
