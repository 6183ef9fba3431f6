//! The write-back cache over the tables `state`, `due` and `runs`.
//!
//! Runs change a row of `state`, a position in `due` and a row of `runs` each. With many jobs every
//! one of them lies on a page of its own, and SQLite would copy that page into its WAL at every
//! commit. So a commit appends what it changed to the **change log** (table `log`, one row per
//! transaction) and keeps the changed rows in memory as **dirty rows**; a **flush** writes them to
//! their tables later, many at a time and in table order. All other tables are written directly.
//!
//! # Life of a row
//!
//! ```text
//!   WriteTransaction            change_log + SQLite WAL      flush                 checkpoint
//!  ┌───────────────┐  COMMIT   ┌────────────────────┐      ┌─────────────────┐   ┌──────────────┐
//!  │ changed, in   │ ────────► │ committed, dirty:  │ ───► │ flushed: in the │ ► │ checkpointed:│
//!  │ memory only   │   fsync   │ in the change log  │      │ tables, in the  │   │ in the       │
//!  │ (undo on      │           │ and in memory      │      │ WAL; change log │   │ database file│
//!  │  rollback)    │           │ (durable)          │      │ trimmed         │   │              │
//!  └───────────────┘           └────────────────────┘      └─────────────────┘   └──────────────┘
//! ```
//!
//! A start replays the change log over the tables ([`SharedState::load`]). An entry holds the rows
//! as they *are* after its transaction, so replaying an entry that was flushed already changes
//! nothing.
//!
//! # Visibility for readers
//!
//! ```text
//!   reader's SQLite snapshot: transactions … 41 42 │ 43 44
//!   dirty row of job 7, versions:              40     43       → the reader sees version 40
//!   dirty row of job 8, versions:                     44       → the reader sees the table
//! ```
//!
//! MVCC: every dirty row has versions, each tagged with its transaction number. A [`Snapshot`] reads
//! the newest transaction number *in its SQLite snapshot* and sees versions up to it, so that tables
//! and memory show one state. A version is dropped when the tables have it and no reader holds an
//! older snapshot. Open runs are kept in memory whole and read as of the newest commit; every decision
//! taken from them is checked again by the write.
//!
//! # Interface
//!
//! | item | used by |
//! |---|---|
//! | [`WriteTransaction`] | the writer: changes rows, appends to the change log, commits, rolls back |
//! | [`Snapshot`] | readers: one state of tables and dirty rows |
//! | [`SharedState`] | both: dirty rows, open runs, collection cache |
//! | [`Flush`] | the writer: moves dirty rows into the tables in slices |
//! | [`Checkpointer`] | the writer: copies the WAL into the database file on a thread of its own |
//!
//! Measurements and alternatives: `docs/decisions/0018-sqlite-write-back.md`.

pub(crate) mod change_log;
mod checkpoint;
pub(crate) mod dirty_rows;
mod flush;
pub(crate) mod open_runs;
mod shared;
mod snapshot;
mod transaction;

pub(crate) use checkpoint::Checkpointer;
pub(crate) use flush::Flush;
pub(crate) use shared::SharedState;
pub(crate) use snapshot::Snapshot;
pub(crate) use transaction::{RowTimes, SPAN, WriteTransaction, index_finished};
