//! The in-memory store, which is the reference, passes the conformance suite.

use std::sync::Arc;

use jiff::Timestamp;
use kalends_environment::{Clock, ManualClock};
use kalends_store::conformance::Subject;
use kalends_store::memory::MemoryStore;

async fn subject() -> Subject {
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_770_000_000).unwrap()));
    let moved = clock.clone();
    let advance_clock = move |duration| -> kalends_store::conformance::ClockAdvance {
        moved.set(moved.now().checked_add(duration).unwrap());
        Box::pin(std::future::ready(()))
    };
    Subject { store: Arc::new(MemoryStore::new(clock)), advance_clock: Box::new(advance_clock) }
}

kalends_store::conformance_tests!(subject, crate::block_on);
