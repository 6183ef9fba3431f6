//! What is kept: one trait, three stores, one suite that all of them pass.
//!
//! | part | what it is |
//! |---|---|
//! | [`Store`] | what the API and the engine ask of a store |
//! | [`record`] | what is kept |
//! | [`memory`] | the reference: obvious, without durability |
//! | [`sqlite`] | one file, durable, for one process |
//! | [`postgres`] | a database, durable, for any number of nodes |
//! | `conformance` | the suite that every store passes (a feature) |
//! | [`form`] | the stored form of definitions, with secrets sealed ([`seal`]) |
//! | [`Tokens`] | the tokens of the API |
//! | [`KeyFile`] | the key that seals them, outside the store |

mod api_store;
#[cfg(feature = "conformance")]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the suite is tests, though it stands in the library for stores elsewhere"
)]
pub mod conformance;
pub mod encryption;
mod engine_store;
mod error;
mod events;
mod invariant_scan;
mod key_file;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod record;
mod rejection;
mod run_state;
mod search;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
pub mod stored_form;
mod tokens;

pub use api_store::{
    ApiStore, CollectionContext, CollectionWrite, DecideCollection, DecideJob, Edited, EditedJob,
    HistoryFilter, JobContext, JobFilter, JobFilterState, JobPut, JobWrite, JobsPage, Page,
    SCAN_MAX, Scope, WaitingRuns,
};
pub use engine_store::{
    Advance, AttemptCounts, Due, DueJob, EngineStore, Retention, RunWrite, RunWriteResult,
};
pub use error::StoreError;
pub use events::{EventPosition, Events, LedgerEvent};
pub use invariant_scan::{HistorySums, Orphan, ScanPage, ScannedJob};
pub use key_file::KeyFile;
pub use rejection::Rejection;
pub use store::{AdminStore, LeaseClock, Reply, Store};
pub use tokens::{NewToken, TOKENS_MAX, TokenHash, TokenId, TokenRecord, Tokens, parse_token};
