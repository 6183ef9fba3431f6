//! The SQLite driver passes the conformance suite.

use std::sync::Arc;

use kalends_environment::Clock as _;
use kalends_store::conformance::{ClockAdvance, Subject};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};

use super::{clock, codec};

async fn subject() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let path = folder.path().join("kalends.db");
    let store =
        SqliteStore::open(&path, SqliteSettings::default(), codec(1), clock.clone()).unwrap();
    let advance_clock = move |duration| -> ClockAdvance {
        // The closure keeps the directory until the subject is dropped.
        let _ = &folder;
        clock.set(clock.now().checked_add(duration).unwrap());
        Box::pin(std::future::ready(()))
    };
    Subject { store: Arc::new(store), advance_clock: Box::new(advance_clock) }
}

kalends_store::conformance_tests!(subject, crate::block_on);
