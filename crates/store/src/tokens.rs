//! Static API tokens: their format, their records, and the trait that stores them.
//!
//! A token has the form `kal_<id>_<secret>`. The id is public; tools and logs show it. Stores keep
//! only a hash of the secret. The secret has 256 random bits and cannot be guessed, so a fast hash
//! suffices.

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

/// Maximum number of tokens in a store, including expired and revoked ones. Administrators create
/// tokens by hand or by script, so a larger number indicates an error.
pub const TOKENS_MAX: usize = 10_000;

/// The public part of a token: sixteen hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(Box<str>);

impl TokenId {
    /// Parses an id; `None` unless it has sixteen lower-case hexadecimal digits.
    pub fn new(text: &str) -> Option<TokenId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = text.len() == 2 * ID_BYTES && text.bytes().all(is_digit);
        is_id.then(|| TokenId(text.into()))
    }

    /// The hexadecimal digits.
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

/// The SHA-256 of a secret. Comparison takes constant time.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes the secret part of a token.
    pub fn of(text: &str) -> TokenHash {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        TokenHash(bytes)
    }

    /// A hash read from a store.
    pub fn from_bytes(bytes: [u8; 32]) -> TokenHash {
        TokenHash(bytes)
    }

    /// The bytes to store.
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

/// A newly generated token. Its text is shown once and never stored.
#[derive(Debug)]
pub struct NewToken {
    /// The public id, part of `text`.
    pub id: TokenId,
    /// The complete token: `kal_<id>_<secret>`.
    pub text: Secret,
    /// The hash of the secret, for the [`TokenRecord`].
    pub hash: TokenHash,
}

impl NewToken {
    /// Generates a token from random bytes.
    pub fn generate(entropy: &dyn Entropy) -> Result<NewToken, EntropyError> {
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

/// Parses the text of a token into its id and the hash of its secret; `None` if it is malformed.
pub fn parse_token(text: &str) -> Option<(TokenId, TokenHash)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    Some((TokenId::new(id)?, TokenHash::of(secret)))
}

/// A token in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// The public id.
    pub id: TokenId,
    /// The name given by its creator.
    pub name: String,
    /// The hash of its secret.
    pub hash: TokenHash,
    /// The role it grants, and the scope in which it does.
    pub grant: Grant,
    /// The time of creation.
    pub created: Instant,
    /// The token is invalid from this time on; `None` if it does not expire.
    pub expires: Option<Instant>,
    /// The time of revocation; `None` if it was not revoked.
    pub revoked: Option<Instant>,
    /// The time of the last recorded use, to the minute; `None` if it was never used.
    pub last_used: Option<Instant>,
}

impl TokenRecord {
    /// Whether the token is neither revoked nor expired at `now`.
    pub fn is_valid(&self, now: Instant) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}

/// Stores API tokens. Each method is one transaction.
pub trait Tokens: Send + Sync {
    /// Adds a token. Returns `false` if its id exists or the store holds [`TOKENS_MAX`] tokens.
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool>;

    /// Finds a token by its id.
    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>>;

    /// All tokens by time of creation, including revoked and expired ones.
    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>>;

    /// Revokes a token. Returns `false` if it does not exist. Revoking it again does not change the
    /// time of revocation.
    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool>;

    /// Deletes a token. Returns `false` if it does not exist.
    fn delete_token(&self, id: TokenId) -> Reply<'_, bool>;

    /// Records a use of a token, unless a later use is recorded.
    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()>;
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn a_token_text_contains_its_id_and_proves_its_secret() {
        let new = NewToken::generate(&SeededEntropy::new(1)).unwrap();
        let text = new.text.reveal();
        assert_eq!(text.len(), 4 + 16 + 1 + 43);
        assert_eq!(parse_token(text), Some((new.id.clone(), new.hash)));
        let (id, hash) = parse_token(&format!("{}x", &text[..text.len() - 1])).unwrap();
        assert_eq!(id, new.id);
        assert_ne!(hash, new.hash);
        assert!(!format!("{new:?}").contains(&text[21..]));
    }

    #[test]
    fn malformed_texts_are_not_tokens() {
        let id = "0123456789abcdef";
        for text in ["", "kal_", "kal_x_y", &format!("KAL_{id}_x"), &format!("kal_{id}"), id] {
            assert_eq!(parse_token(text), None, "{text}");
        }
        assert!(parse_token(&format!("kal_{id}_a_b-c")).is_some());
        assert_eq!(parse_token(&format!("kal_{}_x", id.to_uppercase())), None);
    }

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let at = |second: i64| Instant::from_unix_seconds(second).unwrap();
        let new = NewToken::generate(&SeededEntropy::new(1)).unwrap();
        let token = TokenRecord {
            id: new.id,
            name: "ci".into(),
            hash: new.hash,
            grant: Grant {
                role: kalends_domain::Role::Reader,
                scope: kalends_domain::AccessScope::Everything,
            },
            created: at(0),
            expires: Some(at(10)),
            revoked: None,
            last_used: None,
        };
        assert!(token.is_valid(at(9)) && !token.is_valid(at(10)));
        assert!(TokenRecord { expires: None, ..token.clone() }.is_valid(at(99)));
        assert!(!TokenRecord { revoked: Some(at(1)), expires: None, ..token }.is_valid(at(5)));
    }
}
