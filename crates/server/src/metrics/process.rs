//! Metrics of the process, read from `/proc`. On systems without it they are absent.

use kalends_metrics::Exposition;

/// Clock ticks per second of CPU time: `USER_HZ`, which is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(page: &mut Exposition, started: Option<jiff::Timestamp>) {
    page.gauge("kalends_build_info", "Version of the running binary")
        .value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    if let Some(started) = started {
        page.gauge("process_start_time_seconds", "Start time of the process in Unix seconds")
            .value(&[], started.as_millisecond() as f64 / 1000.0);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = resident_bytes(&status) {
        page.gauge("process_resident_memory_bytes", "Resident memory").value(&[], bytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // Reading the directory opens one more.
        page.gauge("process_open_fds", "Open file descriptors")
            .value(&[], files.count().saturating_sub(1));
    }
    let statistics = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = cpu_seconds(&statistics) {
        page.counter("process_cpu_seconds_total", "User and system CPU time").value(&[], seconds);
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// The sum of `utime` and `stime`, fields 14 and 15. Field 2, in parentheses, may contain spaces.
fn cpu_seconds(statistics: &str) -> Option<f64> {
    let (_, fields) = statistics.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(f64::from(user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(resident_bytes("VmHWM:\t  9 kB\nVmRSS:\t   12 kB\n"), Some(12_288));
        assert_eq!(resident_bytes(""), None);
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 99";
        assert_eq!(cpu_seconds(line), Some(2.0));
        assert_eq!(cpu_seconds("7"), None);
    }
}
