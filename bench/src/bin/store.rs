//! The store at several sizes; see bench/README.md.
//!
//! ```text
//! store [--folder FOLDER] [--alone] [JOBS …]
//! ```
//!
//! With `--alone`, without the comparison with plain SQL.

use std::io;
use std::path::{Path, PathBuf};

use kalends_bench::store::report::{Size, write};
use kalends_bench::store::{floor, kalends};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut base = std::env::temp_dir();
    if arguments.next_if(|argument| argument == "--folder").is_some() {
        base = arguments.next().map_or(base, PathBuf::from);
    }
    let is_alone = arguments.next_if(|argument| argument == "--alone").is_some();
    let mut counts = arguments.map(|text| text.parse()).collect::<Result<Vec<usize>, _>>()?;
    if counts.is_empty() {
        counts = vec![1_000, 100_000];
    }
    let mut sizes = Vec::new();
    for jobs in counts {
        let floor = match is_alone {
            true => vec![],
            false => in_folder(&base, |folder| floor::measure(folder, jobs))?,
        };
        let kalends = in_folder(&base, |folder| kalends::measure(folder, jobs))?;
        sizes.push(Size { jobs, kalends, floor });
    }
    Ok(write(io::stdout().lock(), &sizes)?)
}

/// Runs `work` in a temporary directory.
fn in_folder<T>(base: &Path, work: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let folder = base.join(format!("kalends-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let worked = work(&folder);
    std::fs::remove_dir_all(&folder)?;
    worked
}
