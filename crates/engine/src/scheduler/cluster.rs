//! The other nodes of the store: their continuous service, and the runs that they leave behind.
//!
//! Every second, a node that shares its store records a heartbeat and looks for runs that nobody works
//! on. An occurrence is missed only if no node was in service at its time: a node that has just started,
//! or had an outage of its own, takes over the start of service of the others.

use std::sync::Arc;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::OpenRun;
use kalends_store::{Due, Heartbeat, StoreError};

use super::store_calls::StoreResponse;
use super::{BATCH_MAX, Scheduler};
use crate::settings::Nodes;

/// Heartbeats and searches for runs of crashed nodes in the time of one lookahead: one per second by
/// default.
const POLLS_PER_LOOKAHEAD: u32 = 20;
/// How long a node without a response to its heartbeat leaves missed occurrences undecided.
const UNDECIDED_MAX: Duration = Duration::from_secs(10);

/// Since when the cluster has been in service without an outage.
pub(super) struct ClusterService {
    nodes: Nodes,
    /// Interval of heartbeats.
    interval: Duration,
    /// Uptime of the next heartbeat.
    next: Duration,
    is_in_flight: bool,
    /// Start of the node's own service, and the earliest start of the nodes that it has met since.
    known: Option<(Instant, Instant)>,
    /// Start of the node's own service for which no heartbeat was answered yet, and the uptime at
    /// which it was noticed.
    unknown: Option<(Instant, Duration)>,
}

impl ClusterService {
    pub(super) fn new(nodes: Nodes, lookahead: Duration) -> ClusterService {
        ClusterService {
            nodes,
            interval: lookahead / POLLS_PER_LOOKAHEAD,
            next: Duration::ZERO,
            is_in_flight: false,
            known: None,
            unknown: None,
        }
    }

    /// Start of the service without an outage, given that of the node itself.
    fn since(&self, own: Instant) -> Instant {
        self.known.filter(|known| known.0 == own).map_or(own, |known| known.1.min(own))
    }

    /// Records the response to a heartbeat that was sent when the node's own service began at `own`.
    pub(super) fn learn(&mut self, own: Instant, others: Option<Instant>) {
        let since = self.since(own);
        self.known = Some((own, others.map_or(since, |others| others.min(since))));
    }

    /// Uptime of the next heartbeat, if one may start.
    pub(super) fn next(&self) -> Option<Duration> {
        (self.nodes == Nodes::Multiple && !self.is_in_flight).then_some(self.next)
    }

    /// Whether the service of the other nodes is known, or has been unknown for too long.
    fn is_decided(&mut self, own: Instant, elapsed: Duration) -> bool {
        if self.nodes == Nodes::Single || self.known.is_some_and(|known| known.0 == own) {
            return true;
        }
        let noticed = self.unknown.filter(|unknown| unknown.0 == own);
        let (_, at) = *self.unknown.insert(noticed.unwrap_or((own, elapsed)));
        elapsed >= at + UNDECIDED_MAX
    }
}

/// Jobs and runs that are due and that nobody may work on.
pub(super) struct Abandoned {
    pub(super) jobs: Vec<Due>,
    pub(super) runs: Vec<OpenRun>,
}

impl Scheduler {
    /// Start of the cluster's service without an outage, for a decision about an occurrence that is
    /// due at `due`; `None` if it must wait for the response to a heartbeat.
    pub(super) fn watched_since(&mut self, due: Instant, now: Instant) -> Option<Instant> {
        let own = self.outage.continuous_since(now);
        // During an outage writes fail anyway.
        let must_know = due < own && !self.outage.is_in_outage(now);
        let elapsed = self.services.clock.uptime();
        if must_know && !self.cluster.is_decided(own, elapsed) {
            return None;
        }
        Some(self.cluster.since(own))
    }

    /// Records a heartbeat and looks for abandoned runs, once per second.
    pub(super) fn poll_cluster(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        if self.cluster.next().is_none_or(|next| elapsed < next) {
            return;
        }
        self.cluster.is_in_flight = true;
        self.cluster.next = elapsed + self.cluster.interval;
        let own = self.outage.continuous_since(now);
        let heartbeat = self.heartbeat(own, now);
        let store = Arc::clone(&self.services.store);
        let until = now.saturating_add(self.cluster.interval);
        self.store_calls.push(Box::pin(async move {
            let others = store.record_heartbeat(heartbeat).await;
            let abandoned = async {
                let jobs = store.due(until, BATCH_MAX).await?;
                Ok(Abandoned { jobs, runs: store.claimable(until, BATCH_MAX).await? })
            };
            StoreResponse::Polled { own, others, abandoned: abandoned.await }
        }));
    }

    pub(super) fn heartbeat(&self, own: Instant, now: Instant) -> Heartbeat {
        Heartbeat { node: self.node, serving_since: self.cluster.since(own), sent: now }
    }

    pub(super) fn handle_poll(
        &mut self,
        own: Instant,
        others: Result<Option<Instant>, StoreError>,
        abandoned: Result<Abandoned, StoreError>,
    ) {
        self.cluster.is_in_flight = false;
        let now = self.now();
        // The response to a heartbeat from before an outage says nothing about the time after it.
        if let Ok(others) = others
            && self.outage.continuous_since(now) == own
        {
            let was_unknown = self.cluster.unknown.take().is_some();
            self.cluster.learn(own, others);
            if was_unknown {
                self.load_schedule.load_now(now);
            }
        }
        if let Ok(Abandoned { jobs, runs }) = abandoned {
            self.add_to_timetable(jobs, runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKAHEAD: Duration = Duration::from_secs(20);

    fn at(seconds: u64) -> Instant {
        "2026-01-01".parse::<Instant>().unwrap().saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn a_node_takes_over_the_service_of_the_others_until_it_has_an_outage() {
        let mut cluster = ClusterService::new(Nodes::Multiple, LOOKAHEAD);
        assert_eq!(cluster.since(at(100)), at(100));
        cluster.learn(at(100), Some(at(10)));
        cluster.learn(at(100), Some(at(90)));
        cluster.learn(at(100), None);
        assert_eq!(cluster.since(at(100)), at(10), "the first node may be gone by now");
        assert_eq!(cluster.since(at(500)), at(500), "the node had an outage");
        cluster.learn(at(500), Some(at(90)));
        assert_eq!(cluster.since(at(500)), at(90));
    }

    #[test]
    fn a_decision_waits_for_the_first_response_but_not_forever() {
        let second = Duration::from_secs(1);
        assert!(ClusterService::new(Nodes::Single, LOOKAHEAD).is_decided(at(1), second));
        let mut cluster = ClusterService::new(Nodes::Multiple, LOOKAHEAD);
        assert!(!cluster.is_decided(at(1), second));
        assert!(!cluster.is_decided(at(1), second + UNDECIDED_MAX / 2));
        assert!(cluster.is_decided(at(1), second + UNDECIDED_MAX));
        cluster.learn(at(1), None);
        assert!(cluster.is_decided(at(1), second));
        assert!(!cluster.is_decided(at(2), second));
    }
}
