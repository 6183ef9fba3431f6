//! Where tokens are kept: the store of the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_environment::{SystemClock, SystemEntropy};
use kalends_store::Tokens;
use kalends_store::form::Keeper;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::seal::{MasterKey, Sealer};
use kalends_store::sqlite::{SqliteSettings, SqliteStore, SqliteTokens};

use crate::key;

#[derive(clap::Args)]
pub(crate) struct Book {
    /// The store: sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        env = "KALENDS_STORE",
        value_name = "STORE",
        default_value = "sqlite:kalends-data/kalends.db"
    )]
    store: String,

    /// The file with the key of the store [default: beside an SQLite store, unless KALENDS_KEY holds
    /// the key itself]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// What becomes of a store that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    Make,
    Refuse,
}

impl Book {
    /// The tokens of the store.
    pub(crate) async fn open(&self, absent: IfAbsent) -> anyhow::Result<Box<dyn Tokens>> {
        if self.store.starts_with("postgres://") || self.store.starts_with("postgresql://") {
            let keeper = keeper(key::of_database(self.key_file.as_deref())?);
            let settings = PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
            let connected = PostgresStore::connect(&self.store, settings, keeper).await;
            return Ok(Box::new(connected.context("cannot open the database")?));
        }
        match self.store.strip_prefix("sqlite:") {
            Some("") | None => {
                bail!("--store: expected sqlite:PATH or postgres://USER@HOST/DATABASE")
            }
            Some(path) => self.open_file(Path::new(path), absent),
        }
    }

    fn open_file(&self, path: &Path, absent: IfAbsent) -> anyhow::Result<Box<dyn Tokens>> {
        if absent == IfAbsent::Refuse && !path.is_file() {
            bail!("there is no file {}", path.display());
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = std::fs::create_dir_all(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let key = || key::read_or_make(path, self.key_file.as_deref()).map(keeper);
        if let Ok(tokens) = SqliteTokens::open(path, &key()?) {
            return Ok(Box::new(tokens));
        }
        // A store that is not there yet, or of an older form, is made ready as a server would.
        let (settings, clock) = (SqliteSettings::default(), Arc::new(SystemClock));
        let opened = SqliteStore::open(path, settings, key()?, clock);
        Ok(Box::new(opened.with_context(|| format!("cannot open {}", path.display()))?))
    }
}

fn keeper(key: MasterKey) -> Keeper {
    Keeper::new(Sealer::new(key, vec![], Arc::new(SystemEntropy)), &[])
}
