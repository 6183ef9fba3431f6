//! Static tokens: their text, what is kept of it, and who keeps it.
//!
//! A token reads `kal_<id>_<secret>`. The id is public and is what people and logs call it; of the
//! secret only a hash is kept. The secret is 256 bits of chance, so a fast hash is as good as a slow
//! one: there is nothing to guess.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_domain::{Grant, Secret};
use kalends_environment::{Entropy, EntropyError};
use kalends_recurrence::Instant;
use ring::digest;
use subtle::ConstantTimeEq as _;

use crate::store::Reply;

const PREFIX: &str = "kal_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// As many tokens are kept; each is made by an administrator, by hand or by a script.
pub const TOKENS_MAX: usize = 10_000;

/// The public part of a token: sixteen hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(Box<str>);

impl TokenId {
    /// Checks a text.
    pub fn new(text: &str) -> Option<TokenId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = text.len() == 2 * ID_BYTES && text.bytes().all(is_digit);
        is_id.then(|| TokenId(text.into()))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The SHA-256 of a secret. Comparing two takes the same time whichever byte differs.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a text.
    pub fn of(text: &str) -> TokenHash {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        TokenHash(bytes)
    }

    /// A hash that was kept.
    pub fn from_bytes(bytes: [u8; 32]) -> TokenHash {
        TokenHash(bytes)
    }

    /// What is kept.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &TokenHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

/// A token that was just made. Its text is shown once and kept nowhere.
#[derive(Debug)]
pub struct NewToken {
    /// Its public part.
    pub id: TokenId,
    /// All of it.
    pub text: Secret,
    /// What is kept of its secret.
    pub hash: TokenHash,
}

impl NewToken {
    /// A token made of chance.
    pub fn make(entropy: &dyn Entropy) -> Result<NewToken, EntropyError> {
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        entropy.fill(&mut id)?;
        entropy.fill(&mut secret)?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let secret = URL_SAFE_NO_PAD.encode(secret);
        let hash = TokenHash::of(&secret);
        let text = Secret::new(format!("{PREFIX}{id}_{secret}"));
        Ok(NewToken { id: TokenId(id.into()), text, hash })
    }
}

/// Reads the text of a token: which one it says it is, and the hash that proves it.
pub fn read_token(text: &str) -> Option<(TokenId, TokenHash)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    Some((TokenId::new(id)?, TokenHash::of(secret)))
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its public part.
    pub id: TokenId,
    /// What its maker called it.
    pub name: String,
    /// The hash of its secret.
    pub hash: TokenHash,
    /// What it may do.
    pub grant: Grant,
    /// When it was made.
    pub created: Instant,
    /// From when on it is worth nothing.
    pub expires: Option<Instant>,
    /// Since when it is worth nothing because somebody said so.
    pub revoked: Option<Instant>,
    /// When it was last seen to be used, to the minute.
    pub last_used: Option<Instant>,
}

impl TokenRecord {
    /// Whether it is worth something at an instant.
    pub fn is_good(&self, now: Instant) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}

/// Where tokens are kept. Every method is one transaction.
pub trait Tokens: Send + Sync {
    /// Keeps a new token; `false` where there is one of that id or there are [`TOKENS_MAX`].
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool>;

    /// A token.
    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>>;

    /// All of them, revoked and expired ones too, the oldest first.
    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>>;

    /// Makes a token worth nothing. `false` where there is none; one that was revoked before keeps
    /// its instant.
    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool>;

    /// Forgets a token altogether. `false` where there was none.
    fn delete_token(&self, id: TokenId) -> Reply<'_, bool>;

    /// Notes that a token was used; an instant before the one that is kept changes nothing.
    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()>;
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn the_text_of_a_token_names_it_and_proves_it() {
        let made = NewToken::make(&SeededEntropy::new(1)).unwrap();
        let text = made.text.reveal();
        assert_eq!(text.len(), 4 + 16 + 1 + 43);
        assert_eq!(read_token(text), Some((made.id.clone(), made.hash)));
        let (id, hash) = read_token(&format!("{}x", &text[..text.len() - 1])).unwrap();
        assert_eq!(id, made.id);
        assert_ne!(hash, made.hash);
        assert!(!format!("{made:?}").contains(&text[21..]));
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let id = "0123456789abcdef";
        for text in ["", "kal_", "kal_x_y", &format!("KAL_{id}_x"), &format!("kal_{id}"), id] {
            assert_eq!(read_token(text), None, "{text}");
        }
        assert!(read_token(&format!("kal_{id}_a_b-c")).is_some());
        assert_eq!(read_token(&format!("kal_{}_x", id.to_uppercase())), None);
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let at = |second: i64| Instant::from_ticks(second * 10_000_000).unwrap();
        let made = NewToken::make(&SeededEntropy::new(1)).unwrap();
        let token = TokenRecord {
            id: made.id,
            name: "ci".into(),
            hash: made.hash,
            grant: Grant {
                role: kalends_domain::Role::Reader,
                scope: kalends_domain::AccessScope::Everything,
            },
            created: at(0),
            expires: Some(at(10)),
            revoked: None,
            last_used: None,
        };
        assert!(token.is_good(at(9)) && !token.is_good(at(10)));
        assert!(TokenRecord { expires: None, ..token.clone() }.is_good(at(99)));
        assert!(!TokenRecord { revoked: Some(at(1)), expires: None, ..token }.is_good(at(5)));
    }
}
