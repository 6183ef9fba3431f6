//! A sign-in that has begun, in the cookie of the browser that began it.
//!
//! `state`, `nonce` and the code verifier are derived from one random secret. The cookie is encrypted
//! and authenticated with a key that all nodes have: the server stores nothing before it knows the
//! user, every node can finish what another one began, and no cookie is accepted that the server did
//! not issue within the last ten minutes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_domain::Secret;
use kalends_environment::{Entropy, EntropyError};
use kalends_recurrence::Instant;
use kalends_store::SessionHash;
use ring::digest::{SHA256, digest};

use crate::position_key::PositionKey;

/// Time that a user has to sign in at the provider.
pub(crate) const SIGN_IN_TIME: Duration = Duration::from_secs(600);
/// Bytes of the URL of the page that follows; browsers drop cookies of more than 4096 bytes.
const TO_BYTES_MAX: usize = 512;
const SECRET_BYTES: usize = 32;
/// Separates cookies of a sign-in from other texts with the same key.
const CONTEXT: &str = "sign-in";

/// The secret of one sign-in.
#[derive(Clone, Debug)]
pub(crate) struct SignInSecret(Secret);

impl SignInSecret {
    fn generate(entropy: &dyn Entropy) -> Result<SignInSecret, EntropyError> {
        let mut bytes = [0; SECRET_BYTES];
        entropy.fill(&mut bytes)?;
        Ok(SignInSecret(Secret::new(URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The parameter `state`, which the provider returns.
    pub(crate) fn state(&self) -> String {
        self.derive("state")
    }

    /// The claim `nonce` of the ID token.
    pub(super) fn nonce(&self) -> String {
        self.derive("nonce")
    }

    /// The PKCE code verifier.
    pub(super) fn verifier(&self) -> String {
        self.derive("verifier")
    }

    /// The S256 challenge of the verifier.
    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier().as_bytes()))
    }

    fn derive(&self, purpose: &str) -> String {
        let text = format!("{purpose}:{}", self.0.reveal());
        URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
    }
}

/// A sign-in that has begun.
#[derive(Clone, Debug)]
pub(crate) struct PendingSignIn {
    pub(crate) secret: SignInSecret,
    begun: Instant,
    /// The session that the browser had, which ends with the sign-in. The cookie of that session is
    /// not sent when the provider leads back.
    pub(crate) previous: Option<SessionHash>,
    /// The page of the console that follows.
    pub(crate) to: String,
}

impl PendingSignIn {
    /// Begins a sign-in. The overview follows instead of a page with a very long URL.
    pub(crate) fn begin(
        to: &str,
        previous: Option<SessionHash>,
        now: Instant,
        entropy: &dyn Entropy,
    ) -> Result<PendingSignIn, EntropyError> {
        let to = if to.len() <= TO_BYTES_MAX { to.to_owned() } else { String::new() };
        Ok(PendingSignIn { secret: SignInSecret::generate(entropy)?, begun: now, previous, to })
    }

    /// The value of the cookie.
    pub(crate) fn seal(&self, key: &PositionKey, entropy: &dyn Entropy) -> String {
        let begun = self.begun.unix_seconds();
        let previous = self.previous.map(|hash| URL_SAFE_NO_PAD.encode(hash.as_bytes()));
        let (secret, previous) = (self.secret.0.reveal(), previous.unwrap_or_default());
        let text = format!("{begun}\n{secret}\n{previous}\n{}", self.to);
        key.encrypt(CONTEXT, text.as_bytes(), entropy)
    }

    /// Reads the value of a cookie; `None` if this server did not issue it, or too long ago.
    pub(crate) fn open(cookie: &str, key: &PositionKey, now: Instant) -> Option<PendingSignIn> {
        let text = String::from_utf8(key.decrypt(CONTEXT, cookie)?).ok()?;
        let mut parts = text.splitn(4, '\n');
        let begun = Instant::from_unix_seconds(parts.next()?.parse().ok()?)?;
        let secret = SignInSecret(Secret::new(parts.next()?.to_owned()));
        let previous = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let previous = <[u8; 32]>::try_from(previous).ok().map(SessionHash::from_bytes);
        let to = parts.next()?.to_owned();
        let is_current = now < begun.saturating_add(SIGN_IN_TIME);
        is_current.then_some(PendingSignIn { secret, begun, previous, to })
    }
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;
    use kalends_store::NewSession;

    use super::*;

    fn at(second: i64) -> Instant {
        Instant::from_unix_seconds(1_770_000_000 + second).unwrap()
    }

    #[test]
    fn the_values_of_a_sign_in_follow_from_its_secret_and_differ() {
        let secret = SignInSecret::generate(&SeededEntropy::new(1)).unwrap();
        let values = [secret.state(), secret.nonce(), secret.verifier(), secret.challenge()];
        let distinct: std::collections::BTreeSet<_> = values.iter().collect();
        assert_eq!(distinct.len(), 4);
        assert!(values.iter().all(|value| value.len() == 43 && value != secret.0.reveal()));
        assert!(!format!("{secret:?}").contains(secret.0.reveal()));
    }

    #[test]
    fn a_cookie_is_valid_for_ten_minutes_on_all_nodes_and_cannot_be_read_or_changed() {
        let (key, entropy) = (PositionKey::new(&[7; 32]), SeededEntropy::new(1));
        let session = NewSession::generate(&entropy).unwrap().hash;
        let pending = PendingSignIn::begin("jobs?a=b", Some(session), at(0), &entropy).unwrap();
        let cookie = pending.seal(&key, &entropy);
        assert!(!cookie.contains(pending.secret.0.reveal()));
        let other_node = PositionKey::new(&[7; 32]);
        let opened = PendingSignIn::open(&cookie, &other_node, at(599)).unwrap();
        assert_eq!(opened.secret.state(), pending.secret.state());
        assert_eq!((opened.previous, opened.to.as_str()), (Some(session), "jobs?a=b"));
        assert!(PendingSignIn::open(&cookie, &key, at(600)).is_none(), "too late");
        assert!(PendingSignIn::open(&cookie, &PositionKey::new(&[8; 32]), at(0)).is_none());
        for place in [0, cookie.len() / 2, cookie.len() - 2] {
            let mut changed = cookie.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(PendingSignIn::open(&changed, &key, at(0)).is_none(), "{place}");
        }
        let position = key.encrypt("events", b"1770000000\nx\n\n", &entropy);
        assert!(PendingSignIn::open(&position, &key, at(0)).is_none(), "of another context");
    }

    #[test]
    fn a_sign_in_without_a_session_or_with_a_long_url_has_a_small_cookie() {
        let (key, entropy) = (PositionKey::new(&[7; 32]), SeededEntropy::new(1));
        for (to, expected) in [("x".repeat(512), "x".repeat(512)), ("x".repeat(513), "".into())] {
            let session = NewSession::generate(&entropy).unwrap().hash;
            for previous in [None, Some(session)] {
                let pending = PendingSignIn::begin(&to, previous, at(0), &entropy).unwrap();
                let cookie = pending.seal(&key, &entropy);
                let opened = PendingSignIn::open(&cookie, &key, at(0)).unwrap();
                assert_eq!((opened.to, opened.previous), (expected.clone(), previous));
            }
        }
    }
}
