//! What an operator sets about the engine.

use std::time::Duration;

use kalends_store::Retention;

/// What an operator sets about the engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// For how long a claim holds. A process that dies leaves its runs to others after that.
    pub lease: Duration,
    /// Attempts under way at once.
    pub attempts_max: usize,
    /// How long an attempt may take where its job does not say.
    pub attempt_timeout: Duration,
    /// How long a stop waits for attempts under way.
    pub grace: Duration,
    /// How long things are kept.
    pub retention: Retention,
    /// What is due so far ahead is known in advance. The store is asked twice as often, so a
    /// longer one finds out later about edits and deaths that nobody tells of.
    pub looks_ahead: Duration,
    /// Whose clock decides when an occurrence is due.
    pub clock: WhoseClock,
    /// Limits of schedules, and the delay of a run at once.
    pub schedules: kalends_recurrence::Settings,
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
            attempts_max: 1_000,
            attempt_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            retention: Retention::default(),
            clock: WhoseClock::Node,
            looks_ahead: Duration::from_secs(20),
            schedules: kalends_recurrence::Settings::default(),
        }
    }
}
