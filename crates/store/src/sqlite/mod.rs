//! The store in one SQLite file: durable, for one process.
//!
//! | part | what it is |
//! |---|---|
//! | [`SqliteStore`] | the store |
//! | `connection` | how the file is opened, and that one process does it (`lock`) |
//! | `migrate` | from one form of the tables to the next |
//! | `writer` | the one thread that writes: what waits (`queue`) is committed together |
//! | `desk` | what it works with: the transaction under way |
//! | `log`, `overlay`, `open_runs`, `memory` | what commits change: logged, kept in memory, by number (`numbered`) |
//! | `fold` | how that comes into the tables |
//! | `mover` | how SQLite's own log comes into the database, beside the writer |
//! | `readers` | the threads that read beside it, each with its `view` |
//! | `groups`, `collections`, `jobs`, `state`, `due`, `edit`, `runs`, `history`, `chain` | the statements, by what they are about |
//! | [`SqliteTokens`] | the tokens of a store, for tools beside a server |
//! | `removal`, `prune`, `inspect`, `backup` | upkeep |
//!
//! It refuses to share its file with a second process, to open a file of a newer version, and to
//! write on after the disk has failed.

mod around;
mod backup;
mod chain;
mod code;
mod collections;
mod connection;
mod desk;
mod due;
mod edit;
mod events;
mod fold;
mod groups;
mod history;
mod inspect;
mod invariant_scan;
mod jobs;
mod jobs_for_run;
mod key_check;
mod lock;
mod log;
mod memory;
mod migrate;
mod mover;
mod names;
mod numbered;
mod open_runs;
mod overlay;
mod prune;
mod queue;
mod readers;
mod remembered;
mod removal;
mod runs;
mod search;
mod settings;
mod state;
mod store;
mod task;
mod tokens;
mod trouble;
mod view;
mod writer;

pub use backup::back_up;
pub use inspect::inspect;
pub use settings::SqliteSettings;
pub use store::SqliteStore;
pub use tokens::SqliteTokens;
