//! Rotation of the master key: encrypts every secret with a new key.
//!
//! The rotation writes in batches and can be interrupted. It begins by storing a second key check, of the
//! new key; from then on the store opens only for the holder of both keys. Each ciphertext carries the id
//! of its key, so that a repeated rotation finds the definitions that are left. The last transaction
//! replaces the key check.
//!
//! Keys that were derived from the first master key, such as those of signatures, must not change: the
//! last transaction stores them, encrypted with the new key.

use std::collections::BTreeSet;
use std::sync::Arc;

use kalends_domain::SecretHeaders;
use kalends_environment::Entropy;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::encryption::{Cipher, MasterKey};
use crate::error::StoreError;
use crate::record::JobUid;
use crate::store::Reply;
use crate::stored_form::{DefinitionCodec, read_definition, write_definition};

/// Definitions that are read and written at a time.
pub(crate) const PAGE_ROWS: i64 = 50;
/// Jobs that an error names.
const UNREADABLE_MAX: usize = 20;

/// The old and the new key.
pub struct KeyRotation {
    old: MasterKey,
    new: MasterKey,
    entropy: Arc<dyn Entropy>,
}

/// The result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// The store had the new key already.
    Before,
    /// The store has the new key now; `resumed` after an interrupted rotation.
    Now {
        /// Definitions that this call encrypted again.
        definitions: u64,
        /// Whether an earlier call had begun the rotation.
        resumed: bool,
    },
}

/// A table with definitions of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionTable {
    /// The present definitions.
    Jobs,
    /// Those that edits replaced.
    Earlier,
}

impl DefinitionTable {
    const ALL: [DefinitionTable; 2] = [DefinitionTable::Jobs, DefinitionTable::Earlier];
}

/// A definition in the store.
pub struct StoredDefinition {
    /// Its number in its table.
    pub number: i64,
    /// Number of the job.
    pub job: i64,
    /// Context of its secrets.
    pub uid: JobUid,
    /// The stored form.
    pub text: String,
}

/// The ciphertexts of a known text that tell which keys a store needs.
pub struct KeyChecks {
    /// That of the key.
    pub current: Vec<u8>,
    /// That of the new key, while a rotation is unfinished.
    pub next: Option<Vec<u8>>,
}

/// A store whose key is rotated. No other process uses it.
pub trait RotatingStore: Send {
    /// Encrypts the known text.
    fn encrypt_check(&self, cipher: &Cipher) -> Result<Vec<u8>, StoreError>;

    /// Whether a cipher decrypts the known text.
    fn is_check_of(&self, cipher: &Cipher, check: &[u8]) -> bool;

    /// The stored key checks.
    fn key_checks(&mut self) -> Reply<'_, KeyChecks>;

    /// Stores the check of the new key.
    fn begin(&mut self, next: Vec<u8>) -> Reply<'_, ()>;

    /// The next definitions of a table by number.
    fn definitions(
        &mut self,
        table: DefinitionTable,
        after: i64,
    ) -> Reply<'_, Vec<StoredDefinition>>;

    /// Replaces definitions of a table in one transaction.
    fn replace(
        &mut self,
        table: DefinitionTable,
        definitions: Vec<StoredDefinition>,
    ) -> Reply<'_, ()>;

    /// The stored derived keys: purpose and ciphertext.
    fn derived_keys(&mut self) -> Reply<'_, Vec<(String, Vec<u8>)>>;

    /// Replaces the key check and the derived keys and removes the check of the new key, in one
    /// transaction.
    fn finish(&mut self, check: Vec<u8>, derived: Vec<(String, Vec<u8>)>) -> Reply<'_, ()>;
}

impl KeyRotation {
    /// A rotation from `old` to `new`. `entropy` provides the nonces.
    pub fn new(old: MasterKey, new: MasterKey, entropy: Arc<dyn Entropy>) -> KeyRotation {
        KeyRotation { old, new, entropy }
    }

