//! `kalends store backup`: copies a store.

use std::io::{self, Write as _};
use std::path::PathBuf;

use kalends_store::sqlite::back_up;

use crate::location::{Location, codec};

/// Copy a store to a file that is not there yet. The copy is whole and of one moment, also while a
/// server writes. The key is not in it: keep a copy of the key file elsewhere.
///
///   kalends store backup --store sqlite:kalends.db /backup/kalends.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: Location,

    /// The file to make
    to: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.location.file()?;
    back_up(path, &codec(arguments.location.key()?), &arguments.to)?;
    let (from, to) = (path.display(), arguments.to.display());
    Ok(writeln!(io::stdout(), "{from} copied to {to}; the key is not in it")?)
}
