//! Where tokens are kept: the store of the server.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_environment::SystemClock;
use kalends_store::Tokens;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::sqlite::{SqliteSettings, SqliteStore, SqliteTokens};

use crate::location::{Kept, Location, codec, make_folder};

#[derive(clap::Args)]
pub(crate) struct Book {
    #[command(flatten)]
    location: Location,
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
        match self.location.kept()? {
            Kept::Database(url) => {
                let settings =
                    PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
                let codec = codec(self.location.key()?);
                let connected = PostgresStore::connect(url, settings, codec).await;
                Ok(Box::new(connected.context("cannot open the database")?))
            }
            Kept::File(path) => self.open_file(path, absent),
        }
    }

    fn open_file(&self, path: &Path, absent: IfAbsent) -> anyhow::Result<Box<dyn Tokens>> {
        if absent == IfAbsent::Refuse && !path.is_file() {
            bail!("there is no file {}", path.display());
        }
        make_folder(path)?;
        let key = || self.location.key_or_new().map(codec);
        if let Ok(tokens) = SqliteTokens::open(path, &key()?) {
            return Ok(Box::new(tokens));
        }
        // A store that is not there yet, or of an older form, is made ready as a server would.
        let (settings, clock) = (SqliteSettings::default(), Arc::new(SystemClock));
        let opened = SqliteStore::open(path, settings, key()?, clock);
        Ok(Box::new(opened.with_context(|| format!("cannot open {}", path.display()))?))
    }
}
