//! When what was decided is written: at once where little happens; where much does, together with
//! what happens in the next milliseconds. A commit costs as much for one decision as for a hundred.

use std::time::Duration;

/// As many are written without waiting for more: beside them the commit itself costs little.
const ENOUGH: usize = 128;
/// For what somebody waits for, commits may follow each other so many times faster.
const HURRY: u32 = 5;

/// AssignmentResult commits follow each other. Times are those that have passed.
pub(super) struct CommitPacing {
    apart: Duration,
    last: Option<Duration>,
}

impl CommitPacing {
    /// Commits that hold nothing but outcomes are so far apart.
    pub(super) fn new(apart: Duration) -> CommitPacing {
        CommitPacing { apart, last: None }
    }

    /// From when on so many decisions and outcomes may be written.
    pub(super) fn next(&self, decisions: usize, outcomes: usize) -> Option<Duration> {
        let apart = match (decisions, outcomes) {
            (0, 0) => return None,
            _ if decisions + outcomes >= ENOUGH => Duration::ZERO,
            (0, _) => self.apart,
            _ => self.apart / HURRY,
        };
        Some(self.last.map_or(Duration::ZERO, |last| last + apart))
    }

    /// A commit was begun.
    pub(super) fn went(&mut self, at: Duration) {
        self.last = Some(at);
    }

    /// Nothing is waited for any more.
    pub(super) fn end(&mut self) {
        self.apart = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Duration = Duration::from_millis(10);

    #[test]
    fn the_first_is_written_at_once_and_others_wait_for_more() {
        let mut pace = CommitPacing::new(APART);
        assert_eq!(pace.next(0, 0), None);
        assert_eq!(pace.next(0, 1), Some(Duration::ZERO));
        let went = Duration::from_secs(7);
        pace.went(went);
        assert_eq!(pace.next(0, 1), Some(went + APART));
        assert_eq!(pace.next(1, 1), Some(went + APART / 5), "somebody waits for the decision");
        assert_eq!(pace.next(0, ENOUGH), Some(went), "there is nothing to wait for");
        pace.end();
        assert_eq!(pace.next(0, 1), Some(went));
    }
}
