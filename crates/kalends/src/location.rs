//! Where everything is kept, and with which key: the same flags for all commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_environment::SystemEntropy;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::stored_form::DefinitionCodec;

use crate::key;

#[derive(clap::Args)]
pub(crate) struct Location {
    /// Where everything is kept: sqlite:PATH, or postgres://USER@HOST/DATABASE for several nodes
    #[arg(
        long,
        env = "KALENDS_STORE",
        value_name = "STORE",
        default_value = "sqlite:kalends-data/kalends.db"
    )]
    pub(crate) store: String,

    /// The file with the key that secrets are sealed with [default: beside an SQLite store, unless
    /// KALENDS_KEY holds the key itself]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// What a store is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept<'a> {
    File(&'a Path),
    Database(&'a str),
}

impl Location {
    /// What the store is kept in.
    pub(crate) fn kept(&self) -> anyhow::Result<Kept<'_>> {
        if self.store.starts_with("postgres://") || self.store.starts_with("postgresql://") {
            return Ok(Kept::Database(&self.store));
        }
        match self.store.strip_prefix("sqlite:") {
            Some("") | None => {
                bail!("--store: expected sqlite:PATH or postgres://USER@HOST/DATABASE")
            }
            Some(path) => Ok(Kept::File(Path::new(path))),
        }
    }

    /// The file of a store that must be one.
    pub(crate) fn file(&self) -> anyhow::Result<&Path> {
        match self.kept() {
            Ok(Kept::File(path)) => Ok(path),
            _ => bail!("--store {}: expected sqlite:PATH", self.store),
        }
    }

    /// The key of a store that is there.
    pub(crate) fn key(&self) -> anyhow::Result<MasterKey> {
        match self.kept()? {
            Kept::File(path) => key::read(path, self.key_file.as_deref()),
            Kept::Database(_) => key::of_database(self.key_file.as_deref()),
        }
    }

    /// The key of a store that may not be there yet.
    pub(crate) fn key_or_new(&self) -> anyhow::Result<MasterKey> {
        match self.kept()? {
            Kept::File(path) => key::read_or_make(path, self.key_file.as_deref()),
            Kept::Database(_) => self.key(),
        }
    }
}

/// What opens the secrets of a store.
pub(crate) fn codec(key: MasterKey) -> DefinitionCodec {
    DefinitionCodec::new(Cipher::new(key, vec![], Arc::new(SystemEntropy)), &[])
}

/// Makes the folder that a file is to be in.
pub(crate) fn make_folder(file: &Path) -> anyhow::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    Ok(())
}
