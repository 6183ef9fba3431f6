//! Sessions of the web console: their ids, their records, and the trait that stores them.
//!
//! The id of a session is the value of a cookie. It has 256 random bits; stores keep only its hash.
//! A session names the identity that signed in and has no rights of its own: a session of a revoked
//! token is as invalid as the token.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_domain::{Grant, Secret};
use kalends_environment::{Entropy, EntropyError};
use kalends_recurrence::Instant;

use crate::store::Reply;
use crate::tokens::{TokenHash, TokenId};

const ID_BYTES: usize = 32;

/// Sessions of one identity at the same time. One more ends the oldest.
pub const SESSIONS_PER_IDENTITY_MAX: usize = 100;

/// The hash of a session id, by which stores find a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionHash([u8; 32]);

impl SessionHash {
    /// Hashes the id of a session; `None` if the text does not have the form of an id.
    pub fn of(id: &str) -> Option<SessionHash> {
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let is_id = bytes.len() == ID_BYTES;
        is_id.then(|| SessionHash(*TokenHash::of(id).as_bytes()))
    }

    /// A hash read from a store.
    pub fn from_bytes(bytes: [u8; 32]) -> SessionHash {
        SessionHash(bytes)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

/// A newly generated session id. The client receives its text, which is never stored.
#[derive(Debug)]
pub struct NewSession {
    /// The value of the cookie.
    pub id: Secret,
    /// Its hash, for the [`SessionRecord`].
    pub hash: SessionHash,
}

impl NewSession {
    /// Generates an id from random bytes.
    pub fn generate(entropy: &dyn Entropy) -> Result<NewSession, EntropyError> {
        let mut bytes = [0; ID_BYTES];
        entropy.fill(&mut bytes)?;
        let id = URL_SAFE_NO_PAD.encode(bytes);
        let hash = SessionHash(*TokenHash::of(&id).as_bytes());
        Ok(NewSession { id: Secret::new(id), hash })
    }
}

/// The identity that a session stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionIdentity {
    /// The token that the server was started with.
    StartToken {
        /// Hash of session id and token together: with another start token the session is invalid,
        /// and the stored hash reveals nothing about the token.
        proof: TokenHash,
    },
    /// A static token of the store, whose role, expiration and revocation apply.
    Token(TokenId),
    /// A user of an identity provider.
    Oidc {
        /// The claim `iss`, which contains no `#`. Empty in sessions of earlier versions, which did
        /// not store it.
        issuer: String,
        /// The claim `sub`, unique for one issuer.
        subject: String,
        /// Display name.
        name: Option<String>,
        /// Roles that followed from the claims at sign-in.
        grants: Vec<Grant>,
    },
}

impl SessionIdentity {
    /// The text by which the sessions of one identity are counted.
    pub(crate) fn key(&self) -> String {
        match self {
            SessionIdentity::StartToken { .. } => "start-token".to_owned(),
            SessionIdentity::Token(id) => format!("token:{id}"),
            SessionIdentity::Oidc { issuer, subject, .. } => format!("oidc:{issuer}#{subject}"),
        }
    }
}

/// A session in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The hash of its id.
    pub hash: SessionHash,
    /// The identity that signed in.
    pub identity: SessionIdentity,
    /// The time of sign-in.
    pub created: Instant,
    /// The session is invalid from this time on.
    pub expires: Instant,
}

/// Stores sessions. Each method is one transaction. Retention removes expired ones.
pub trait Sessions: Send + Sync {
    /// Adds a session. If its identity has more than [`SESSIONS_PER_IDENTITY_MAX`], the oldest ones
    /// end.
    fn put_session(&self, session: SessionRecord) -> Reply<'_, ()>;

    /// Finds a session, expired or not.
    fn session(&self, hash: SessionHash) -> Reply<'_, Option<SessionRecord>>;

    /// Deletes a session. Returns `false` if it does not exist.
    fn delete_session(&self, hash: SessionHash) -> Reply<'_, bool>;
}

/// The columns of an identity, the same in all databases.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod columns {
    use kalends_domain::{AccessScope, Grant, Role};

    use super::SessionIdentity;
    use crate::tokens::{TokenHash, TokenId};

    /// `identity`, `proof`, `name` and `grants`.
    pub(crate) struct IdentityColumns {
        /// [`SessionIdentity::key`].
        pub(crate) identity: String,
        pub(crate) proof: Option<[u8; 32]>,
        pub(crate) name: Option<String>,
        /// One line for each grant: role, space, scope.
        pub(crate) grants: String,
    }

    impl From<&SessionIdentity> for IdentityColumns {
        fn from(identity: &SessionIdentity) -> IdentityColumns {
            let key = identity.key();
            let (proof, name, grants) = match identity {
                SessionIdentity::StartToken { proof } => (Some(*proof.as_bytes()), None, &[][..]),
                SessionIdentity::Token(_) => (None, None, &[][..]),
                SessionIdentity::Oidc { name, grants, .. } => (None, name.clone(), &grants[..]),
            };
            let line = |grant: &Grant| format!("{} {}", grant.role.as_str(), grant.scope);
            let grants = grants.iter().map(line).collect::<Vec<_>>().join("\n");
            IdentityColumns { identity: key, proof, name, grants }
        }
    }

    impl IdentityColumns {
        /// The identity; `None` if the columns are damaged.
        pub(crate) fn read(self) -> Option<SessionIdentity> {
            if self.identity == "start-token" {
                return Some(SessionIdentity::StartToken {
                    proof: TokenHash::from_bytes(self.proof?),
                });
            }
            if let Some(id) = self.identity.strip_prefix("token:") {
                return TokenId::new(id).map(SessionIdentity::Token);
            }
            let user = self.identity.strip_prefix("oidc:")?;
            let (issuer, subject) = user.split_once('#').unwrap_or(("", user));
            let (issuer, subject) = (issuer.to_owned(), subject.to_owned());
            let grant = |line: &str| {
                let (role, scope) = line.split_once(' ')?;
                Some(Grant { role: Role::named(role)?, scope: AccessScope::parse(scope).ok()? })
            };
            let grants = self.grants.lines().map(grant).collect::<Option<_>>()?;
            Some(SessionIdentity::Oidc { issuer, subject, name: self.name, grants })
        }
    }
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn a_session_is_found_by_the_hash_of_its_id_only() {
        let new = NewSession::generate(&SeededEntropy::new(1)).unwrap();
        let id = new.id.reveal();
        assert_eq!(id.len(), 43);
        assert_eq!(SessionHash::of(id), Some(new.hash));
        assert!(!format!("{new:?}").contains(id));
        for text in ["", "x", &id[1..], &format!("{id}A"), &format!("{id}="), &id.replace(id, "%")]
        {
            assert_eq!(SessionHash::of(text), None, "{text}");
        }
    }
}
