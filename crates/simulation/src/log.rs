//! What was seen to happen, written down by parts that do not fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kalends_domain::{ActionRole, Outcome};
use kalends_recurrence::Instant;
use kalends_store::record::{FencingToken, JobKey, RunId};

use crate::time::VirtualTime;

/// The log of one world.
#[derive(Debug)]
pub(crate) struct Log {
    time: Arc<VirtualTime>,
    tracing: Tracing,
    noted: Mutex<Noted>,
}

/// Whether everything that happens is written down in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// It is.
    On,
    /// Only what is checked is kept.
    Off,
}

#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) trace: Vec<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) troubles: Vec<Trouble>,
    /// Which occurrence a run is of.
    pub(crate) runs: BTreeMap<RunId, (JobKey, Instant)>,
    /// Until when a node knows that it holds an occurrence, by the clock of the store.
    pub(crate) leases: BTreeMap<(usize, JobKey, Instant), i64>,
    /// The newest proof of each claim.
    pub(crate) tokens: BTreeMap<RunId, FencingToken>,
    /// Jobs by the number that their identity is made of.
    pub(crate) keys: BTreeMap<u64, JobKey>,
    /// What no world may come to, seen while it ran.
    pub(crate) seen: Vec<String>,
}

/// A request that a target got.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) node: usize,
    /// The job's number, which its identity is made of.
    pub(crate) job: u64,
    pub(crate) generation: u64,
    pub(crate) scheduled: Instant,
    pub(crate) role: ActionRole,
    pub(crate) retry: u32,
    /// In virtual time.
    pub(crate) started: i64,
    /// By the clock of the store.
    pub(crate) shown: i64,
    /// When the node got the answer, and what it was.
    pub(crate) answered: Option<(i64, Outcome)>,
    /// The clock of the store when the node got the answer.
    pub(crate) answered_shown: i64,
}

/// Something that went wrong in the world: at a node, or everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) node: Option<usize>,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The node was dead from then on, or nothing ran between.
    Down,
    Pause,
    Store,
    Step,
}

impl Log {
    pub(crate) fn new(time: &Arc<VirtualTime>, tracing: Tracing) -> Arc<Log> {
        Arc::new(Log { time: Arc::clone(time), tracing, noted: Mutex::default() })
    }

    pub(crate) fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trace(&self, what: impl FnOnce() -> String) {
        if self.tracing == Tracing::On {
            let at = Instant::from_ticks(self.time.now()).unwrap_or(Instant::MAX);
            self.noted().trace.push(format!("{at} {}", what()));
        }
    }

    pub(crate) fn trouble(&self, node: Option<usize>, from: i64, to: i64, kind: Kind) {
        self.noted().troubles.push(Trouble { node, from, to, kind });
    }
}
