//! The store in one SQLite file: durable, for one process.
//!
//! | module | contents |
//! |---|---|
//! | [`SqliteStore`] (`store`) | the store: hands each call to the writer or to a reader |
//! | `connection`, `lock` | opens the file for one process |
//! | `migrate` | upgrades the schema |
//! | `writer`, `queue`, `task` | the thread that writes: group commit of everything that waits |
//! | `readers` | the threads and the inline connections that read |
//! | `write_back` | the write-back cache: dirty rows, change log, snapshots, flush, WAL checkpoint |
//! | `groups`, `collections`, `jobs`, `jobs_for_run`, `state`, `due`, `due_batch`, `runs`, `history`, `chain`, `new_rows`, `events`, `search`, `notes`, `earlier_definitions` | statements, by subject |
//! | `edit_collection`, `edit_job` | edits |
//! | `path_keys`, `collection_cache`, `collection_of_job` | lookups of paths and collections |
//! | [`SqliteTokens`] (`tokens`) | API tokens, for tools beside a server |
//! | `removal`, `prune`, `check`, `invariant_scan`, `backup`, `dump`, `transfer`, `key_check`, `key_rotation` | maintenance |
//!
//! It refuses to share its file with a second process, to open a file of a newer version, and to
//! write after the disk has failed.

mod backup;
mod chain;
mod check;
mod code;
mod collection_cache;
mod collection_of_job;
mod collections;
mod connection;
mod due;
mod due_batch;
mod dump;
mod earlier_definitions;
mod edit_collection;
mod edit_job;
mod error;
mod events;
mod groups;
mod history;
mod invariant_scan;
mod jobs;
mod jobs_for_run;
mod key_check;
mod key_rotation;
mod lock;
mod migrate;
mod new_rows;
mod notes;
mod overview;
mod overview_scan;
mod path_keys;
mod pause;
mod prune;
mod queue;
mod readers;
mod removal;
mod run_counts;
mod run_reports;
mod runs;
mod search;
mod sessions;
mod settings;
mod state;
mod store;
mod task;
mod tokens;
mod transfer;
mod write_back;
mod writer;

pub use backup::back_up;
pub use check::inspect;
pub use dump::{dump, dump_to};
pub use key_rotation::{SqliteKeyRotation, sqlite_derived_key as derived_key};
pub use settings::{SqliteSettings, Threads};
pub use store::SqliteStore;
pub use tokens::SqliteTokens;
pub use transfer::SqliteTransfer;
