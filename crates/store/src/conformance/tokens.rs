//! API tokens.

use kalends_domain::{AccessScope, Grant, Role};
use kalends_environment::SeededEntropy;
use kalends_recurrence::Instant;

use crate::conformance::Subject;
use crate::tokens::{NewToken, TokenId, TokenRecord};

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second).unwrap()
}

fn token(seed: u64, role: Role, scope: &str) -> TokenRecord {
    let NewToken { id, hash, .. } = NewToken::generate(&SeededEntropy::new(seed)).unwrap();
    TokenRecord {
        id,
        name: format!("token {seed}"),
        hash,
        grant: Grant { role, scope: AccessScope::parse(scope).unwrap() },
        created: at(seed.cast_signed()),
        expires: None,
        revoked: None,
        last_used: None,
    }
}

const GROUP: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/Rg";

/// Lists are in order of creation; an id is used once.
pub async fn tokens_are_stored_found_and_listed(subject: Subject) {
    let store = &subject.store;
    assert_eq!(store.tokens().await.unwrap(), []);
    let mut second = token(2, Role::Contributor, &format!("{GROUP}/jobCollections/Jc"));
    second.expires = Some(at(99));
    let first = token(1, Role::Reader, GROUP);
    let third = token(3, Role::Owner, "/");
    for token in [&second, &third, &first] {
        assert!(store.put_token(token.clone()).await.unwrap());
    }
    assert_eq!(store.tokens().await.unwrap(), [first.clone(), second.clone(), third]);
    assert_eq!(store.token(second.id.clone()).await.unwrap(), Some(second.clone()));
    let twice = TokenRecord { name: "another".into(), ..second.clone() };
    assert!(!store.put_token(twice).await.unwrap(), "an id is used once");
    assert_eq!(store.token(second.id.clone()).await.unwrap(), Some(second));
    let unknown = TokenId::new("0123456789abcdef").unwrap();
    assert_eq!(store.token(unknown).await.unwrap(), None);
}

/// A revoked token stays in the list, a deleted one does not.
pub async fn tokens_are_revoked_and_deleted(subject: Subject) {
    let store = &subject.store;
    let created = token(1, Role::Operator, "/");
    store.put_token(created.clone()).await.unwrap();
    assert!(store.revoke_token(created.id.clone(), at(50)).await.unwrap());
    assert!(store.revoke_token(created.id.clone(), at(60)).await.unwrap());
    let kept = store.token(created.id.clone()).await.unwrap().unwrap();
    assert_eq!(kept.revoked, Some(at(50)), "the first time counts");
    assert!(!kept.is_valid(at(70)));
    assert!(store.delete_token(created.id.clone()).await.unwrap());
    assert!(!store.delete_token(created.id.clone()).await.unwrap());
    assert!(!store.revoke_token(created.id, at(70)).await.unwrap());
    assert_eq!(store.tokens().await.unwrap(), []);
}

/// An earlier use does not replace a later one.
pub async fn the_latest_use_of_a_token_is_recorded(subject: Subject) {
    let store = &subject.store;
    let created = token(1, Role::Operator, "/");
    store.put_token(created.clone()).await.unwrap();
    for (used, expected) in [(10, 10), (30, 30), (20, 30)] {
        store.note_token_use(created.id.clone(), at(used)).await.unwrap();
        let found = store.token(created.id.clone()).await.unwrap().unwrap();
        assert_eq!(found.last_used, Some(at(expected)));
    }
    let unknown = TokenId::new("0123456789abcdef").unwrap();
    store.note_token_use(unknown, at(1)).await.unwrap();
}
