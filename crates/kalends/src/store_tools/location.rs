//! Which store, and with which key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use kalends_domain::Secret;
use kalends_environment::SystemEntropy;
use kalends_store::KeyFile;
use kalends_store::form::Keeper;
use kalends_store::seal::{MasterKey, Sealer};

#[derive(clap::Args)]
pub(crate) struct Location {
    /// The store: sqlite:PATH
    #[arg(long, value_name = "STORE", env = "KALENDS_STORE")]
    store: String,

    /// The file with the key of the store [default: PATH.key, unless KALENDS_KEY holds the key
    /// itself]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Location {
    /// The file of the store.
    pub(crate) fn path(&self) -> anyhow::Result<&Path> {
        match self.store.strip_prefix("sqlite:") {
            Some("") | None => bail!("expected sqlite:PATH, not {:?}", self.store),
            Some(path) => Ok(Path::new(path)),
        }
    }

    /// What opens its secrets.
    pub(crate) fn keeper(&self) -> anyhow::Result<Keeper> {
        let key = match (&self.key_file, std::env::var("KALENDS_KEY")) {
            (Some(file), _) => KeyFile::new(file.clone()).read()?,
            (None, Ok(text)) => MasterKey::read(&Secret::new(text)).context("KALENDS_KEY")?,
            (None, Err(_)) => KeyFile::beside(self.path()?).read()?,
        };
        Ok(Keeper::new(Sealer::new(key, vec![], Arc::new(SystemEntropy)), &[]))
    }
}
