//! Runs that were claimed before their host had a free slot: their attempts start when others end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kalends_store::record::SlotKey;

use super::Scheduler;
use crate::admission::Slot;
use crate::worker::{Assignment, run_assignments};

/// Runs wait at most this long with a claim: as many are claimed as a host completes in half of it. A
/// host that needs more time has become slow, and another node may have free slots for it.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Assignments by host, in the order of their claims, with the uptimes since which they wait.
#[derive(Default)]
pub(super) struct ClaimedAhead {
    hosts: BTreeMap<SlotKey, VecDeque<(Duration, Box<Assignment>)>>,
    count: usize,
}

impl ClaimedAhead {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Uptime at which the first run has waited for [`WAIT_MAX`].
    pub(super) fn next_overdue(&self) -> Option<Duration> {
        self.hosts
            .values()
            .filter_map(|queue| queue.front())
            .map(|(since, _)| *since + WAIT_MAX)
            .min()
    }

    fn push(&mut self, assignment: Box<Assignment>, now: Duration) {
        self.hosts.entry(assignment.slot.host).or_default().push_back((now, assignment));
        self.count += 1;
    }

    /// Removes and returns the runs that have waited for [`WAIT_MAX`].
    fn take_overdue(&mut self, now: Duration) -> Vec<Box<Assignment>> {
        let mut overdue = Vec::new();
        for queue in self.hosts.values_mut() {
            let count = queue.partition_point(|(since, _)| *since + WAIT_MAX <= now);
            overdue.extend(queue.drain(..count).map(|(_, assignment)| assignment));
        }
        self.hosts.retain(|_, queue| !queue.is_empty());
        self.count -= overdue.len();
        overdue
    }

    fn pop(&mut self, host: SlotKey) -> Option<Box<Assignment>> {
        let queue = self.hosts.get_mut(&host)?;
        let (_, first) = queue.pop_front()?;
        if queue.is_empty() {
            self.hosts.remove(&host);
        }
        self.count -= 1;
        Some(first)
    }
}

impl Scheduler {
    /// Starts the attempts whose host has a free slot. The others follow when attempts end.
    pub(super) fn start_attempts(&mut self, assignments: Vec<Box<Assignment>>) {
        let now = self.services.clock.uptime();
        let mut started = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            match self.admission.try_start(assignment.slot) {
                true => started.push(assignment),
                false => self.claimed_ahead.push(assignment, now),
            }
        }
        self.execute(started);
    }

    /// The attempt that starts now that one at the same host has ended.
    pub(super) fn next_claimed(&mut self, ended: Slot) -> Option<Box<Assignment>> {
        let next = self.claimed_ahead.pop(ended.host)?;
        // There is a free slot: one has just been returned, and this is the only queue for it.
        self.admission.try_start(next.slot);
        Some(next)
    }

    pub(super) fn execute(&self, assignments: Vec<Box<Assignment>>) {
        if !assignments.is_empty() {
            let (services, workers) = (self.services.clone(), Arc::clone(&self.workers));
            tokio::spawn(run_assignments(assignments, services, workers, self.results.0.clone()));
        }
    }

    /// Releases the claims of runs whose attempts have not started.
    pub(super) fn return_claimed_ahead(&mut self) {
        for (_, assignment) in std::mem::take(&mut self.claimed_ahead).hosts.into_values().flatten()
        {
            self.return_assignment(assignment);
        }
    }

    /// Releases the claims of runs that have waited for too long. They wait without a claim from now on.
    pub(super) fn return_overdue_claims(&mut self) {
        let now = self.services.clock.uptime();
        for assignment in self.claimed_ahead.take_overdue(now) {
            self.return_assignment(assignment);
        }
    }
}
