//! `kalends store migrate`: copies a store into an empty one.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use kalends_store::postgres::PostgresTransfer;
use kalends_store::sqlite::SqliteTransfer;
use kalends_store::transfer::{Copied, TransferProgress, TransferStore, transfer};

use crate::store_commands::check::find_problems;
use crate::store_commands::progress::Progress;
use crate::store_location::{Database, StoreLocation, codec, create_directory_of};

/// Copy a store into an empty one, between SQLite and PostgreSQL or within one of them
///
/// Copies everything: resource groups, collections, jobs with their state, open runs, history, ledger
/// and tokens. No server may use either store. Afterwards compares the number of rows and a checksum
/// of every table and checks the new store; exits with an error if it differs, which must then be
/// dropped. Both stores have the same encryption key: start the server with the same key file.
///
/// Examples:
///   kalends store migrate --from sqlite:kalends.db --to postgres://kalends@db/kalends
///   kalends store migrate --from postgres://kalends@db/kalends --to sqlite:copy.db --key-file kalends.key
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Store to copy
    #[arg(long, value_name = "STORE")]
    from: String,

    /// Empty store to write; an SQLite file is created if it does not exist
    #[arg(long, value_name = "STORE")]
    to: String,

    /// File with the encryption key of the source [default: next to the SQLite file of --from, unless
    /// KALENDS_KEY contains the key]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { from, to, key_file } = arguments;
    let from = StoreLocation::new(from, key_file);
    let key_file = from.key_file().context("--from")?;
    let to = StoreLocation::new(to, key_file.clone());
    let (source, target) = (from.database().context("--from")?, to.database().context("--to")?);
    let key = from.key()?;
    if let Database::Sqlite(path) = target {
        create_directory_of(path)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let copied = runtime.block_on(async {
        let mut source: Box<dyn TransferStore> = match source {
            Database::Sqlite(path) => {
                let opened = SqliteTransfer::source(path, codec(key.clone()));
                Box::new(opened.context("cannot open the source")?)
            }
            Database::Postgres(url) => {
                let opened = PostgresTransfer::source(url, codec(key.clone())).await;
                Box::new(opened.context("cannot open the source")?)
            }
        };
        let target: Option<Box<dyn TransferStore>> = match target {
            Database::Sqlite(path) => {
                let opened = SqliteTransfer::target(path, codec(key));
                opened.context("cannot open the target")?.map(|store| Box::new(store) as _)
            }
            Database::Postgres(url) => {
                let opened = PostgresTransfer::target(url, codec(key)).await;
                opened.context("cannot open the target")?.map(|store| Box::new(store) as _)
            }
        };
        let Some(mut target) = target else { bail!("the target is not empty; nothing was copied") };
        copy(&mut *source, &mut *target).await
    })?;
    let problems = find_problems(&to)?;
    let mut output = io::stdout().lock();
    for problem in &problems {
        writeln!(output, "{problem}")?;
    }
    if !problems.is_empty() {
        bail!("the check of the target found {} problems; drop the target", problems.len());
    }
    for Copied { table, rows } in copied {
        writeln!(output, "{}: {rows}", table.name())?;
    }
    let key_file = key_file.map(|file| format!("; its key file is {}", file.display()));
    let (from, to) = (from.description()?, to.description()?);
    let key_file = key_file.unwrap_or_default();
    Ok(writeln!(output, "{from} copied to {to} and compared{key_file}")?)
}

async fn copy(
    source: &mut dyn TransferStore,
    target: &mut dyn TransferStore,
) -> anyhow::Result<Vec<Copied>> {
    let mut progress = Progress::new();
    let mut show = |step: TransferProgress| {
        let verb = if step.is_comparison { "compared" } else { "copied" };
        progress.show(&format!("{} {verb}", step.table.name()), step.rows);
    };
    let copied = transfer(source, target, &mut show).await;
    drop(progress);
    copied.context("the target is incomplete or wrong; drop it before you try again")
}
