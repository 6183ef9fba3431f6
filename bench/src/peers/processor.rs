//! Processor time of processes.

use std::collections::HashMap;

use anyhow::Context as _;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// `/proc` counts in hundredths of a second.
const TICKS: f64 = 100.0;

/// Processor time in seconds of a process and its descendants, including those that have exited.
pub fn seconds_of_tree(root: u32) -> anyhow::Result<f64> {
    let mut children: HashMap<u32, Vec<(u32, f64)>> = HashMap::new();
    let mut total = None;
    for entry in std::fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may exit meanwhile; its parent then has its time.
        let Some((parent, seconds)) = stat(id) else { continue };
        if id == root {
            total = Some(seconds);
        }
        children.entry(parent).or_default().push((id, seconds));
    }
    let mut total = total.context("the process has exited")?;
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        for (child, seconds) in children.remove(&process).unwrap_or_default() {
            total += seconds;
            open.push(child);
        }
    }
    Ok(total)
}

/// Parent of a process, and its processor time with that of the children that it waited for. That of the
/// process is exact; `/proc` counts it in ticks, which are long beside a burst.
fn stat(process: u32) -> Option<(u32, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit(')').next()?.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<f64>().ok();
    let of_children = (number(13)? + number(14)?) / TICKS;
    let id = Pid::from_raw(process.try_into().ok()?);
    let time = clock_getcpuclockid(id).ok()?.now().ok()?;
    let seconds = time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9;
    Some((fields.get(1)?.parse().ok()?, seconds + of_children))
}

/// Parent of a process.
pub fn parent_of(process: u32) -> Option<u32> {
    stat(process).map(|(parent, _)| parent)
}
