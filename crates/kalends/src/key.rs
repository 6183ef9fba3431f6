//! The key that secrets are sealed with: in a file beside the store, or in the environment.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kalends_domain::Secret;
use kalends_environment::SystemEntropy;
use kalends_store::seal::MasterKey;

/// The environment variable that holds the key itself, for who keeps no key on disk.
const VARIABLE: &str = "KALENDS_KEY";

/// The key of a store. A new store gets a new key, in a file that only its owner can read; a store
/// that is there without its key is refused.
pub(crate) fn read_or_make(store: &Path, key_file: Option<&Path>) -> anyhow::Result<MasterKey> {
    if let Ok(text) = std::env::var(VARIABLE) {
        return MasterKey::read(&Secret::new(text)).with_context(|| VARIABLE);
    }
    let path = key_file.map_or_else(|| beside(store), Path::to_owned);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let key = MasterKey::read(&Secret::new(text));
            key.with_context(|| format!("the key file {}", path.display()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if store.exists() {
                bail!(
                    "the store {} is there, and its key file {} is not",
                    store.display(),
                    path.display()
                );
            }
            make(&path).with_context(|| format!("cannot make the key file {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("the key file {}", path.display())),
    }
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".key");
    name.into()
}

fn make(path: &Path) -> anyhow::Result<MasterKey> {
    let (key, text) = MasterKey::generate(&SystemEntropy)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.reveal().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    Ok(key)
}