    /// Decrypts with both keys, and encrypts with the old one.
    pub(crate) fn both(&self) -> Cipher {
        Cipher::new(self.old.clone(), vec![self.new.clone()], Arc::clone(&self.entropy))
    }

    fn only(&self, key: &MasterKey) -> Cipher {
        Cipher::new(key.clone(), vec![], Arc::clone(&self.entropy))
    }

    /// Encrypts with the new key, and decrypts with both.
    fn to_new(&self) -> Cipher {
        Cipher::new(self.new.clone(), vec![self.old.clone()], Arc::clone(&self.entropy))
    }

    /// Rotates the key of a store. `purposes` are those of the derived keys that must not change.
    /// `progress` is called with the number of definitions so far, after each transaction.
    pub async fn rotate(
        &self,
        store: &mut dyn RotatingStore,
        purposes: &[&str],
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Rotated, StoreError> {
        let (old, new) = (self.only(&self.old), self.only(&self.new));
        let KeyChecks { current, next } = store.key_checks().await?;
        let resumed = next.is_some();
        match &next {
            None if store.is_check_of(&new, &current) => return Ok(Rotated::Before),
            Some(next) if !store.is_check_of(&new, next) => {
                return Err(StoreError::Key(
                    "a rotation to another key is unfinished; finish it with that key".into(),
                ));
            }
            _ => {}
        }
        if !store.is_check_of(&old, &current) {
            let id = self.old.id();
            return Err(StoreError::Key(format!(
                "the store was written with another key than {id}"
            )));
        }
        self.check_readable(store).await?;
        if !resumed {
            store.begin(store.encrypt_check(&new)?).await?;
        }
        let definitions = self.rotate_definitions(store, progress).await?;
        let derived = self.rotate_derived(store.derived_keys().await?, purposes)?;
        store.finish(store.encrypt_check(&new)?, derived).await?;
        Ok(Rotated::Now { definitions, resumed })
    }

    /// Fails if a definition cannot be decrypted, before anything is changed.
    async fn check_readable(&self, store: &mut dyn RotatingStore) -> Result<(), StoreError> {
        let codec = DefinitionCodec::new(self.both(), SecretHeaders::default());
        for table in DefinitionTable::ALL {
            let (mut after, mut unreadable) = (i64::MIN, BTreeSet::new());
            loop {
                let page = store.definitions(table, after).await?;
                let Some(last) = page.last() else { break };
                after = last.number;
                for StoredDefinition { job, uid, text, .. } in &page {
                    let is_readable = read_definition(text, *uid, &codec).is_ok();
                    if !is_readable && unreadable.len() < UNREADABLE_MAX {
                        unreadable.insert(job.to_string());
                    }
                }
            }
            if !unreadable.is_empty() {
                let jobs = unreadable.into_iter().collect::<Vec<_>>().join(", ");
                return Err(StoreError::Damaged(match table {
                    DefinitionTable::Jobs => format!(
                        "jobs that cannot be decrypted: {jobs}; delete or replace them first"
                    ),
                    DefinitionTable::Earlier => format!(
                        "jobs with earlier definitions that cannot be decrypted: {jobs}; delete \
                         them first"
                    ),
                }));
            }
        }
        Ok(())
    }

    async fn rotate_definitions(
        &self,
        store: &mut dyn RotatingStore,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        let mut rotated = 0;
        for table in DefinitionTable::ALL {
            let mut after = i64::MIN;
            loop {
                let page = store.definitions(table, after).await?;
                let Some(last) = page.last() else { break };
                after = last.number;
                let changed = page.into_iter().map(|stored| self.rotate_definition(stored));
                let changed: Vec<_> =
                    changed.filter_map(Result::transpose).collect::<Result<_, _>>()?;
                if !changed.is_empty() {
                    rotated += changed.len() as u64;
                    store.replace(table, changed).await?;
                    progress(rotated);
                }
            }
        }
        Ok(rotated)
    }

    /// The definition with its secrets encrypted with the new key; `None` if they are already, or if
    /// there are none.
    fn rotate_definition(
        &self,
        stored: StoredDefinition,
    ) -> Result<Option<StoredDefinition>, StoreError> {
        let StoredDefinition { number, job, uid, text } = stored;
        let parsed: Value = serde_json::from_str(&text)
            .map_err(|error| StoreError::Damaged(format!("job {job}: {error}")))?;
        // Which headers are secret depends on a setting of the server: those that are encrypted stay so.
        let headers = SecretHeaders::new(encrypted_headers(&parsed));
        let new_only = DefinitionCodec::new(self.only(&self.new), headers.clone());
        if !has_ciphertext(&parsed) || read_definition(&text, uid, &new_only).is_ok() {
            return Ok(None);
        }
        let codec = DefinitionCodec::new(self.to_new(), headers);
        let definition = read_definition(&text, uid, &codec)?;
        let text = write_definition(&definition, uid, &codec)?;
        if read_definition(&text, uid, &new_only)? != definition {
            return Err(StoreError::Failed(format!("job {job} could not be encrypted again")));
        }
        Ok(Some(StoredDefinition { number, job, uid, text }))
    }

    fn rotate_derived(
        &self,
        stored: Vec<(String, Vec<u8>)>,
        purposes: &[&str],
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let (both, new) = (self.both(), self.only(&self.new));
        let purposes = purposes.iter().map(|purpose| {
            let found = stored.iter().find(|(name, _)| name == purpose);
            let key = match found {
                Some((_, ciphertext)) => decrypt_derived(&both, purpose, ciphertext)?,
                None => self.old.derive(purpose),
            };
            Ok(((*purpose).to_owned(), encrypt_derived(&new, purpose, &key)?))
        });
        purposes.collect()
    }
}

/// The key for `purpose`: the stored one, or one derived from the master key if that was never rotated.
pub(crate) fn derived_key(
    cipher: &Cipher,
    purpose: &str,
    stored: Option<&[u8]>,
) -> Result<Zeroizing<[u8; 32]>, StoreError> {
    match stored {
        Some(ciphertext) => decrypt_derived(cipher, purpose, ciphertext),
        None => Ok(cipher.current().derive(purpose)),
    }
}

fn context(purpose: &str) -> String {
    format!("derived key {purpose}")
}

fn encrypt_derived(cipher: &Cipher, purpose: &str, key: &[u8; 32]) -> Result<Vec<u8>, StoreError> {
    let text: Zeroizing<String> =
        Zeroizing::new(key.iter().map(|byte| format!("{byte:02x}")).collect());
    cipher.encrypt(&context(purpose), &text)
}

fn decrypt_derived(
    cipher: &Cipher,
    purpose: &str,
    ciphertext: &[u8],
) -> Result<Zeroizing<[u8; 32]>, StoreError> {
    let text = cipher.decrypt(&context(purpose), ciphertext)?;
    let damaged = || StoreError::Damaged(format!("the derived key of {purpose}"));
    let mut key = Zeroizing::new([0; 32]);
    if text.reveal().len() != 2 * key.len() {
        return Err(damaged());
    }
    for (index, byte) in key.iter_mut().enumerate() {
        let digits = text.reveal().get(2 * index..2 * index + 2).ok_or_else(damaged)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| damaged())?;
    }
    Ok(key)
}

fn is_ciphertext(value: &Value) -> bool {
    value.get("sealed").is_some_and(Value::is_string)
}

fn has_ciphertext(value: &Value) -> bool {
    is_ciphertext(value)
        || match value {
            Value::Object(members) => members.values().any(has_ciphertext),
            Value::Array(values) => values.iter().any(has_ciphertext),
            _ => false,
        }
}

/// Names of the encrypted headers of a stored definition: pairs of a name and a ciphertext.
fn encrypted_headers(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => match values.as_slice() {
            [Value::String(name), ciphertext] if is_ciphertext(ciphertext) => vec![name.clone()],
            values => values.iter().flat_map(encrypted_headers).collect(),
        },
        Value::Object(members) => members.values().flat_map(encrypted_headers).collect(),
        _ => Vec::new(),
    }
}
