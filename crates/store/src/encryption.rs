//! Secrets at rest: AES-256-GCM under a key that lives outside the store.
//!
//! A sealed text names its key and is bound to its place (job and member), so that it cannot be
//! opened with another key, nor moved to another job by who can write to the database.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use kalends_domain::Secret;
use kalends_environment::Entropy;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hmac;
use zeroize::Zeroizing;

use crate::error::StoreError;

/// The form of a sealed text, its first byte.
const FORM: u8 = 1;
const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 8;

/// A key of an installation.
#[derive(Clone)]
pub struct MasterKey {
    id: [u8; KEY_ID_BYTES],
    key: Arc<LessSafeKey>,
    derivation: hmac::Key,
}

impl MasterKey {
    /// A new key, and its text for the key file.
    pub fn generate(entropy: &dyn Entropy) -> Result<(MasterKey, Secret), StoreError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *bytes).map_err(|error| StoreError::Failed(error.to_string()))?;
        let text = Secret::new(STANDARD_NO_PAD.encode(*bytes));
        Ok((MasterKey::from_bytes(&*bytes)?, text))
    }

    /// The key of a text: 32 bytes in base64.
    pub fn read(text: &Secret) -> Result<MasterKey, StoreError> {
        let trimmed = text.reveal().trim().trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(trimmed).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| StoreError::Damaged("the key is not base64".into()))?;
        MasterKey::from_bytes(&bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<MasterKey, StoreError> {
        let key = UnboundKey::new(&AES_256_GCM, bytes);
        let key = key.map_err(|_| StoreError::Damaged("the key has not 32 bytes".into()))?;
        let mut id = [0; KEY_ID_BYTES];
        id.iter_mut().zip(digest(&SHA256, bytes).as_ref()).for_each(|(to, from)| *to = *from);
        let derivation = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Ok(MasterKey { id, key: Arc::new(LessSafeKey::new(key)), derivation })
    }

    /// A key for another purpose, from which this one cannot be told.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let mut derived = Zeroizing::new([0; 32]);
        let tag = hmac::sign(&self.derivation, purpose.as_bytes());
        derived.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        derived
    }

    /// Tells keys apart without telling anything of them.
    pub fn id(&self) -> String {
        self.id.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

/// Seals with one key, and opens with it and with those that came before it.
#[derive(Clone)]
pub struct Cipher {
    current: MasterKey,
    older: Vec<MasterKey>,
    entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher({:?}, and {} older)", self.current, self.older.len())
    }
}

impl Cipher {
    /// Seals with `current`.
    pub fn new(current: MasterKey, older: Vec<MasterKey>, entropy: Arc<dyn Entropy>) -> Cipher {
        Cipher { current, older, entropy }
    }

    /// The key that is sealed with.
    pub fn current(&self) -> &MasterKey {
        &self.current
    }

    /// Seals a text for one place.
    pub fn seal(&self, place: &str, text: &str) -> Result<Vec<u8>, StoreError> {
        let failed = || StoreError::Failed("cannot seal a secret".into());
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce).map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut sealed = text.as_bytes().to_vec();
        let aad = Aad::from(place.as_bytes());
        let unique = Nonce::assume_unique_for_key(nonce);
        self.current
            .key
            .seal_in_place_append_tag(unique, aad, &mut sealed)
            .map_err(|_| failed())?;
        let mut whole = vec![FORM];
        whole.extend_from_slice(&self.current.id);
        whole.extend_from_slice(&nonce);
        whole.append(&mut sealed);
        Ok(whole)
    }

    /// Opens what was sealed for a place.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<Secret, StoreError> {
        let damaged = |what: &str| StoreError::Damaged(format!("{what} ({place})"));
        let (form, rest) = sealed.split_first().ok_or_else(|| damaged("an empty secret"))?;
        let (id, rest) =
            rest.split_at_checked(KEY_ID_BYTES).ok_or_else(|| damaged("a cut secret"))?;
        let (nonce, text) =
            rest.split_at_checked(NONCE_LEN).ok_or_else(|| damaged("a cut secret"))?;
        if *form != FORM {
            return Err(damaged("a secret of another form"));
        }
        let mut keys = std::iter::once(&self.current).chain(&self.older);
        let key =
            keys.find(|key| key.id == id).ok_or_else(|| damaged("a secret of another key"))?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged("a cut secret"))?;
        let mut text = Zeroizing::new(text.to_vec());
        let opened = key.key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut text);
        let opened = opened.map_err(|_| damaged("a secret that was changed or moved"))?;
        let opened =
            std::str::from_utf8(opened).map_err(|_| damaged("a secret that is no text"))?;
        Ok(Secret::new(opened.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    fn cipher(seed: u64) -> Cipher {
        let entropy = Arc::new(SeededEntropy::new(seed));
        let (key, _) = MasterKey::generate(&*entropy).unwrap();
        Cipher::new(key, vec![], entropy)
    }

    #[test]
    fn what_is_sealed_is_opened_at_its_place_only() {
        let cipher = cipher(1);
        let sealed = cipher.seal("job 1 password", "canary").unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"canary"));
        assert_eq!(cipher.open("job 1 password", &sealed).unwrap().reveal(), "canary");
        assert!(matches!(cipher.open("job 2 password", &sealed), Err(StoreError::Damaged(_))));
        assert_ne!(
            sealed,
            cipher.seal("job 1 password", "canary").unwrap(),
            "a new nonce each time"
        );
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let cipher = cipher(1);
        let sealed = cipher.seal("here", "canary").unwrap();
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(cipher.open("here", &changed).is_err(), "byte {index}");
            assert!(cipher.open("here", &sealed[..index]).is_err(), "cut at {index}");
        }
    }

    #[test]
    fn older_keys_open_and_foreign_ones_do_not() {
        let (old, new) = (cipher(1), cipher(2));
        let sealed = old.seal("here", "canary").unwrap();
        assert!(
            matches!(new.open("here", &sealed), Err(StoreError::Damaged(text)) if text.contains("another key"))
        );
        let both = Cipher::new(new.current.clone(), vec![old.current.clone()], new.entropy.clone());
        assert_eq!(both.open("here", &sealed).unwrap().reveal(), "canary");
    }

    #[test]
    fn a_key_survives_its_text_and_does_not_print() {
        let entropy = SeededEntropy::new(3);
        let (key, text) = MasterKey::generate(&entropy).unwrap();
        assert_eq!(MasterKey::read(&text).unwrap().id(), key.id());
        assert!(!format!("{key:?}").contains(text.reveal()));
        for bad in ["", "x", "AAAA", "not base64!"] {
            assert!(MasterKey::read(&Secret::new(bad.into())).is_err(), "{bad}");
        }
    }
}
