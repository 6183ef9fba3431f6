//! Starts of runs for the event stream: claims that a subscriber has not seen before.
//!
//! A start leaves no numbered record, so a stream cannot resume after one. Each poll compares the open
//! runs that were opened last with those of the previous poll.

use std::collections::HashMap;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::{FencingToken, RunId};
use kalends_store::{ListedOpenRun, OpenRunsPage};

/// Open runs that a poll examines.
pub(crate) const EXAMINED_MAX: usize = 100;
/// Age of the starts that the first poll reports: a client that has read a resource before it opened
/// the stream learns what started in between.
const FIRST_AGE_MAX: Duration = Duration::from_secs(5);

/// The open runs that a subscriber has seen at its last poll.
#[derive(Debug, Default)]
pub(crate) struct StartedRuns {
    /// `None` before the first poll.
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    claims: HashMap<RunId, Option<FencingToken>>,
    /// Whether there were no other open runs.
    is_complete: bool,
}

impl Seen {
    /// Whether a claimed run has started since.
    fn is_new(&self, run: RunId, token: FencingToken) -> bool {
        match self.claims.get(&run) {
            Some(seen) => *seen != Some(token),
            // Otherwise it may be an older one that newer ones hid.
            None => self.is_complete || self.claims.keys().all(|seen| run > *seen),
        }
    }
}

impl StartedRuns {
    /// The runs of a page that have started since the previous poll, the oldest first.
    pub(crate) fn advance(&mut self, page: OpenRunsPage, now: Instant) -> Vec<ListedOpenRun> {
        let claim = |run: &ListedOpenRun| run.run.claim.map(|claim| claim.token);
        let claims = page.runs.iter().map(|run| (run.run.id, claim(run))).collect();
        let seen = self.seen.replace(Seen { claims, is_complete: page.end.is_none() });
        let earliest = now.saturating_sub(FIRST_AGE_MAX);
        let has_started = |run: &ListedOpenRun| match (claim(run), &seen) {
            (None, _) => false,
            (Some(_), None) => run.run.progress.next_at >= earliest,
            (Some(token), Some(seen)) => seen.is_new(run.run.id, token),
        };
        page.runs.into_iter().rev().filter(has_started).collect()
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::{
        Cause, CollectionName, CollectionPath, GroupName, GroupPath, JobName, JobPath,
        SubscriptionId,
    };
    use kalends_store::RecordedAttempts;
    use kalends_store::record::{Claim, JobKey, NodeId, OpenRun, Progress};

    use super::*;

    fn at(second: u64) -> Instant {
        let start: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
        start.saturating_add(Duration::from_secs(second))
    }

    /// An open run that is due at second 10, claimed if it has a token.
    fn run((id, token): (i64, u64)) -> ListedOpenRun {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
        let collection = CollectionPath { group, collection: CollectionName::new("jc").unwrap() };
        let path = JobPath { collection, job: JobName::new("j").unwrap() };
        let claim = Claim { owner: NodeId(1), token: FencingToken(token), lease_until: at(99) };
        let run = OpenRun {
            id: RunId(id),
            job: JobKey(1),
            generation: 1,
            scheduled: at(10),
            cause: Cause::Scheduled,
            repeat: 1,
            progress: Progress::first(at(10)),
            claim: (token > 0).then_some(claim),
            waits_for: None,
        };
        ListedOpenRun { path, run, attempts: RecordedAttempts::default() }
    }

    /// Advances over runs, the newest first. Returns the numbers of those that started.
    fn advance(started: &mut StartedRuns, runs: &[(i64, u64)], is_all: bool, now: u64) -> Vec<i64> {
        let runs: Vec<_> = runs.iter().copied().map(run).collect();
        let end = runs.last().filter(|_| !is_all).map(|run| run.run.id);
        let started = started.advance(OpenRunsPage { runs, end }, at(now));
        started.iter().map(|run| run.run.id.0).collect()
    }

    #[test]
    fn a_run_is_reported_once_for_each_claim() {
        let mut started = StartedRuns::default();
        assert_eq!(advance(&mut started, &[], true, 10), [0; 0]);
        assert_eq!(advance(&mut started, &[(7, 0)], true, 10), [0; 0], "waits to start");
        assert_eq!(advance(&mut started, &[(8, 1), (7, 1)], true, 11), [7, 8]);
        assert_eq!(advance(&mut started, &[(8, 1), (7, 1)], true, 11), [0; 0]);
        assert_eq!(advance(&mut started, &[(8, 0)], true, 12), [0; 0], "between two attempts");
        assert_eq!(advance(&mut started, &[(8, 2)], true, 13), [8]);
        assert_eq!(advance(&mut started, &[], true, 14), [0; 0]);
    }

    #[test]
    fn the_first_poll_reports_recent_starts() {
        assert_eq!(advance(&mut StartedRuns::default(), &[(8, 1), (7, 0)], true, 15), [8]);
        assert_eq!(advance(&mut StartedRuns::default(), &[(8, 1), (7, 0)], true, 16), [0; 0]);
    }

    #[test]
    fn an_older_run_that_newer_ones_hid_is_not_reported() {
        let mut started = StartedRuns::default();
        assert_eq!(advance(&mut started, &[(9, 1), (8, 1)], false, 90), [0; 0]);
        assert_eq!(advance(&mut started, &[(10, 1), (7, 1)], false, 90), [10]);
    }
}
