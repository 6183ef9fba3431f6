//! Observations of a run, recorded by parts of the world that do not fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kalends_domain::{ActionRole, Outcome};
use kalends_recurrence::Instant;
use kalends_store::record::{FencingToken, JobKey, RunId};

use crate::time::{VirtualClock, VirtualTime};

/// Collects the trace and the observations of one world.
#[derive(Debug)]
pub(crate) struct Recorder {
    time: Arc<VirtualTime>,
    store_clock: Arc<VirtualClock>,
    tracing: Tracing,
    observations: Mutex<Observations>,
}

/// Whether the recorder keeps a readable trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// Every event is kept as a line of text.
    On,
    /// Only the observations that the checker reads are kept.
    Off,
}

/// Everything that the checker reads besides the store.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub(crate) trace: Vec<String>,
    /// Requests that targets received, in this order.
    pub(crate) calls: Vec<Call>,
    /// Attempts that started and whose requests were not sent, by their number.
    pub(crate) unsent: BTreeMap<u64, Call>,
    /// Number of attempts that started.
    pub(crate) attempts: u64,
    pub(crate) faults: Vec<InjectedFault>,
    /// Job and scheduled time of each run.
    pub(crate) runs: BTreeMap<RunId, (JobKey, Instant)>,
    /// Lease end that a node was given for an occurrence, in virtual time.
    pub(crate) leases: BTreeMap<(usize, JobKey, Instant), i64>,
    /// The newest fencing token of each run.
    pub(crate) tokens: BTreeMap<RunId, FencingToken>,
    /// Job keys by the number that is encoded in the job's UID.
    pub(crate) keys: BTreeMap<u64, JobKey>,
    /// Jobs whose runs were begun or claimed since the world last looked.
    pub(crate) claimed: Vec<JobKey>,
    /// Start and end of each node in virtual time, by its number.
    pub(crate) lifetimes: BTreeMap<usize, (i64, Option<i64>)>,
    /// Violations found while the world was running.
    pub(crate) violations: Vec<String>,
}

/// A request that a target received.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) node: usize,
    /// The number that is encoded in the job's UID.
    pub(crate) job: u64,
    pub(crate) generation: u64,
    pub(crate) scheduled: Instant,
    pub(crate) role: ActionRole,
    pub(crate) retry: u32,
    /// Number of the target's host.
    pub(crate) host: u64,
    /// Number of the definition that the attempt used.
    pub(crate) definition: u64,
    /// Start of the attempt in virtual time, in ticks: before the node connected to the target.
    pub(crate) started: i64,
    /// The same by the store's clock.
    pub(crate) started_by_store: i64,
    /// When the node received the response, in virtual time, and its outcome.
    pub(crate) response: Option<(i64, Outcome)>,
}

/// A fault at one node, or at all nodes if `node` is `None`.
#[derive(Clone, Debug)]
pub(crate) struct InjectedFault {
    pub(crate) node: Option<usize>,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) kind: FaultKind,
}

/// Kind of an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The node crashed, or no node was running.
    Down,
    /// The process was suspended.
    Pause,
    /// The store was unreachable, slow or failing.
    Store,
    /// A clock was stepped.
    ClockStep,
    /// Gate states arrived long after they were read.
    SlowGate,
}

impl Recorder {
    pub(crate) fn new(
        time: &Arc<VirtualTime>,
        store_clock: &Arc<VirtualClock>,
        tracing: Tracing,
    ) -> Arc<Recorder> {
        let (time, store_clock) = (Arc::clone(time), Arc::clone(store_clock));
        Arc::new(Recorder { time, store_clock, tracing, observations: Mutex::default() })
    }

    /// How far the store's clock is ahead of virtual time, in ticks.
    pub(crate) fn store_clock_offset(&self) -> i64 {
        self.store_clock.offset()
    }

    pub(crate) fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trace(&self, what: impl FnOnce() -> String) {
        if self.tracing == Tracing::On {
            let at = Instant::from_ticks(self.time.now()).unwrap_or(Instant::MAX);
            self.observations().trace.push(format!("{at} {}", what()));
        }
    }

    pub(crate) fn record_fault(&self, node: Option<usize>, from: i64, to: i64, kind: FaultKind) {
        self.observations().faults.push(InjectedFault { node, from, to, kind });
    }
}
