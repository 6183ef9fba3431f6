//! Which store, and with which key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use kalends_environment::SystemEntropy;
use kalends_store::form::Keeper;
use kalends_store::seal::Sealer;

use crate::key;

#[derive(clap::Args)]
pub(crate) struct Location {
    /// The store: sqlite:PATH
    #[arg(
        long,
        env = "KALENDS_STORE",
        value_name = "STORE",
        default_value = "sqlite:kalends-data/kalends.db"
    )]
    store: String,

    /// The file with the key of the store [default: beside the store, unless KALENDS_KEY holds the
    /// key itself]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Location {
    /// The file of the store.
    pub(crate) fn path(&self) -> anyhow::Result<&Path> {
        match self.store.strip_prefix("sqlite:") {
            Some("") | None => bail!("--store {}: expected sqlite:PATH", self.store),
            Some(path) => Ok(Path::new(path)),
        }
    }

    /// What opens its secrets.
    pub(crate) fn keeper(&self) -> anyhow::Result<Keeper> {
        let key = key::read(self.path()?, self.key_file.as_deref())?;
        Ok(Keeper::new(Sealer::new(key, vec![], Arc::new(SystemEntropy)), &[]))
    }
}
