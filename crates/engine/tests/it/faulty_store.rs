//! A store in memory with injected faults.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kalends_environment::{Clock, ManualClock};
use kalends_recurrence::Instant;
use kalends_store::memory::MemoryStore;
use kalends_store::record::{GateState, JobForRun, JobKey, OpenRun, PauseRecord, SlotKey};
use kalends_store::{
    Due, EngineStore, Heartbeat, JobAt, LeaseClock, LeaseRenewal, ParkedRuns, PauseState,
    RenewalResult, Reply, Retention, RunWrite, RunWriteResult, ScanPage, StoreError, UnreadableJob,
};

/// A store whose calls fail or respond late on request.
pub(crate) struct FaultyStore {
    inner: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    /// The next renewal of leases fails.
    pub(crate) next_renewal_fails: AtomicBool,
    /// Every renewal of leases fails.
    pub(crate) renewals_fail: AtomicBool,
    /// Commits do not return.
    pub(crate) commits_hang: AtomicBool,
    /// Every commit fails: a full disk, or a read-only database.
    pub(crate) commits_fail: AtomicBool,
    /// Reads of due jobs panic.
    pub(crate) panics: AtomicBool,
    /// Reads of gate states fail.
    pub(crate) gates_fail: AtomicBool,
    /// Jobs whose definitions cannot be read.
    pub(crate) unreadable: Mutex<BTreeSet<JobKey>>,
    /// Time between the read of gate states and the response, for the next calls.
    pub(crate) gate_delays: Mutex<VecDeque<Duration>>,
    /// The same for definitions of due jobs.
    pub(crate) definition_delays: Mutex<VecDeque<Duration>>,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<MemoryStore>, clock: Arc<ManualClock>) -> Arc<FaultyStore> {
        Arc::new(FaultyStore {
            inner,
            clock,
            next_renewal_fails: AtomicBool::new(false),
            renewals_fail: AtomicBool::new(false),
            commits_hang: AtomicBool::new(false),
            commits_fail: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            gates_fail: AtomicBool::new(false),
            unreadable: Mutex::default(),
            gate_delays: Mutex::default(),
            definition_delays: Mutex::default(),
        })
    }
}

impl LeaseClock for FaultyStore {
    fn now(&self) -> Reply<'_, Instant> {
        self.inner.now()
    }
}

impl PauseState for FaultyStore {
    fn pause(&self) -> Reply<'_, Option<PauseRecord>> {
        self.inner.pause()
    }
}

impl EngineStore for FaultyStore {
    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        if self.commits_hang.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        match self.commits_fail.load(Ordering::Relaxed) {
            true => Box::pin(std::future::ready(Err(StoreError::Full))),
            false => self.inner.commit(writes),
        }
    }

    fn renew_leases(&self, renewals: Vec<LeaseRenewal>) -> Reply<'_, Vec<RenewalResult>> {
        let fails_once = self.next_renewal_fails.swap(false, Ordering::Relaxed);
        match fails_once || self.renewals_fail.load(Ordering::Relaxed) {
            true => Box::pin(std::future::ready(Err(StoreError::Busy("planned".into())))),
            false => self.inner.renew_leases(renewals),
        }
    }

    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        assert!(!self.panics.load(Ordering::Relaxed), "planned");
        self.inner.due_between(from, until, limit)
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        let unreadable = self.unreadable.lock().unwrap();
        let found = jobs.iter().map(|at| at.job).filter(|job| unreadable.contains(job));
        let describe = |key| UnreadableJob { key, path: None, reason: "planned".into() };
        let found: Vec<_> = found.map(describe).collect();
        if !found.is_empty() {
            return Box::pin(std::future::ready(Err(StoreError::Unreadable(found))));
        }
        let delay = self.definition_delays.lock().unwrap().pop_front().unwrap_or_default();
        Box::pin(async move {
            let jobs = self.inner.jobs_for_run_at(jobs).await;
            self.clock.sleep(delay).await;
            jobs
        })
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        if self.gates_fail.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(StoreError::Busy("planned".into()))));
        }
        let delay = self.gate_delays.lock().unwrap().pop_front().unwrap_or_default();
        Box::pin(async move {
            let states = self.inner.gate_states(jobs).await;
            self.clock.sleep(delay).await;
            states
        })
    }

    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>> {
        self.inner.record_heartbeat(heartbeat)
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        self.inner.claimable(until, limit)
    }

    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        self.inner.parked(key, limit)
    }

    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>> {
        self.inner.parked_keys(limit)
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        self.inner.expire_claims()
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        self.inner.prune(retention, now, limit)
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        self.inner.scan_jobs(after, scan_max)
    }
}
