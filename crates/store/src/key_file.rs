//! The key file: holds the encryption key of an installation outside the store.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use kalends_domain::Secret;
use kalends_environment::Entropy;

use crate::encryption::MasterKey;
use crate::error::StoreError;

/// Maximum size. A key has 43 characters, so a much larger file is not a key file.
const KEY_FILE_BYTES_MAX: u64 = 1024;

/// A file with one key in base64. New files are readable by their owner only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The key file at `path`, which need not exist.
    pub fn new(path: PathBuf) -> KeyFile {
        KeyFile { path }
    }

    /// The default key file of a store: its path with `.key` appended.
    pub fn beside(store: &Path) -> KeyFile {
        let mut name = OsString::from(store);
        name.push(".key");
        KeyFile { path: name.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the key. [`StoreError::Key`] if the file is missing or holds no key.
    pub fn read(&self) -> Result<MasterKey, StoreError> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => {
                StoreError::Key(format!("there is no key file {}", self.path.display()))
            }
            _ => self.failed(&error),
        };
        if fs::metadata(&self.path).map_err(failed)?.len() > KEY_FILE_BYTES_MAX {
            let message = format!("{} is not a key file: it is too large", self.path.display());
            return Err(StoreError::Key(message));
        }
        MasterKey::parse(&Secret::new(fs::read_to_string(&self.path).map_err(failed)?))
    }

    /// Reads the key, or creates the file with a new key if neither it nor `store` exists. For an
    /// existing store a missing key is an error: a new key could not decrypt its secrets.
    pub fn read_or_create(
        &self,
        store: &Path,
        entropy: &dyn Entropy,
    ) -> Result<MasterKey, StoreError> {
        match self.path.exists() || store.exists() {
            true => self.read(),
            false => self.create(entropy),
        }
    }

    fn create(&self, entropy: &dyn Entropy) -> Result<MasterKey, StoreError> {
        let (key, text) = MasterKey::generate(entropy)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&self.path).and_then(|mut file| {
            writeln!(file, "{}", text.reveal())?;
            file.sync_all()
        });
        written.map_err(|error| self.failed(&error))?;
        Ok(key)
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::Failed(format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn a_key_is_created_once_and_then_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("kalends.db");
        let file = KeyFile::beside(&store);
        assert_eq!(file.path(), folder.path().join("kalends.db.key"));
        let created = file.read_or_create(&store, &SeededEntropy::new(1)).unwrap();
        fs::write(&store, "").unwrap();
        let read = file.read_or_create(&store, &SeededEntropy::new(2)).unwrap();
        assert_eq!(created.id(), read.id());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(file.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn an_existing_store_is_not_given_a_new_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("kalends.db");
        fs::write(&store, "").unwrap();
        let file = KeyFile::beside(&store);
        let error = file.read_or_create(&store, &SeededEntropy::new(1)).unwrap_err();
        assert!(matches!(error, StoreError::Key(text) if text.contains("there is no key")));
        assert!(!file.path().exists());
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(folder.path().join("key"));
        for text in ["", "secret", &"x".repeat(2_000)] {
            fs::write(file.path(), text).unwrap();
            assert!(matches!(file.read(), Err(StoreError::Key(_))), "{text}");
        }
    }
}
