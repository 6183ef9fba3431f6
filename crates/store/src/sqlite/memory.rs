//! What the writer and the readers share beside the file.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::Connection;

use crate::sqlite::collections::Home;
use crate::sqlite::log::{self, Numbers};
use crate::sqlite::names::{CollectionKeys, Names};
use crate::sqlite::open_runs::Runs;
use crate::sqlite::overlay::Overlay;
use crate::sqlite::remembered::Remembered;
use crate::sqlite::trouble::Worked;

/// Collections of which it is remembered whether they are enabled: some bytes each.
const SWITCHES_MAX: usize = 100_000;

/// Collections of which it is remembered where their jobs are: some hundred bytes each.
const HOMES_MAX: usize = 10_000;

/// Changed lately and not in its table yet; and what is remembered, to be looked up less often.
pub(crate) struct Memory {
    pub(crate) overlay: Overlay,
    runs: RwLock<Runs>,
    /// Whether collections are enabled; `None` for one that is gone.
    pub(crate) switches: Remembered<i64, Option<bool>>,
    /// Where jobs of a collection are.
    pub(crate) homes: Remembered<CollectionKeys, Arc<Home>>,
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
        let memory = Memory {
            overlay,
            runs: RwLock::new(runs),
            switches: Remembered::new(SWITCHES_MAX),
            homes: Remembered::new(HOMES_MAX),
            names: Names::default(),
        };
        Ok((memory, end))
    }

    /// A commit has changed collections.
    pub(crate) fn forget_collections(&self) {
        self.switches.forget();
        self.homes.forget();
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
