//! Description of the machine.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::peers::median;

/// Number of writes that are timed.
const WRITES: usize = 100;

/// Processor, memory, operating system, load average and duration of a write to the disk.
pub fn describe(folder: &Path) -> anyhow::Result<serde_json::Value> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str, separator: char| -> String {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(separator)
            .map_or("", |(_, value)| value)
            .trim()
            .trim_matches('"')
            .to_owned()
    };
    Ok(serde_json::json!({
        "processor": value(&read("/proc/cpuinfo"), "model name", ':'),
        "cores": std::thread::available_parallelism()?.get(),
        "memory": value(&read("/proc/meminfo"), "MemTotal", ':'),
        "system": value(&read("/etc/os-release"), "PRETTY_NAME", '='),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load_average": read("/proc/loadavg").split(' ').next().unwrap_or_default(),
        "fdatasync_milliseconds": fdatasync_milliseconds(folder)?,
    }))
}

/// Median duration of an append of 4 KiB with `fdatasync`.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn fdatasync_milliseconds(folder: &Path) -> anyhow::Result<f64> {
    let path = folder.join("fdatasync");
    let mut file = std::fs::File::create(&path)?;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let begin = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_file(path)?;
    Ok((median(times) * 1e3).round() / 1e3)
}

/// First line that a program prints, or why it does not.
pub fn first_line(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().next().unwrap_or_default().to_owned()
        }
        Err(error) => error.to_string(),
    }
}
