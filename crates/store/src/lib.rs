//! Storage of jobs, runs and history: the [`Store`] trait and three implementations, all checked by
//! one conformance suite.
//!
//! | item | contents |
//! |---|---|
//! | [`Store`] | interface for the API, the engine and administration |
//! | [`record`] | stored records |
//! | [`memory`] | reference implementation without durability |
//! | [`sqlite`] | durable, one file, for one process |
//! | [`postgres`] | durable, one database, for any number of nodes |
//! | `conformance` | the conformance suite (a feature) |
//! | [`stored_form`] | serialized definitions, with secrets encrypted ([`encryption`]) |
//! | [`Tokens`] | API tokens |
//! | [`Sessions`] | sessions of the web console |
//! | [`transfer`] | copies of stores |
//! | [`KeyFile`], [`key_rotation`] | the master key file, outside the store; rotation of the key |

mod api_store;
#[cfg(feature = "conformance")]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code, in the library for use by other stores"
)]
pub mod conformance;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod dump;
pub mod encryption;
mod engine_store;
mod error;
mod events;
mod invariant_scan;
mod key_file;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod key_rotation;
pub mod memory;
mod notes;
mod overview_store;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod record;
mod rejection;
mod run_reports;
mod run_state;
mod search;
mod sessions;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
pub mod stored_form;
mod tokens;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod transfer;

pub use api_store::{
    ApiStore, CollectionContext, CollectionWrite, DecideCollection, DecideJob, DecidePause, Edited,
    EditedJob, GROUPS_PER_SUBSCRIPTION_MAX, HistoryFilter, JobContext, JobFilter, JobFilterState,
    JobPut, JobWrite, JobsPage, Page, PauseContext, PauseWrite, SCAN_MAX, Scope, WaitingRuns,
};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use dump::{DumpError, WriteLine};
pub use engine_store::{
    Advance, AttemptCounts, ClaimAfter, Due, DueJob, EngineStore, HEARTBEAT_VALID, Heartbeat,
    JobAt, LeaseRenewal, ParkedRuns, RenewalResult, Retention, RunWrite, RunWriteResult,
    UnusedOccurrence,
};
pub use error::{StoreError, UnreadableJob};
pub use events::{EventPosition, Events, LedgerEvent, NUMBERS_COMPLETE_AFTER};
pub use invariant_scan::{HistorySums, Orphan, ScanPage, ScannedJob};
pub use key_file::KeyFile;
pub use overview_store::{
    CollectionSummary, FAILING_MIN, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary,
    OverviewStore, SEARCH_WORDS_MAX, ScannedSchedule, ScannedState, ScannedText, SchedulesPage,
    SearchPosition, SearchedCollection, StatesPage, TextsFrom, TextsPage,
};
pub use rejection::Rejection;
pub use run_reports::{
    ATTEMPT_SCAN_MAX, ClosedRunsPage, ClosedRunsQuery, ListedClosedRun, ListedOpenRun, NewestRuns,
    OpenRunCount, OpenRunsPage, OpenRunsQuery, RUN_COUNTS_BUCKET, RUN_COUNTS_RETENTION,
    RecordedAttempts, RunCounts, RunFilter, RunPosition, RunReports,
};
pub use search::search_text;
pub use sessions::{
    NewSession, SESSIONS_PER_IDENTITY_MAX, SessionHash, SessionIdentity, SessionRecord, Sessions,
};
pub use store::{AdminStore, LeaseClock, PauseState, Reply, Store, StoreHealth};
pub use tokens::{NewToken, TOKENS_MAX, TokenHash, TokenId, TokenRecord, Tokens, parse_token};
