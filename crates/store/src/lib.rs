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

#[cfg(feature = "conformance")]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the suite is tests, though it stands in the library for stores elsewhere"
)]
pub mod conformance;
mod error;
mod events;
pub mod form;
mod key_file;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod record;
pub mod seal;
mod search;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
mod survey;
mod tokens;

pub use error::StoreError;
pub use events::{ClosingRecord, EventPosition, Events};
pub use key_file::KeyFile;
pub use store::{
    Advance, CollectionContext, CollectionWrite, DecideCollection, DecideJob, Due, DueJob, Edited,
    Found, HistoryFilter, JobContext, JobFilter, JobFilterState, JobPut, JobWrite, LOOKS_MAX, Page,
    Refusal, RefusalKind, Reply, Retention, RunAnswer, RunWrite, Scope, Store, Tally, Waiting,
};
pub use survey::{HistorySums, Orphan, Survey, Surveyed};
pub use tokens::{NewToken, TOKENS_MAX, TokenHash, TokenId, TokenRecord, Tokens, read_token};
