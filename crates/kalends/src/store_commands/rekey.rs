//! `kalends store rekey`: rotates the encryption key of a store.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_domain::Secret;
use kalends_environment::SystemEntropy;
use kalends_store::KeyFile;
use kalends_store::encryption::MasterKey;
use kalends_store::key_rotation::{KeyRotation, Rotated, RotatingStore};
use kalends_store::postgres::PostgresKeyRotation;
use kalends_store::sqlite::SqliteKeyRotation;

use crate::derived_keys::PURPOSES;
use crate::store_commands::progress::Progress;
use crate::store_location::{Database, StoreLocation};

/// Environment variable that contains the new key in base64.
const NEW_KEY: &str = "KALENDS_NEW_KEY";

/// Rotate the encryption key of a store: encrypt every secret with a new key
///
/// No server may use the store. The command writes in batches; if it is interrupted, run it again with
/// both keys to finish it. Signing keys, tokens and cursors stay valid. Afterwards start all nodes with
/// the new key; the old one is no longer accepted. Backups from before need the old key.
///
/// Example:
///   kalends store rekey --store sqlite:kalends.db --new-key-file new.key && mv new.key kalends.db.key
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    location: StoreLocation,

    /// File with the new key; created with a random key if it does not exist [default: the key in
    /// KALENDS_NEW_KEY]
    #[arg(long, env = "KALENDS_NEW_KEY_FILE", value_name = "FILE")]
    new_key_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let old = arguments.location.key()?;
    let new = arguments.new_key()?;
    if old.id() == new.id() {
        bail!("the new key is the key of the store; give another one");
    }
    let id = new.id();
    let rotation = KeyRotation::new(old, new, Arc::new(SystemEntropy));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rotated = runtime.block_on(async {
        let mut store: Box<dyn RotatingStore> = match arguments.location.database()? {
            Database::Sqlite(path) => Box::new(SqliteKeyRotation::open(path, &rotation)?),
            Database::Postgres(url) => {
                Box::new(PostgresKeyRotation::connect(url, &rotation).await?)
            }
        };
        let mut progress = Progress::new();
        let mut show = |rows| progress.show("definitions encrypted with the new key", rows);
        let rotated = rotation.rotate(&mut *store, &PURPOSES, &mut show).await;
        drop(progress);
        anyhow::Ok(rotated?)
    })?;
    let store = arguments.location.description()?;
    let mut output = io::stdout();
    Ok(match rotated {
        Rotated::Before => writeln!(output, "{store} has the key {id} already"),
        Rotated::Now { definitions, resumed } => {
            let resumed = if resumed { ", after an interrupted rotation" } else { "" };
            writeln!(
                output,
                "{store} has the key {id} now: {definitions} definitions encrypted{resumed}"
            )
        }
    }?)
}

impl Arguments {
    fn new_key(&self) -> anyhow::Result<MasterKey> {
        match (&self.new_key_file, std::env::var(NEW_KEY)) {
            (Some(path), _) => {
                let no_store_file = Path::new("");
                Ok(KeyFile::new(path.clone()).read_or_create(no_store_file, &SystemEntropy)?)
            }
            (None, Ok(text)) => MasterKey::parse(&Secret::new(text)).context(NEW_KEY),
            (None, Err(_)) => bail!("give the new key with --new-key-file or in {NEW_KEY}"),
        }
    }
}
