//! The store in one SQLite file: durable, for one process.
//!
//! | part | what it is |
//! |---|---|
//! | [`SqliteStore`] | the store |
//! | `connection` | how the file is opened, and that one process does it (`lock`) |
//! | `migrate` | from one form of the tables to the next |
//! | `writer` | the one thread that writes: what waits is committed together |
//! | `readers` | the threads that read beside it |
//! | `groups`, `collections`, `jobs`, `edit`, `runs`, `history` | the statements, by what they are about |
//! | `prune`, `inspect`, `backup` | upkeep |
//!
//! It refuses to share its file with a second process, to open a file of a newer version, and to
//! write on after the disk has failed.

mod backup;
mod briefs;
mod code;
mod collections;
mod connection;
mod edit;
mod events;
mod groups;
mod history;
mod inspect;
mod jobs;
mod key_check;
mod lock;
mod migrate;
mod prune;
mod readers;
mod runs;
mod settings;
mod store;
mod task;
mod trouble;
mod writer;

pub use backup::back_up;
pub use inspect::inspect;
pub use settings::SqliteSettings;
pub use store::SqliteStore;
