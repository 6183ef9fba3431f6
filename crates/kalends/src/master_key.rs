//! The encryption key of a store: from a key file or from the environment.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kalends_domain::Secret;
use kalends_environment::SystemEntropy;
use kalends_store::KeyFile;
use kalends_store::encryption::MasterKey;

/// Environment variable that contains the key in base64, for installations without a key on disk.
const VARIABLE: &str = "KALENDS_KEY";

/// Reads the key of an SQLite store. A new store gets a new key, in a file that only its owner can
/// read; an existing store without its key file is an error.
pub(crate) fn read_or_create(store: &Path, key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    match from_environment() {
        Some(key) => key,
        None => Ok(file(store, key_file).read_or_create(store, &SystemEntropy)?),
    }
}

/// Reads the key of an existing SQLite store.
pub(crate) fn read(store: &Path, key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    from_environment().unwrap_or_else(|| Ok(file(store, key_file).read()?))
}

/// Reads the key of a PostgreSQL database. Creates the key file if it is missing; a database that
/// was written with another key rejects the new key when it is opened.
pub(crate) fn read_for_database(key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    match (from_environment(), key_file) {
        (Some(key), _) => key,
        (None, Some(path)) => {
            let no_store_file = Path::new("");
            Ok(KeyFile::new(path.to_owned()).read_or_create(no_store_file, &SystemEntropy)?)
        }
        (None, None) => bail!("a PostgreSQL store needs --key-file, or its key in {VARIABLE}"),
    }
}

/// The key file of an SQLite store; `None` if the environment contains the key.
pub(crate) fn file_of(store: &Path, key_file: Option<&Path>) -> Option<PathBuf> {
    is_in_file().then(|| file(store, key_file).path().to_owned())
}

/// Whether the key is in a file and not in the environment.
pub(crate) fn is_in_file() -> bool {
    std::env::var_os(VARIABLE).is_none()
}

fn from_environment() -> Option<anyhow::Result<MasterKey>> {
    let text = std::env::var(VARIABLE).ok()?;
    Some(MasterKey::parse(&Secret::new(text)).context(VARIABLE))
}

fn file(store: &Path, key_file: Option<&Path>) -> KeyFile {
    key_file.map_or_else(|| KeyFile::beside(store), |path| KeyFile::new(path.to_owned()))
}
