//! Parked runs: runs that are due and have no free slot wait in the store instead of in memory, however
//! many they are. They are read when slots of their host or collection are free, earliest first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kalends_store::record::{OpenRun, RunId, SlotKey};
use kalends_store::{ParkedRuns, StoreError};

use super::start_runs::{ItemToRead, Stage};
use super::store_calls::{READ_BATCH_MAX, StoreResponse};
use super::{CLAIM_AHEAD, DueItem, Scheduler};
use crate::admission::Slot;
use crate::status::CallKind;

/// Maximum number of hosts and collections with parked runs that a load reads.
pub(super) const PARKED_KEYS_MAX: usize = 10_000;
/// Maximum number of concurrent reads of parked runs.
const READS_MAX: usize = 2;
/// Pause of a host or collection after a parked run could not be claimed.
const PAUSE: Duration = Duration::from_millis(100);

/// The hosts and collections that are known to have parked runs.
#[derive(Default)]
pub(super) struct ParkedKeys {
    keys: BTreeMap<SlotKey, KeyState>,
    /// Runs that were read and are neither claimed nor given up yet.
    in_memory: BTreeMap<RunId, SlotKey>,
    /// Number of reads in flight.
    reading: usize,
}

#[derive(Default)]
struct KeyState {
    is_reading: bool,
    /// Number of runs in memory. The next ones are read after them.
    in_memory: usize,
    /// A run was parked after the last read began.
    has_new: bool,
    /// Number of runs of the last read that cannot start, such as those of unreadable jobs. The next
    /// read includes as many more, so that they do not hold up the others.
    skipped: usize,
    /// Uptime before which no run is read.
    not_before: Duration,
}

impl ParkedKeys {
    /// Records that a run was parked.
    pub(super) fn add(&mut self, key: SlotKey) {
        self.keys.entry(key).or_default().has_new = true;
    }

    /// The host or collection of a slot that has parked runs, which come first.
    pub(super) fn key_of(&self, slot: Slot) -> Option<SlotKey> {
        [slot.host, slot.collection].into_iter().find(|key| self.keys.contains_key(key))
    }

    /// Records that a run left memory because it was claimed.
    pub(super) fn claimed(&mut self, run: RunId) {
        let key = self.in_memory.remove(&run);
        if let Some(state) = key.and_then(|key| self.keys.get_mut(&key)) {
            state.in_memory = state.in_memory.saturating_sub(1);
        }
    }

    /// Records that a run left memory and may still be parked.
    pub(super) fn given_up(&mut self, run: RunId, uptime: Duration) {
        let key = self.in_memory.get(&run).copied();
        self.claimed(run);
        if let Some(state) = key.and_then(|key| self.keys.get_mut(&key)) {
            state.not_before = uptime + PAUSE;
        }
    }
}

impl KeyState {
    fn is_idle(&self) -> bool {
        !self.is_reading && self.in_memory == 0
    }
}

impl Scheduler {
    /// Reads parked runs of hosts and collections with free slots.
    pub(super) fn read_parked_runs(&mut self) {
        let elapsed = self.services.clock.uptime();
        let admission = &self.admission;
        let reads = READS_MAX.saturating_sub(self.parked.reading);
        let idle = self.parked.keys.iter_mut();
        let idle = idle.filter(|(_, state)| state.is_idle() && state.not_before <= elapsed);
        let free = idle.map(|(key, state)| (*key, state, admission.free_slots_of(*key)));
        for (key, state, free) in free.filter(|(.., free)| *free > 0).take(reads) {
            (state.is_reading, state.has_new) = (true, false);
            self.parked.reading += 1;
            let store = Arc::clone(&self.services.store);
            let limit = free.min(READ_BATCH_MAX) + state.skipped;
            self.store_calls.push(Box::pin(async move {
                let runs = store.parked(key, limit).await;
                StoreResponse::Parked { key, limit, runs }
            }));
        }
    }

    /// Uptime from which paused hosts and collections may be read again.
    pub(super) fn read_parked_at(&self) -> Option<Duration> {
        let elapsed = self.services.clock.uptime();
        let paused = self.parked.keys.iter().filter(|(key, state)| {
            state.is_idle() && state.not_before > elapsed && self.admission.free_slots_of(**key) > 0
        });
        paused.map(|(_, state)| state.not_before).min()
    }

    pub(super) fn handle_parked_runs(
        &mut self,
        key: SlotKey,
        limit: usize,
        runs: Result<Vec<OpenRun>, StoreError>,
    ) {
        self.parked.reading -= 1;
        let soon = self.now().saturating_add(2 * CLAIM_AHEAD);
        let state = self.parked.keys.entry(key).or_default();
        (state.is_reading, state.skipped) = (false, 0);
        let Ok(runs) = runs else { return self.pause_store_calls(CallKind::Read) };
        let is_last = runs.len() < limit && !state.has_new;
        for run in runs {
            let is_skipped =
                self.held_claims.contains_key(&run.id) || self.unreadable.contains(run.job);
            // The clock was set back since it was due: it waits for its time without a slot.
            if run.progress.next_at > soon && !self.busy_runs.contains(&run.id) && !is_skipped {
                self.timetable.add_run(run);
                continue;
            }
            if is_skipped || !self.busy_runs.insert(run.id) {
                state.skipped += 1;
                continue;
            }
            state.in_memory += 1;
            self.parked.in_memory.insert(run.id, key);
            self.items_to_read
                .push_back(ItemToRead { item: DueItem::Run(run), stage: Stage::Parked });
        }
        match is_last {
            true => drop(self.parked.keys.remove(&key)),
            // Another part of the scheduler works on all of them.
            false if state.in_memory == 0 => {
                state.not_before = self.services.clock.uptime() + PAUSE;
            }
            false => {}
        }
        let now = self.now();
        self.outage.call_succeeded(CallKind::Read, now);
    }

    /// Adds the hosts and collections that a load found.
    pub(super) fn add_parked_keys(&mut self, parked: &[ParkedRuns]) {
        for ParkedRuns { key, .. } in parked {
            self.parked.keys.entry(*key).or_default();
        }
        self.settings.metrics.set_parked_runs(parked.iter().map(|parked| parked.count).sum());
    }
}
