//! What an operator sets about the engine.

use std::sync::Arc;
use std::time::Duration;

use kalends_store::Retention;

use crate::figures::EngineMetrics;

/// What an operator sets about the engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// For how long a claim holds. A process that dies leaves its runs to others after that.
    pub lease: Duration,
    /// Whether other processes may work on the same store.
    pub neighbours: Neighbours,
    /// Attempts under way at once.
    pub attempts_max: usize,
    /// Attempts under way at once at one host.
    pub host_attempts_max: usize,
    /// Attempts under way at once for one collection.
    pub collection_attempts_max: usize,
    /// How long an attempt may take where its job does not say.
    pub attempt_timeout: Duration,
    /// How long a stop waits for attempts under way.
    pub grace: Duration,
    /// How long things are kept.
    pub retention: Retention,
    /// What is due so far ahead is known in advance. The store is asked twice as often, so a
    /// longer one finds out later about edits and deaths that nobody tells of.
    pub looks_ahead: Duration,
    /// Commits that hold nothing but outcomes of attempts are at least so far apart while attempts
    /// end one after the other: one sync of the disk serves those that end meanwhile.
    pub commits_apart: Duration,
    /// Whose clock decides when an occurrence is due.
    pub clock: WhoseClock,
    /// Limits of schedules, and the delay of a run at once.
    pub schedules: kalends_recurrence::Settings,
    /// What is done where something is found that must not be.
    pub on_violation: OnViolation,
    /// Where the engine counts what it does.
    pub figures: Arc<EngineMetrics>,
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
pub enum Neighbours {
    /// None can: who made the claims that are there when the engine starts is gone.
    Impossible,
    /// Some may: claims of others are waited for until they expire.
    Possible,
}

/// Whose clock decides when an occurrence is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhoseClock {
    /// That of the node, for a store that only one node uses.
    Node,
    /// That of the store, for one that many nodes share.
    Store,
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            lease: Duration::from_secs(10),
            neighbours: Neighbours::Possible,
            attempts_max: 10_000,
            host_attempts_max: 256,
            collection_attempts_max: 5_000,
            attempt_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            retention: Retention::default(),
            commits_apart: Duration::from_millis(10),
            clock: WhoseClock::Node,
            looks_ahead: Duration::from_secs(20),
            schedules: kalends_recurrence::Settings::default(),
            on_violation: OnViolation::Repair,
            figures: Arc::default(),
        }
    }
}
