//! Commit pacing: commits immediately under low load and batches writes of a few milliseconds under
//! high load. A commit costs about the same for one write as for a hundred.

use std::time::Duration;

/// A batch of this size is committed at once: a larger one would hardly be cheaper per write.
const FULL_BATCH: usize = 128;
/// Decisions, which delay attempts, wait only this fraction of the interval.
const DECISION_SPEEDUP: u32 = 5;

/// Decides when the next commit may start. Times are uptimes.
pub(super) struct CommitPacing {
    interval: Duration,
    last: Option<Duration>,
}

impl CommitPacing {
    /// `interval` is the minimum time between commits that contain only results.
    pub(super) fn new(interval: Duration) -> CommitPacing {
        CommitPacing { interval, last: None }
    }

    /// Uptime from which the given numbers of decisions and results may be committed.
    pub(super) fn next_commit_at(&self, decisions: usize, results: usize) -> Option<Duration> {
        let wait = match (decisions, results) {
            (0, 0) => return None,
            _ if decisions + results >= FULL_BATCH => Duration::ZERO,
            (0, _) => self.interval,
            _ => self.interval / DECISION_SPEEDUP,
        };
        Some(self.last.map_or(Duration::ZERO, |last| last + wait))
    }

    /// Records the start of a commit.
    pub(super) fn commit_started(&mut self, at: Duration) {
        self.last = Some(at);
    }

    /// Commits without delay from now on.
    pub(super) fn disable(&mut self) {
        self.interval = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);

    #[test]
    fn the_first_write_is_committed_at_once_and_later_ones_are_batched() {
        let mut pacing = CommitPacing::new(INTERVAL);
        assert_eq!(pacing.next_commit_at(0, 0), None);
        assert_eq!(pacing.next_commit_at(0, 1), Some(Duration::ZERO));
        let started = Duration::from_secs(7);
        pacing.commit_started(started);
        assert_eq!(pacing.next_commit_at(0, 1), Some(started + INTERVAL));
        assert_eq!(
            pacing.next_commit_at(1, 1),
            Some(started + INTERVAL / 5),
            "decisions wait less"
        );
        assert_eq!(
            pacing.next_commit_at(0, FULL_BATCH),
            Some(started),
            "a full batch does not wait"
        );
        pacing.disable();
        assert_eq!(pacing.next_commit_at(0, 1), Some(started));
    }
}
