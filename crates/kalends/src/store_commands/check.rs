//! `kalends store check`: verifies the integrity of a store.

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use kalends_store::AdminStore as _;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::sqlite::inspect;

use crate::store_location::{Database, StoreLocation, codec};

/// Verify the integrity of a store, also while a server uses it
///
/// Checks references between rows, counters, and that every secret can be decrypted; for SQLite also the
/// file. Prints one line for each problem and exits with an error if there are any.
///
/// Examples:
///   kalends store check --store sqlite:/var/lib/kalends/kalends.db
///   kalends store check --store postgres://kalends@db/kalends --key-file kalends.key
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: StoreLocation,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let location = &arguments.location;
    let problems = find_problems(location)?;
    let mut output = io::stdout().lock();
    for problem in &problems {
        writeln!(output, "{problem}")?;
    }
    let store = location.description()?;
    match problems.len() {
        0 => Ok(writeln!(output, "{store}: no problems found")?),
        1 => bail!("{store}: 1 problem found"),
        count => bail!("{store}: {count} problems found"),
    }
}

/// One line for each problem of a store.
pub(super) fn find_problems(location: &StoreLocation) -> anyhow::Result<Vec<String>> {
    let codec = codec(location.key()?);
    match location.database()? {
        Database::Sqlite(path) => Ok(inspect(path, &codec)?),
        Database::Postgres(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let settings =
                    PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
                let store = PostgresStore::connect(url, settings, codec).await;
                Ok(store.context("cannot open the database")?.check().await?)
            })
        }
    }
}
