//! The PostgreSQL driver: the conformance suite, concurrency and failures.
//!
//! Needs a server: `scripts/with-postgres cargo test -p kalends-store`. Each test creates its own
//! database.

mod concurrency;
mod contention;
mod damage;
mod database;
mod dump;
mod edit_groups;
mod equivalence;
mod failures;
mod read_groups;
mod row_cache;
mod sample;
mod schema;
mod secrets;

use std::sync::Arc;

use kalends_store::conformance::{ClockAdvance, Subject};

use database::TestDatabase;

/// Advancing the clock moves the leases into the past, so no test waits.
async fn subject() -> Subject {
    let database = TestDatabase::create().await;
    let store = Arc::new(database.connect().await);
    let database = Arc::new(database);
    let advance_clock = move |duration| -> ClockAdvance {
        let database = database.clone();
        Box::pin(async move { database.advance_clock(duration).await })
    };
    Subject { store, advance_clock: Box::new(advance_clock) }
}

/// Runs a test, or reports that it was skipped because there is no server.
fn with_server(test: impl Future<Output = ()>) {
    match std::env::var("KALENDS_TEST_POSTGRES") {
        Ok(_) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(test);
        }
        Err(_) => eprintln!("SKIPPED: no KALENDS_TEST_POSTGRES; see scripts/with-postgres"),
    }
}

kalends_store::conformance_tests!(subject, crate::postgres::with_server);
