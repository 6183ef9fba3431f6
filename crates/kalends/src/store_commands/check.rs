//! `kalends store check`: verifies the integrity of an SQLite store.

use std::io::{self, Write as _};

use anyhow::bail;
use kalends_store::sqlite::inspect;

use crate::store_location::{StoreLocation, codec};

/// Verify the integrity of an SQLite store
///
/// Checks the file, references between rows, and that every secret can be decrypted. Prints one
/// line for each problem and exits with an error if there are any.
///
/// Example:
///   kalends store check --store sqlite:/var/lib/kalends/kalends.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: StoreLocation,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.location.sqlite_path()?;
    let problems = inspect(path, &codec(arguments.location.key()?))?;
    let mut output = io::stdout().lock();
    for problem in &problems {
        writeln!(output, "{problem}")?;
    }
    match problems.len() {
        0 => Ok(writeln!(output, "{}: no problems found", path.display())?),
        1 => bail!("{}: 1 problem found", path.display()),
        count => bail!("{}: {count} problems found", path.display()),
    }
}
