//! Figures of the process, as Linux tells them. Those that another system does not tell are absent.

use kalends_metrics::Exposition;

/// Ticks of processor time in a second; the same on every Linux.
const TICKS: f64 = 100.0;

pub(super) fn write(page: &mut Exposition, started: Option<jiff::Timestamp>) {
    page.gauge("kalends_build_info", "What is running")
        .value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    if let Some(started) = started {
        page.gauge("process_start_time_seconds", "When the process was started")
            .value(&[], started.as_millisecond() as f64 / 1000.0);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = resident_bytes(&status) {
        page.gauge("process_resident_memory_bytes", "Memory that is in use").value(&[], bytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // One of them is that which counts.
        page.gauge("process_open_fds", "Open files").value(&[], files.count().saturating_sub(1));
    }
    let statistics = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = processor_seconds(&statistics) {
        page.counter("process_cpu_seconds_total", "Processor time").value(&[], seconds);
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Of user and system, the 14th and 15th field; the second is in brackets and may hold blanks.
fn processor_seconds(statistics: &str) -> Option<f64> {
    let (_, fields) = statistics.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(f64::from(user + system) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_is_read() {
        assert_eq!(resident_bytes("VmHWM:\t  9 kB\nVmRSS:\t   12 kB\n"), Some(12_288));
        assert_eq!(resident_bytes(""), None);
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 99";
        assert_eq!(processor_seconds(line), Some(2.0));
        assert_eq!(processor_seconds("7"), None);
    }
}
