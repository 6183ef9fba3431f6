//! PostgreSQL passes the suite, and what only a server with several nodes can be asked.
//!
//! Needs a server: `scripts/with-postgres cargo test -p kalends-store`. Each test has a database of
//! its own.

mod damage;
mod faults;
mod races;
mod random;
mod sample;
mod schema;
mod scratch;
mod secrets;

use std::sync::Arc;

use kalends_store::conformance::{ClockAdvance, Subject};

use scratch::Scratch;

/// Time passes for leases when they are moved into the past: no test waits.
async fn subject() -> Subject {
    let scratch = Scratch::make().await;
    let store = Arc::new(scratch.connect().await);
    let scratch = Arc::new(scratch);
    let advance_clock = move |duration| -> ClockAdvance {
        let scratch = scratch.clone();
        Box::pin(async move { scratch.pass(duration).await })
    };
    Subject { store, advance_clock: Box::new(advance_clock) }
}

/// Runs a test, or says that it cannot be run.
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
