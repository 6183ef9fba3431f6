//! What the writer and the readers share beside the file.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::Connection;

use crate::sqlite::log::{self, Numbers};
use crate::sqlite::names::Names;
use crate::sqlite::open_runs::Runs;
use crate::sqlite::overlay::Overlay;
use crate::sqlite::switches::Switches;
use crate::sqlite::trouble::Worked;

/// Changed lately, and not in its table yet.
pub(crate) struct Memory {
    pub(crate) overlay: Overlay,
    runs: RwLock<Runs>,
    pub(crate) switches: Switches,
    pub(crate) names: Names,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) transaction: u64,
    pub(crate) numbers: Numbers,
}

impl Memory {
    /// Reads the open runs, and what the log says came later.
    pub(crate) fn load(connection: &Connection, readers: usize) -> Worked<(Memory, End)> {
        let replayed = log::replay(connection)?;
        let mut runs = Runs::load(connection)?;
        for (run, (transaction, row)) in replayed.runs {
            runs.apply(run, row, transaction);
        }
        let end = End { transaction: replayed.transaction, numbers: replayed.numbers };
        let overlay = Overlay::new(replayed.jobs.into_iter(), end.transaction, readers);
        let (switches, names) = (Switches::default(), Names::default());
        Ok((Memory { overlay, runs: RwLock::new(runs), switches, names }, end))
    }

    /// The open runs, as of the newest commit.
    pub(crate) fn runs(&self) -> RwLockReadGuard<'_, Runs> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for the writer.
    pub(crate) fn runs_mut(&self) -> RwLockWriteGuard<'_, Runs> {
        self.runs.write().unwrap_or_else(PoisonError::into_inner)
    }
}
