//! Access to the tokens of a file while another process uses the store.

use kalends_domain::{AccessScope, Grant, Role};
use kalends_environment::SeededEntropy;
use kalends_store::sqlite::{SqliteTokens, inspect};
use kalends_store::{NewToken, StoreError, TOKENS_MAX, TokenRecord, Tokens};
use rusqlite::Connection;

use super::{at, codec, open};
use crate::block_on;

fn token(seed: u64) -> TokenRecord {
    let NewToken { id, hash, .. } = NewToken::generate(&SeededEntropy::new(seed)).unwrap();
    let grant = Grant { role: Role::Operator, scope: AccessScope::Everything };
    let name = "for a test".to_owned();
    TokenRecord {
        id,
        name,
        hash,
        grant,
        created: at(seed),
        expires: None,
        revoked: None,
        last_used: None,
    }
}

#[test]
fn a_tool_and_a_server_see_each_others_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let store = open(&path).unwrap();
        let tool = SqliteTokens::open(&path, &codec(1)).unwrap();
        assert!(tool.put_token(token(1)).await.unwrap());
        assert_eq!(store.token(token(1).id).await.unwrap(), Some(token(1)));
        store.note_token_use(token(1).id, at(5)).await.unwrap();
        assert_eq!(tool.tokens().await.unwrap()[0].last_used, Some(at(5)));
        assert!(tool.revoke_token(token(1).id, at(6)).await.unwrap());
        assert_eq!(store.token(token(1).id).await.unwrap().unwrap().revoked, Some(at(6)));
        assert!(tool.delete_token(token(1).id).await.unwrap());
        assert_eq!(store.tokens().await.unwrap(), []);
    });
}

#[test]
fn a_tool_needs_a_store_and_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let refused = |seed| SqliteTokens::open(&path, &codec(seed)).err().unwrap();
    assert!(matches!(refused(1), StoreError::Failed(_)));
    drop(open(&path).unwrap());
    assert!(matches!(refused(2), StoreError::Key(_)));
    assert!(SqliteTokens::open(&path, &codec(1)).is_ok());
}

#[test]
fn the_number_of_tokens_is_limited_and_damaged_ones_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let store = open(&path).unwrap();
        assert!(store.put_token(token(1)).await.unwrap());
        drop(store);
        let connection = Connection::open(&path).unwrap();
        let fill = format!(
            "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number
                 WHERE n < {TOKENS_MAX} - 1)
             INSERT INTO tokens (id, name, hash, role, place, created)
             SELECT printf('%016x', n), '', zeroblob(32), 0, '/', 0 FROM number"
        );
        connection.execute_batch(&fill).unwrap();
        let store = open(&path).unwrap();
        assert!(!store.put_token(token(2)).await.unwrap());
        assert_eq!(store.tokens().await.unwrap().len(), TOKENS_MAX);
        drop(store);
        connection.execute_batch("UPDATE tokens SET place = 'nowhere' WHERE name <> ''").unwrap();
        let found = inspect(&path, &codec(1)).unwrap();
        assert!(found.iter().any(|line| line.contains("no readable place")), "{found:?}");
    });
}
