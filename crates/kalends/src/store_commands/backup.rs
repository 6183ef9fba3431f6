//! `kalends store backup`: writes a consistent copy of an SQLite store.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::bail;
use kalends_store::sqlite::back_up;

use crate::store_location::{Database, StoreLocation, codec};

/// Back up an SQLite store to a new file. For PostgreSQL use pg_dump
///
/// The copy is a consistent snapshot, also while a server writes to the store. It does not include
/// the encryption key: keep a copy of the key file in another place.
///
/// Example:
///   kalends store backup --store sqlite:kalends.db /backup/kalends.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: StoreLocation,

    /// File to create; must not exist
    to: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = match arguments.location.database()? {
        Database::Sqlite(path) => path,
        Database::Postgres(_) => bail!(
            "store backup copies SQLite stores; back up a PostgreSQL store with pg_dump, and keep a \
             copy of the key file in another place"
        ),
    };
    back_up(path, &codec(arguments.location.key()?), &arguments.to)?;
    let (from, to) = (path.display(), arguments.to.display());
    Ok(writeln!(io::stdout(), "{from} backed up to {to}, without the key file")?)
}
