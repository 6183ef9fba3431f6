//! Access to the tokens in a store without starting a server.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_environment::{Clock as _, SystemClock};
use kalends_recurrence::Instant;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::sqlite::{SqliteSettings, SqliteStore, SqliteTokens};
use kalends_store::{LeaseClock as _, Tokens};

use crate::store_location::{Database, StoreLocation, codec, create_directory_of};

#[derive(clap::Args)]
pub(crate) struct TokenStore {
    #[command(flatten)]
    location: StoreLocation,
}

/// The tokens of a store.
pub(crate) struct OpenTokens {
    pub(crate) tokens: Box<dyn Tokens>,
    /// The time by the clock that servers on this store follow: that of the database for PostgreSQL.
    pub(crate) now: Instant,
}

/// How to treat an SQLite file that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Fail,
}

impl TokenStore {
    pub(crate) async fn open(&self, if_missing: IfMissing) -> anyhow::Result<OpenTokens> {
        match self.location.database()? {
            Database::Postgres(url) => {
                let settings =
                    PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
                let codec = codec(self.location.key()?);
                let connected = PostgresStore::connect(url, settings, codec).await;
                let store = connected.context("cannot open the database")?;
                let now = store.now().await.context("cannot read the clock of the database")?;
                Ok(OpenTokens { tokens: Box::new(store), now })
            }
            Database::Sqlite(path) => {
                let tokens = self.open_sqlite(path, if_missing)?;
                Ok(OpenTokens { tokens, now: SystemClock.now().into() })
            }
        }
    }

    fn open_sqlite(&self, path: &Path, if_missing: IfMissing) -> anyhow::Result<Box<dyn Tokens>> {
        if if_missing == IfMissing::Fail && !path.is_file() {
            bail!("--store: there is no file {}", path.display());
        }
        create_directory_of(path)?;
        let key = || self.location.key_or_new().map(codec);
        if let Ok(tokens) = SqliteTokens::open(path, &key()?) {
            return Ok(Box::new(tokens));
        }
        // A new store, or one with an older schema: migrate it as a server would.
        let (settings, clock) = (SqliteSettings::default(), Arc::new(SystemClock));
        let opened = SqliteStore::open(path, settings, key()?, clock);
        Ok(Box::new(opened.with_context(|| format!("cannot open {}", path.display()))?))
    }
}
