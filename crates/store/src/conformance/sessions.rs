//! Sessions of the web console.

use kalends_domain::{AccessScope, Grant, Role};
use kalends_environment::SeededEntropy;
use kalends_recurrence::Instant;

use crate::conformance::Subject;
use crate::engine_store::Retention;
use crate::sessions::{NewSession, SESSIONS_PER_IDENTITY_MAX, SessionIdentity, SessionRecord};
use crate::tokens::{TokenHash, TokenId};

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second).unwrap()
}

fn session(seed: u64, identity: SessionIdentity) -> SessionRecord {
    let NewSession { hash, .. } = NewSession::generate(&SeededEntropy::new(seed)).unwrap();
    let created = at(seed.cast_signed());
    SessionRecord { hash, identity, created, expires: at(1_000 + seed.cast_signed()) }
}

fn token() -> SessionIdentity {
    SessionIdentity::Token(TokenId::new("0123456789abcdef").unwrap())
}

fn user(grants: Vec<Grant>) -> SessionIdentity {
    let (issuer, subject) = ("https://idp.example/a:b".into(), "a:b #c".into());
    SessionIdentity::Oidc { issuer, subject, name: Some("Ann Ö".into()), grants }
}

/// The user `s` of an issuer.
fn user_of(issuer: &str) -> SessionIdentity {
    let (issuer, subject) = (issuer.to_owned(), "s".to_owned());
    SessionIdentity::Oidc { issuer, subject, name: None, grants: vec![] }
}

/// Every kind of identity round-trips.
pub async fn sessions_are_stored_found_and_deleted(subject: Subject) {
    let store = &subject.store;
    let collection =
        "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/Rg/jobCollections/Jc";
    let grant = |role, scope| Grant { role, scope: AccessScope::parse(scope).unwrap() };
    let grants = vec![grant(Role::Owner, "/"), grant(Role::Reader, collection)];
    let sessions = [
        session(1, SessionIdentity::StartToken { proof: TokenHash::of("x") }),
        session(2, token()),
        session(3, user(grants)),
        session(4, user_of("https://idp.example")),
    ];
    for session in &sessions {
        assert_eq!(store.session(session.hash).await.unwrap(), None);
        store.put_session(session.clone()).await.unwrap();
    }
    for session in &sessions {
        assert_eq!(store.session(session.hash).await.unwrap().as_ref(), Some(session));
    }
    assert!(store.delete_session(sessions[1].hash).await.unwrap());
    assert!(!store.delete_session(sessions[1].hash).await.unwrap());
    assert_eq!(store.session(sessions[1].hash).await.unwrap(), None);
    assert!(store.session(sessions[0].hash).await.unwrap().is_some());
}

/// One more session than the limit ends the oldest one of the same identity. The same subject of another
/// issuer is another identity.
pub async fn the_sessions_of_one_identity_are_limited(subject: Subject) {
    let store = &subject.store;
    let pairs = [(token(), user(vec![])), (user_of("https://a"), user_of("https://b"))];
    for (start, (limited, other)) in [1, 1_001].into_iter().zip(pairs) {
        let other = session(start, other);
        store.put_session(other.clone()).await.unwrap();
        let seeds = (start + 1..).take(SESSIONS_PER_IDENTITY_MAX + 1);
        let sessions: Vec<_> = seeds.map(|seed| session(seed, limited.clone())).collect();
        for session in &sessions {
            store.put_session(session.clone()).await.unwrap();
        }
        assert_eq!(store.session(sessions[0].hash).await.unwrap(), None);
        for kept in sessions.iter().skip(1).chain([&other]) {
            assert!(store.session(kept.hash).await.unwrap().is_some());
        }
    }
}

/// Retention removes sessions that have expired, within its limit.
pub async fn retention_removes_expired_sessions(subject: Subject) {
    let store = &subject.store;
    let sessions: Vec<_> = (1..=4).map(|seed| session(seed, token())).collect();
    for session in &sessions {
        store.put_session(session.clone()).await.unwrap();
    }
    let prune = |limit| store.prune(Retention::default(), at(1_004), limit);
    assert_eq!(prune(2).await.unwrap(), 2);
    assert_eq!(prune(100).await.unwrap(), 1);
    assert_eq!(prune(100).await.unwrap(), 0);
    assert!(store.session(sessions[3].hash).await.unwrap().is_some());
    assert_eq!(store.session(sessions[0].hash).await.unwrap(), None);
}
