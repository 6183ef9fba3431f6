//! What an operator sets about the engine.

use std::sync::Arc;
use std::time::Duration;

use kalends_store::Retention;

use crate::metrics::EngineMetrics;

/// What an operator sets about the engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// For how long a claim holds. A process that dies leaves its runs to others after that.
    pub lease: Duration,
    /// Whether other processes may work on the same store.
    pub nodes: Nodes,
    /// Attempts under way at once.
    pub attempts_max: usize,
    /// Attempts under way at once at one host.
    pub host_attempts_max: usize,
    /// Attempts under way at once for one collection.
    pub collection_attempts_max: usize,
    /// AssignmentResult long an attempt may take where its job does not say.
    pub attempt_timeout: Duration,
    /// AssignmentResult long a stop waits for attempts under way.
    pub shutdown_grace: Duration,
    /// AssignmentResult long things are kept.
    pub retention: Retention,
    /// What is due so far ahead is known in advance. The store is asked twice as often, so a
    /// longer one finds out later about edits and deaths that nobody tells of.
    pub lookahead: Duration,
    /// Commits that hold nothing but outcomes of attempts are at least so far apart while attempts
    /// end one after the other: one sync of the disk serves those that end meanwhile.
    pub commit_interval: Duration,
    /// Whose clock decides when an occurrence is due.
    pub clock: ClockSource,
    /// Limits of schedules, and the delay of a run at once.
    pub schedules: kalends_recurrence::Settings,
    /// What is done where something is found that must not be.
    pub on_violation: OnViolation,
    /// Where the engine counts what it does.
    pub metrics: Arc<EngineMetrics>,
}

/// What is done where something is found that must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnViolation {
    /// It is put right where that can do no harm.
    Repair,
    /// The process ends at once: for tests, which must not pass then.
    Abort,
}

/// Whether other processes may work on the same store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// None can: who made the claims that are there when the engine starts is gone.
    Single,
    /// Some may: claims of others are waited for until they expire.
    Multiple,
}

/// Whose clock decides when an occurrence is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// That of the node, for a store that only one node uses.
    Node,
    /// That of the store, for one that many nodes share.
    Store,
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            lease: Duration::from_secs(10),
            nodes: Nodes::Multiple,
            attempts_max: 10_000,
            host_attempts_max: 256,
            collection_attempts_max: 5_000,
            attempt_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(30),
            retention: Retention::default(),
            commit_interval: Duration::from_millis(10),
            clock: ClockSource::Node,
            lookahead: Duration::from_secs(20),
            schedules: kalends_recurrence::Settings::default(),
            on_violation: OnViolation::Repair,
            metrics: Arc::default(),
        }
    }
}
