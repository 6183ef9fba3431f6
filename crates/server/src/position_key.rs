//! Opaque positions: the cursors of lists and the ids of events.
//!
//! A position contains numbers that the store counts over all collections, and would show how much
//! others do. It is therefore encrypted, and valid in the context that it was issued for only. Equal
//! positions have different texts, so that a client cannot tell whether anything happened in between.
//! The cookie of a sign-in at an identity provider is protected in the same way.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_environment::Entropy;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

/// Bytes of the salt from which the key of a position is derived.
const SALT_BYTES: usize = 16;
/// Characters of a text that is decrypted at most. The longest is the cookie of a sign-in with the
/// URL of a page.
const TEXT_CHARS_MAX: usize = 1_024;

/// The key that encrypts positions. All nodes have the same, also after a restart, so that a client
/// can continue anywhere.
#[derive(Clone)]
pub struct PositionKey {
    salts: hmac::Key,
    keys: hmac::Key,
    pseudonyms: hmac::Key,
}

impl PositionKey {
    /// Derives the key from a secret.
    pub fn new(secret: &[u8; 32]) -> PositionKey {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derive = |purpose: &str| {
            let derived = hmac::sign(&root, purpose.as_bytes());
            hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
        };
        PositionKey { salts: derive("salts"), keys: derive("keys"), pseudonyms: derive("numbers") }
    }

    /// Encrypts a position for a context.
    pub(crate) fn encrypt(&self, context: &str, position: &[u8], entropy: &dyn Entropy) -> String {
        let mut random = [0; SALT_BYTES];
        // Without entropy, salts still differ between positions.
        let _ = entropy.fill(&mut random);
        let mut salt = hmac::Context::with_key(&self.salts);
        [&random, context.as_bytes(), &[0], position].iter().for_each(|part| salt.update(part));
        let mut text: Vec<u8> = salt.sign().as_ref().iter().copied().take(SALT_BYTES).collect();
        let mut encrypted = position.to_vec();
        let key = self.key(&text);
        let sealed = key
            .map(|key| key.seal_in_place_append_tag(nonce(), Aad::from(context), &mut encrypted));
        // Fails only for positions of gigabytes.
        if let Some(Ok(())) = sealed {
            text.extend(encrypted);
        }
        URL_SAFE_NO_PAD.encode(text)
    }

    /// The position in a text, if it was issued for this context.
    pub(crate) fn decrypt(&self, context: &str, text: &str) -> Option<Vec<u8>> {
        if text.len() > TEXT_CHARS_MAX {
            return None;
        }
        let text = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (salt, encrypted) = text.split_at_checked(SALT_BYTES)?;
        let mut position = encrypted.to_vec();
        let opened = self.key(salt)?.open_in_place(nonce(), Aad::from(context), &mut position);
        opened.ok().map(|position| position.to_vec())
    }

    /// A number that stands for another one and does not reveal it. Fits into an `i64`.
    pub(crate) fn pseudonym(&self, number: u64) -> u64 {
        let tag = hmac::sign(&self.pseudonyms, &number.to_be_bytes());
        let first = tag.as_ref().first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(first) >> 1
    }

    /// The key of the position with this salt.
    fn key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let key = hmac::sign(&self.keys, salt);
        UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).ok().map(LessSafeKey::new)
    }
}

/// Each key encrypts a single position.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl fmt::Debug for PositionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PositionKey")
    }
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn a_position_is_readable_in_its_context_only() {
        let (key, entropy) = (PositionKey::new(&[1; 32]), SeededEntropy::new(1));
        let text = key.encrypt("jobs", b"nightly", &entropy);
        assert_eq!(key.decrypt("jobs", &text).as_deref(), Some(&b"nightly"[..]));
        assert_eq!(key.decrypt("history", &text), None);
        assert_eq!(PositionKey::new(&[2; 32]).decrypt("jobs", &text), None);
        let again = PositionKey::new(&[1; 32]).decrypt("jobs", &text);
        assert_eq!(again.as_deref(), Some(&b"nightly"[..]), "after a restart");
        let (mut flipped, last) = (URL_SAFE_NO_PAD.decode(&text).unwrap(), text.len() - 1);
        for index in 0..flipped.len() {
            flipped[index] ^= 1;
            assert_eq!(key.decrypt("jobs", &URL_SAFE_NO_PAD.encode(&flipped)), None, "{index}");
            flipped[index] ^= 1;
        }
        let long = "A".repeat(TEXT_CHARS_MAX + 1);
        for bad in ["", "x", "!", "1-2", &text[1..], &text[..last], &format!("{text}A"), &long] {
            assert_eq!(key.decrypt("jobs", bad), None, "{bad}");
        }
    }

    #[test]
    fn equal_positions_have_different_texts_of_the_same_length() {
        let (key, entropy) = (PositionKey::new(&[1; 32]), SeededEntropy::new(1));
        let texts = [(); 2].map(|()| key.encrypt("events", &7_u128.to_be_bytes(), &entropy));
        assert_ne!(texts[0], texts[1]);
        assert!(texts.iter().all(|text| text.len() == 64), "{texts:?}");
    }

    #[test]
    fn pseudonyms_are_stable_and_distinct() {
        let key = PositionKey::new(&[1; 32]);
        let found: std::collections::BTreeSet<_> = (0..1_000).map(|n| key.pseudonym(n)).collect();
        assert_eq!(found.len(), 1_000);
        assert!(found.iter().all(|number| *number <= i64::MAX as u64));
        assert_eq!(key.pseudonym(7), PositionKey::new(&[1; 32]).pseudonym(7));
    }
}
