//! The views for operators and the dump of a database.

use std::io;

use kalends_store::{ApiStore as _, DumpError};
use serde_json::Value;

use super::database::TestDatabase;
use super::with_server;
use crate::dump_sample::{expected, fill, normalize};
use crate::sample::collection_path;

#[test]
fn the_views_and_the_dump_agree_with_the_api() {
    with_server(async {
        let store = TestDatabase::create().await.connect().await;
        fill(&store).await;
        let mut lines: Vec<Value> = Vec::new();
        let mut write = |line: &str| {
            lines.push(serde_json::from_str(line).unwrap());
            Ok(())
        };
        store.dump(&mut write).await.unwrap();
        assert_eq!(normalize(lines), expected(&store, "\u{fffd}").await);
    });
}

#[test]
fn a_dump_stops_when_its_output_fails() {
    with_server(async {
        let store = TestDatabase::create().await.connect().await;
        fill(&store).await;
        let mut write = |_: &str| Err(io::Error::from(io::ErrorKind::BrokenPipe));
        let stopped = store.dump(&mut write).await;
        assert!(matches!(stopped, Err(DumpError::Output(_))), "{stopped:?}");
        // The pool opens another connection.
        let collection = store.collection(collection_path("c").unwrap()).await;
        assert!(collection.unwrap().is_some());
    });
}
