//! Runs that were claimed before their host had a free slot: their attempts start when others end.

use std::collections::{HashMap, VecDeque};

use kalends_store::record::SlotKey;

use super::Scheduler;
use crate::admission::Slot;
use crate::worker::{Assignment, run_assignments};

/// Assignments by host, in the order of their claims.
#[derive(Default)]
pub(super) struct ClaimedAhead {
    hosts: HashMap<SlotKey, VecDeque<Assignment>>,
    count: usize,
}

impl ClaimedAhead {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn push(&mut self, assignment: Assignment) {
        self.hosts.entry(assignment.slot.host).or_default().push_back(assignment);
        self.count += 1;
    }

    fn pop(&mut self, host: SlotKey) -> Option<Assignment> {
        let queue = self.hosts.get_mut(&host)?;
        let first = queue.pop_front()?;
        if queue.is_empty() {
            self.hosts.remove(&host);
        }
        self.count -= 1;
        Some(first)
    }
}

impl Scheduler {
    /// Starts the attempts whose host has a free slot. The others follow when attempts end.
    pub(super) fn start_attempts(&mut self, assignments: Vec<Assignment>) {
        let mut started = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            match self.admission.try_start(assignment.slot) {
                true => started.push(assignment),
                false => self.claimed_ahead.push(assignment),
            }
        }
        self.execute(started);
    }

    /// The attempt that starts now that one at the same host has ended.
    pub(super) fn next_claimed(&mut self, ended: Slot) -> Option<Assignment> {
        let next = self.claimed_ahead.pop(ended.host)?;
        // There is a free slot: one has just been returned, and this is the only queue for it.
        self.admission.try_start(next.slot);
        Some(next)
    }

    pub(super) fn execute(&self, assignments: Vec<Assignment>) {
        if !assignments.is_empty() {
            let (services, results) = (self.services.clone(), self.results.0.clone());
            tokio::spawn(run_assignments(assignments, services, results));
        }
    }

    /// Releases the claims of runs whose attempts have not started.
    pub(super) fn return_claimed_ahead(&mut self) {
        for assignment in std::mem::take(&mut self.claimed_ahead).hosts.into_values().flatten() {
            self.return_assignment(assignment);
        }
    }
}
