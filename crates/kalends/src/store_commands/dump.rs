//! `kalends store dump`: prints the contents of a store, or writes a copy to read with SQL.

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kalends_store::DumpError;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::sqlite::{dump, dump_to};

use crate::store_location::{Database, StoreLocation, codec};

/// Print the contents of a store as JSON lines
///
/// Prints one object for each collection, job, open run, attempt (history), ledger row and note, as of one
/// moment. Job definitions and secrets are not included. With --to, writes an SQLite file instead,
/// whose views v_collections, v_jobs, v_runs, v_history, v_ledger and v_notes have the same contents.
///
/// Examples:
///   kalends store dump --store sqlite:kalends.db | jq 'select(.kind == "run")'
///   kalends store dump --store sqlite:kalends.db --to copy.db && sqlite3 copy.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: StoreLocation,

    /// SQLite file to create instead of printing; must not exist. Not for PostgreSQL stores
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let location = &arguments.location;
    match (location.database()?, &arguments.to) {
        (Database::Sqlite(path), Some(to)) => {
            dump_to(path, codec(location.key()?), to)?;
            let (from, to) = (path.display(), to.display());
            Ok(writeln!(io::stdout(), "{from} dumped to {to}, without the key file")?)
        }
        (Database::Sqlite(path), None) => print_sqlite(location, path),
        (Database::Postgres(_), Some(_)) => bail!("--to requires --store sqlite:PATH"),
        (Database::Postgres(url), None) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(print_postgres(location, url))
        }
    }
}

fn print_sqlite(location: &StoreLocation, path: &Path) -> anyhow::Result<()> {
    let mut output = BufWriter::new(io::stdout());
    let dumped = dump(path, codec(location.key()?), &mut |line| writeln!(output, "{line}"));
    dumped.map_err(underlying)?;
    Ok(output.flush()?)
}

async fn print_postgres(location: &StoreLocation, url: &str) -> anyhow::Result<()> {
    let settings = PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
    let store = PostgresStore::connect(url, settings, codec(location.key()?)).await;
    let store = store.context("cannot open the database")?;
    let mut output = BufWriter::new(io::stdout());
    let dumped = store.dump(&mut |line| writeln!(output, "{line}")).await;
    dumped.map_err(underlying)?;
    Ok(output.flush()?)
}

/// The error itself: a closed pipe is not reported.
fn underlying(error: DumpError) -> anyhow::Error {
    match error {
        DumpError::Store(error) => error.into(),
        DumpError::Output(error) => error.into(),
    }
}
