//! The flags `--store` and `--key-file`, shared by all commands that open a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kalends_domain::SecretHeaders;
use kalends_environment::SystemEntropy;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::stored_form::DefinitionCodec;

use crate::master_key;

#[derive(clap::Args)]
pub(crate) struct StoreLocation {
    /// Store of jobs, history and tokens: sqlite:PATH for one node, or
    /// postgres://USER@HOST/DATABASE for several
    #[arg(
        long,
        env = "KALENDS_STORE",
        value_name = "STORE",
        default_value = "sqlite:kalends-data/kalends.db"
    )]
    pub(crate) store: String,

    /// File with the encryption key of the store; created for a new store [default: next to the
    /// SQLite file, unless KALENDS_KEY contains the key]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// The database that `--store` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database<'a> {
    /// Path of the file.
    Sqlite(&'a Path),
    /// Connection URL.
    Postgres(&'a str),
}

impl StoreLocation {
    pub(crate) fn new(store: String, key_file: Option<PathBuf>) -> StoreLocation {
        StoreLocation { store, key_file }
    }

    pub(crate) fn database(&self) -> anyhow::Result<Database<'_>> {
        if self.store.starts_with("postgres://") || self.store.starts_with("postgresql://") {
            return Ok(Database::Postgres(&self.store));
        }
        match self.store.strip_prefix("sqlite:") {
            Some("") | None => {
                bail!("--store must be sqlite:PATH or postgres://USER@HOST/DATABASE")
            }
            Some(path) => Ok(Database::Sqlite(Path::new(path))),
        }
    }

    /// The store for the log: path, or host and database without user and password.
    pub(crate) fn description(&self) -> anyhow::Result<String> {
        Ok(match self.database()? {
            Database::Sqlite(path) => format!("sqlite:{}", path.display()),
            Database::Postgres(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or_default();
                let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
                let place = place.split_once('?').map_or(place, |(place, _)| place);
                format!("{scheme}://{place}")
            }
        })
    }

    /// The key file; `None` if the environment contains the key.
    pub(crate) fn key_file(&self) -> anyhow::Result<Option<PathBuf>> {
        Ok(match self.database()? {
            Database::Sqlite(path) => master_key::file_of(path, self.key_file.as_deref()),
            Database::Postgres(_) => self.key_file.clone().filter(|_| master_key::is_in_file()),
        })
    }

    /// Key of an existing store.
    pub(crate) fn key(&self) -> anyhow::Result<MasterKey> {
        match self.database()? {
            Database::Sqlite(path) => master_key::read(path, self.key_file.as_deref()),
            Database::Postgres(_) => master_key::read_for_database(self.key_file.as_deref()),
        }
    }

    /// Key of a store that may not exist yet; creates the key of a new store.
    pub(crate) fn key_or_new(&self) -> anyhow::Result<MasterKey> {
        match self.database()? {
            Database::Sqlite(path) => master_key::read_or_create(path, self.key_file.as_deref()),
            Database::Postgres(_) => self.key(),
        }
    }
}

/// The codec of a command that writes no definitions.
pub(crate) fn codec(key: MasterKey) -> DefinitionCodec {
    codec_with(key, SecretHeaders::default())
}

/// The codec that encrypts and decrypts secrets with this key, also those of `secret_headers`.
pub(crate) fn codec_with(key: MasterKey, secret_headers: SecretHeaders) -> DefinitionCodec {
    DefinitionCodec::new(Cipher::new(key, vec![], Arc::new(SystemEntropy)), secret_headers)
}

/// Creates the directory of a file and its parents, for the owner only.
pub(crate) fn create_directory_of(file: &Path) -> anyhow::Result<()> {
    if let Some(directory) = file.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let created = builder.recursive(true).create(directory);
        created.with_context(|| format!("cannot create the directory {}", directory.display()))?;
    }
    Ok(())
}
