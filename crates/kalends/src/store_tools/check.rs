//! `kalends store check`: looks for damage.

use std::io::{self, Write as _};

use anyhow::bail;
use kalends_store::sqlite::inspect;

use crate::location::{Location, codec};

/// Look for damage: of the file, of rows that belong to nothing, of secrets that cannot be opened.
///
///   kalends store check --store sqlite:/var/lib/kalends/kalends.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: Location,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.location.file()?;
    let found = inspect(path, &codec(arguments.location.key()?))?;
    let mut output = io::stdout().lock();
    for line in &found {
        writeln!(output, "{line}")?;
    }
    match found.len() {
        0 => Ok(writeln!(output, "{}: nothing wrong", path.display())?),
        1 => bail!("1 thing is wrong with {}", path.display()),
        count => bail!("{count} things are wrong with {}", path.display()),
    }
}
