//! Encryption of secrets at rest: AES-256-GCM with a key that is kept outside the store.
//!
//! A ciphertext carries the id of its key. Its context (job and member) is authenticated as
//! associated data, so an attacker who can write to the database cannot move a ciphertext to another
//! job or member.

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

/// The version of the ciphertext format, its first byte.
const FORMAT_VERSION: u8 = 1;
const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 8;

/// The encryption key of an installation.
#[derive(Clone)]
pub struct MasterKey {
    id: [u8; KEY_ID_BYTES],
    key: Arc<LessSafeKey>,
    derivation: hmac::Key,
}

impl MasterKey {
    /// A random key, and its text for the key file.
    pub fn generate(entropy: &dyn Entropy) -> Result<(MasterKey, Secret), StoreError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *bytes).map_err(|error| StoreError::Failed(error.to_string()))?;
        let text = Secret::new(STANDARD_NO_PAD.encode(*bytes));
        Ok((MasterKey::from_bytes(&*bytes)?, text))
    }

    /// Parses the text of a key: 32 bytes in base64, padding optional.
    pub fn parse(text: &Secret) -> Result<MasterKey, StoreError> {
        let trimmed = text.reveal().trim().trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(trimmed).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| StoreError::Key("the key is not base64".into()))?;
        MasterKey::from_bytes(&bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<MasterKey, StoreError> {
        let key = UnboundKey::new(&AES_256_GCM, bytes);
        let key = key.map_err(|_| StoreError::Key("the key does not have 32 bytes".into()))?;
        let mut id = [0; KEY_ID_BYTES];
        id.iter_mut().zip(digest(&SHA256, bytes).as_ref()).for_each(|(to, from)| *to = *from);
        let derivation = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Ok(MasterKey { id, key: Arc::new(LessSafeKey::new(key)), derivation })
    }

    /// Derives a key for `purpose`. The derived key does not reveal this one.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let mut derived = Zeroizing::new([0; 32]);
        let tag = hmac::sign(&self.derivation, purpose.as_bytes());
        derived.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        derived
    }

    /// A public identifier of the key: the first 8 bytes of its SHA-256 in hexadecimal.
    pub fn id(&self) -> String {
        self.id.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

/// Encrypts with the current key; decrypts with the current and older keys.
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
    /// A cipher that encrypts with `current` and also decrypts with `older` keys. `entropy` provides
    /// the nonces.
    pub fn new(current: MasterKey, older: Vec<MasterKey>, entropy: Arc<dyn Entropy>) -> Cipher {
        Cipher { current, older, entropy }
    }

    /// The key used for encryption.
    pub fn current(&self) -> &MasterKey {
        &self.current
    }

    /// Encrypts a text with a random nonce, bound to `context`.
    pub fn encrypt(&self, context: &str, text: &str) -> Result<Vec<u8>, StoreError> {
        let failed = || StoreError::Failed("cannot encrypt a secret".into());
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce).map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut ciphertext = text.as_bytes().to_vec();
        let aad = Aad::from(context.as_bytes());
        let unique = Nonce::assume_unique_for_key(nonce);
        self.current
            .key
            .seal_in_place_append_tag(unique, aad, &mut ciphertext)
            .map_err(|_| failed())?;
        let mut encrypted = vec![FORMAT_VERSION];
        encrypted.extend_from_slice(&self.current.id);
        encrypted.extend_from_slice(&nonce);
        encrypted.append(&mut ciphertext);
        Ok(encrypted)
    }

    /// Decrypts a text that was encrypted for `context`.
    pub fn decrypt(&self, context: &str, encrypted: &[u8]) -> Result<Secret, StoreError> {
        let damaged = |what: &str| StoreError::Damaged(format!("{what} ({context})"));
        let (version, rest) = encrypted.split_first().ok_or_else(|| damaged("an empty secret"))?;
        let (id, rest) =
            rest.split_at_checked(KEY_ID_BYTES).ok_or_else(|| damaged("a truncated secret"))?;
        let (nonce, text) =
            rest.split_at_checked(NONCE_LEN).ok_or_else(|| damaged("a truncated secret"))?;
        if *version != FORMAT_VERSION {
            return Err(damaged("a secret in an unknown format"));
        }
        let mut keys = std::iter::once(&self.current).chain(&self.older);
        let key = keys
            .find(|key| key.id == id)
            .ok_or_else(|| damaged("a secret encrypted with another key"))?;
        let nonce =
            Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged("a truncated secret"))?;
        let mut text = Zeroizing::new(text.to_vec());
        let decrypted = key.key.open_in_place(nonce, Aad::from(context.as_bytes()), &mut text);
        let decrypted = decrypted.map_err(|_| damaged("a secret that was modified or moved"))?;
        let decrypted =
            std::str::from_utf8(decrypted).map_err(|_| damaged("a secret that is not UTF-8"))?;
        Ok(Secret::new(decrypted.to_owned()))
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
    fn a_ciphertext_decrypts_in_its_own_context_only() {
        let cipher = cipher(1);
        let encrypted = cipher.encrypt("job 1 password", "canary").unwrap();
        assert!(!encrypted.windows(6).any(|bytes| bytes == b"canary"));
        assert_eq!(cipher.decrypt("job 1 password", &encrypted).unwrap().reveal(), "canary");
        assert!(matches!(
            cipher.decrypt("job 2 password", &encrypted),
            Err(StoreError::Damaged(_))
        ));
        assert_ne!(
            encrypted,
            cipher.encrypt("job 1 password", "canary").unwrap(),
            "a new nonce each time"
        );
    }

    #[test]
    fn every_modified_byte_and_every_truncation_is_detected() {
        let cipher = cipher(1);
        let encrypted = cipher.encrypt("here", "canary").unwrap();
        for index in 0..encrypted.len() {
            let mut modified = encrypted.clone();
            modified[index] ^= 1;
            assert!(cipher.decrypt("here", &modified).is_err(), "byte {index}");
            assert!(cipher.decrypt("here", &encrypted[..index]).is_err(), "truncated to {index}");
        }
    }

    #[test]
    fn older_keys_decrypt_and_unknown_ones_do_not() {
        let (old, new) = (cipher(1), cipher(2));
        let encrypted = old.encrypt("here", "canary").unwrap();
        assert!(
            matches!(new.decrypt("here", &encrypted), Err(StoreError::Damaged(text)) if text.contains("another key"))
        );
        let both = Cipher::new(new.current.clone(), vec![old.current.clone()], new.entropy.clone());
        assert_eq!(both.decrypt("here", &encrypted).unwrap().reveal(), "canary");
    }

    #[test]
    fn a_key_round_trips_as_text_and_is_not_printed() {
        let entropy = SeededEntropy::new(3);
        let (key, text) = MasterKey::generate(&entropy).unwrap();
        assert_eq!(MasterKey::parse(&text).unwrap().id(), key.id());
        assert!(!format!("{key:?}").contains(text.reveal()));
        for bad in ["", "x", "AAAA", "not base64!"] {
            assert!(MasterKey::parse(&Secret::new(bad.into())).is_err(), "{bad}");
        }
    }
}
