//! The state of a running engine, for readiness checks and the log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_environment::Clock;
use kalends_store::StoreError;

/// A failure that was not repeated for this long has ended: the engine retries several times a second.
const FAILURE_LASTS: Duration = Duration::from_secs(5);
/// The engine calls the store at least every ten seconds. Without a response for this long it is
/// stalled: a call does not return, or the loop does not run.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// Observes a running engine from other threads.
#[derive(Clone)]
pub struct EngineStatus(Arc<Observed>);

/// The state of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// Its calls of the store succeed.
    Running,
    /// Its calls of the store fail.
    Failing {
        /// Time since the first failure.
        lasting: Duration,
        /// The last error.
        error: StoreError,
    },
    /// No call of the store has returned for a long time.
    Stalled {
        /// Time since the last response.
        lasting: Duration,
    },
}

struct Observed {
    clock: Arc<dyn Clock>,
    calls: Mutex<Calls>,
}

/// Results of recent store calls. Times are uptimes.
struct Calls {
    last_response: Duration,
    failing_reads: Option<Failure>,
    failing_writes: Option<Failure>,
}

struct Failure {
    since: Duration,
    last: Duration,
    error: StoreError,
}

/// The kinds of store calls. A full disk or a read-only database fails writes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Read,
    Write,
}

impl EngineStatus {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> EngineStatus {
        let last_response = clock.uptime();
        let calls = Calls { last_response, failing_reads: None, failing_writes: None };
        EngineStatus(Arc::new(Observed { clock, calls: Mutex::new(calls) }))
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result of a store call.
    pub(crate) fn store_responded(&self, kind: CallKind, error: Option<&StoreError>) {
        let now = self.0.clock.uptime();
        let mut calls = self.calls();
        calls.last_response = now;
        let failure = match kind {
            CallKind::Read => &mut calls.failing_reads,
            CallKind::Write => &mut calls.failing_writes,
        };
        *failure = error.map(|error| {
            let lasting = failure.as_ref().filter(|failure| failure.is_current(now));
            let since = lasting.map_or(now, |failure| failure.since);
            Failure { since, last: now, error: error.clone() }
        });
    }

    /// The current state.
    pub fn state(&self) -> EngineState {
        let now = self.0.clock.uptime();
        let calls = self.calls();
        let failures = calls.failing_writes.iter().chain(&calls.failing_reads);
        let mut current = failures.filter(|failure| failure.is_current(now));
        let silent = now.saturating_sub(calls.last_response);
        match current.next() {
            _ if silent >= STALLED_AFTER => EngineState::Stalled { lasting: silent },
            Some(failure) => EngineState::Failing {
                lasting: now.saturating_sub(failure.since),
                error: failure.error.clone(),
            },
            None => EngineState::Running,
        }
    }
}

impl Failure {
    fn is_current(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) < FAILURE_LASTS
    }
}

#[cfg(test)]
mod tests {
    use kalends_environment::ManualClock;

    use super::*;

    fn engine() -> (Arc<ManualClock>, EngineStatus) {
        let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
        (clock.clone(), EngineStatus::new(clock))
    }

    fn advance(clock: &ManualClock, by: Duration) {
        clock.set(clock.now() + by);
    }

    #[test]
    fn failing_writes_are_reported_although_reads_succeed() {
        let (clock, status) = engine();
        assert_eq!(status.state(), EngineState::Running);
        for _ in 0..3 {
            status.store_responded(CallKind::Write, Some(&StoreError::Full));
            status.store_responded(CallKind::Read, None);
            advance(&clock, Duration::from_secs(2));
        }
        let lasting = Duration::from_secs(6);
        let error = StoreError::Full;
        assert_eq!(status.state(), EngineState::Failing { lasting, error });
        status.store_responded(CallKind::Write, None);
        assert_eq!(status.state(), EngineState::Running);
    }

    #[test]
    fn a_failure_that_is_not_repeated_is_over_and_silence_is_a_stall() {
        let (clock, status) = engine();
        status.store_responded(CallKind::Write, Some(&StoreError::Full));
        advance(&clock, FAILURE_LASTS);
        assert_eq!(status.state(), EngineState::Running);
        advance(&clock, STALLED_AFTER);
        let lasting = FAILURE_LASTS + STALLED_AFTER;
        assert_eq!(status.state(), EngineState::Stalled { lasting });
    }
}
