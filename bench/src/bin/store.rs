//! The SQLite store and plain tables at several sizes; see bench/README.md.
//!
//! ```text
//! store [--folder FOLDER] [--alone] [--comparison] [JOBS …]
//! ```
//!
//! `--alone` leaves out plain tables. `--comparison` measures only the rows that decide between the
//! two: load, sequential GET, and runs of other jobs each time. The report goes to standard output,
//! progress and the values of each tuning of plain tables to standard error.

use std::io;
use std::path::{Path, PathBuf};

use kalends_bench::store::report::{Size, write};
use kalends_bench::store::{Rows, kalends, plain};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut base, mut is_alone, mut rows) = (std::env::temp_dir(), false, Rows::All);
    let mut counts = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--folder" => base = arguments.next().map_or(base, PathBuf::from),
            "--alone" => is_alone = true,
            "--comparison" => rows = Rows::Comparison,
            count => counts.push(count.parse::<usize>()?),
        }
    }
    if counts.is_empty() {
        counts = vec![1_000, 100_000];
    }
    let mut sizes = Vec::new();
    for jobs in counts {
        let kalends = in_folder(&base, |folder| kalends::measure(folder, jobs, rows))?;
        let plain = match is_alone {
            true => vec![],
            false => in_folder(&base, |folder| plain::measure(folder, jobs, rows))?,
        };
        sizes.push(Size { jobs, kalends, plain });
    }
    Ok(write(io::stdout().lock(), &sizes)?)
}

/// Calls `work` with a new folder and removes the folder afterwards.
fn in_folder<T>(base: &Path, work: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let folder = base.join(format!("kalends-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let worked = work(&folder);
    std::fs::remove_dir_all(&folder)?;
    worked
}
