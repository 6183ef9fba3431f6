//! Engine settings.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{COLLECTION_ATTEMPTS_MAX, HOST_ATTEMPTS_MAX, OpenRunsMax};
use kalends_store::Retention;

use crate::metrics::EngineMetrics;
use crate::store_clock::StoreClock;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Lease of a claim. Other nodes take over the runs of a crashed node after this time.
    pub lease: Duration,
    /// Whether other nodes may use the same store.
    pub nodes: Nodes,
    /// Maximum number of attempts in flight.
    pub attempts_max: usize,
    /// Maximum number of attempts in flight per target host.
    pub host_attempts_max: usize,
    /// Maximum number of attempts in flight per collection.
    pub collection_attempts_max: usize,
    /// Timeout of an attempt if its job sets none.
    pub attempt_timeout: Duration,
    /// How long a shutdown waits for attempts in flight.
    pub shutdown_grace: Duration,
    /// Retention of history and of finished jobs.
    pub retention: Retention,
    /// How far ahead due jobs are loaded. The engine loads at least once in half this time, so a
    /// longer lookahead notices edits without a nudge later, and crashed nodes: nodes that share a
    /// store look for their runs twenty times in it.
    pub lookahead: Duration,
    /// Minimum interval between commits that contain only results of attempts, so that one fsync
    /// serves many results.
    pub commit_interval: Duration,
    /// Clock that decides when an occurrence is due.
    pub clock: ClockSource,
    /// Limits of schedules and the delay of an immediate first run.
    pub schedules: kalends_recurrence::Settings,
    /// Reaction to a violated invariant.
    pub on_violation: OnViolation,
    /// Metrics that the engine updates.
    pub metrics: Arc<EngineMetrics>,
    /// Maximum number of open runs of one job.
    pub open_runs_max: OpenRunsMax,
}

/// Reaction to a violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnViolation {
    /// Log it, count it, and repair it if the repair is safe.
    Repair,
    /// Abort the process. For tests.
    Abort,
}

/// Number of nodes that may use the same store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// One: claims found at startup belong to a crashed process and expire immediately.
    Single,
    /// Several: claims of other nodes are respected until they expire.
    Multiple,
}

/// Clock that decides when an occurrence is due.
#[derive(Clone, Debug)]
pub enum ClockSource {
    /// The node's clock, for a store with a single node.
    Node,
    /// The store's clock, for a store that several nodes share. The engine synchronizes it.
    Store(Arc<StoreClock>),
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            lease: Duration::from_secs(10),
            nodes: Nodes::Multiple,
            attempts_max: 10_000,
            host_attempts_max: HOST_ATTEMPTS_MAX,
            collection_attempts_max: COLLECTION_ATTEMPTS_MAX,
            attempt_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(30),
            retention: Retention::default(),
            commit_interval: Duration::from_millis(20),
            clock: ClockSource::Node,
            lookahead: Duration::from_secs(20),
            schedules: kalends_recurrence::Settings::default(),
            on_violation: OnViolation::Repair,
            metrics: Arc::default(),
            open_runs_max: OpenRunsMax::default(),
        }
    }
}
