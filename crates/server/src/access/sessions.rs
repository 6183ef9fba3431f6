//! Sessions of the web console: sign-in, sign-out, and the identity behind a cookie.

use std::time::Duration;

use kalends_domain::Secret;
use kalends_recurrence::Instant;
use kalends_store::{
    NewSession, SessionHash, SessionIdentity, SessionRecord, StoreError, TokenHash,
};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::access::caller::{Caller, Credential};
use crate::access::record_cache::RecordCache;
use crate::app::App;
use crate::response::ApiError;

/// The sessions of the store.
pub(super) struct Sessions {
    /// Longest time that a session lasts.
    lifetime: Duration,
    cache: RecordCache<SessionHash, SessionRecord>,
}

/// A session that has begun.
pub(crate) struct StartedSession {
    /// Value of the cookie.
    pub(crate) id: Secret,
    pub(crate) expires: Instant,
    /// Seconds until it expires.
    pub(crate) max_age: i64,
}

impl Sessions {
    pub(super) fn new(lifetime: Duration) -> Sessions {
        Sessions { lifetime, cache: RecordCache::default() }
    }

    /// Finds a session that has not expired.
    pub(super) async fn find(
        &self,
        app: &App,
        hash: SessionHash,
        now: Instant,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let found = self.cache.find(&hash, now, || app.store.session(hash)).await?;
        Ok(found.filter(|session| now < session.expires))
    }

    /// Begins a session of a caller. It ends with the credential of the caller at the latest.
    pub(super) async fn start(
        &self,
        app: &App,
        caller: &Caller,
        start_token: Option<TokenHash>,
    ) -> Result<StartedSession, ApiError> {
        let entropy = NewSession::generate(&*app.entropy);
        let NewSession { id, hash } =
            entropy.map_err(|error| ApiError::internal(error.to_string()))?;
        let identity = match (&caller.credential, start_token) {
            (Credential::StartToken, Some(start_token)) => {
                SessionIdentity::StartToken { proof: start_token_proof(id.reveal(), start_token) }
            }
            (Credential::Token(token), _) => SessionIdentity::Token(token.clone()),
            (Credential::Oidc { issuer, subject }, _) => SessionIdentity::Oidc {
                issuer: issuer.to_string(),
                subject: subject.to_string(),
                name: caller.name.as_deref().map(printable),
                grants: caller.grants().to_vec(),
            },
            _ => {
                let message = "The header Authorization is missing; send Authorization: Bearer and \
                               the token to sign in with";
                return Err(ErrorDetails::one(ErrorCode::InvalidRequest, "", message).into());
            }
        };
        let created = app.now();
        let latest = created.saturating_add(self.lifetime);
        let expires = caller.expires.map_or(latest, |expires| expires.min(latest));
        app.store.put_session(SessionRecord { hash, identity, created, expires }).await?;
        let max_age = expires.unix_seconds() - created.unix_seconds();
        Ok(StartedSession { id, expires, max_age: max_age.max(1) })
    }

    /// Ends a session on all nodes: on this one at once, on others when their cache expires.
    pub(super) async fn end(&self, app: &App, hash: SessionHash) -> Result<(), ApiError> {
        app.store.delete_session(hash).await?;
        self.cache.note_deleted(&hash, app.now());
        Ok(())
    }
}

/// Binds a session to the token that the server was started with. The random session id keeps the
/// hash from being used to guess the token.
pub(super) fn start_token_proof(id: &str, start_token: TokenHash) -> TokenHash {
    let token: String = start_token.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    TokenHash::of(&format!("{id}:{token}"))
}

/// A name without the characters that databases refuse.
fn printable(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).collect()
}
