//! The key that secrets are sealed with: in a file beside the store, or in the environment.

use std::path::Path;

use anyhow::{Context as _, bail};
use kalends_domain::Secret;
use kalends_environment::SystemEntropy;
use kalends_store::KeyFile;
use kalends_store::encryption::MasterKey;

/// The environment variable that holds the key itself, for who keeps no key on disk.
const VARIABLE: &str = "KALENDS_KEY";

/// The key of a store. A new store gets a new key, in a file that only its owner can read; a store
/// that is there without its key is refused.
pub(crate) fn read_or_make(store: &Path, key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    match of_environment() {
        Some(key) => key,
        None => Ok(file(store, key_file).read_or_create(store, &SystemEntropy)?),
    }
}

/// The key of a store that is there.
pub(crate) fn read(store: &Path, key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    of_environment().unwrap_or_else(|| Ok(file(store, key_file).read()?))
}

/// The key of a database, which lies beside no file. A key file that is not there yet is made; a
/// database that was written with another key refuses it.
pub(crate) fn of_database(key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    match (of_environment(), key_file) {
        (Some(key), _) => key,
        (None, Some(path)) => {
            let nowhere = Path::new("");
            Ok(KeyFile::new(path.to_owned()).read_or_create(nowhere, &SystemEntropy)?)
        }
        (None, None) => bail!("a database needs --key-file, or its key in {VARIABLE}"),
    }
}

fn of_environment() -> Option<anyhow::Result<MasterKey>> {
    let text = std::env::var(VARIABLE).ok()?;
    Some(MasterKey::parse(&Secret::new(text)).context(VARIABLE))
}

fn file(store: &Path, key_file: Option<&Path>) -> KeyFile {
    key_file.map_or_else(|| KeyFile::beside(store), |path| KeyFile::new(path.to_owned()))
}
