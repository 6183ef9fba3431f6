//! Dump of a store as JSON lines, read from the views for operators.

use std::io;

use crate::error::StoreError;

/// Each kind of line, its view, and the column that orders its lines.
pub(crate) const VIEWS: [(&str, &str, &str); 7] = [
    ("pause", "v_pause", "since"),
    ("collection", "v_collections", "collection"),
    ("job", "v_jobs", "id"),
    ("run", "v_runs", "run"),
    ("history", "v_history", "sequence"),
    ("ledger", "v_ledger", "number"),
    ("note", "v_notes", "number"),
];

/// Receives the lines of a dump, without line ends. An error stops the dump.
pub type WriteLine<'a> = &'a mut (dyn FnMut(&str) -> io::Result<()> + Send);

/// Why a dump stopped.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The receiver of the lines failed.
    #[error("cannot write the dump")]
    Output(#[source] io::Error),
}
