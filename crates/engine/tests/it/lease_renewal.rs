//! Renewal of leases when a commit fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kalends_engine::EngineSettings;
use kalends_recurrence::Instant;
use kalends_store::memory::MemoryStore;
use kalends_store::record::{GateState, JobForRun, JobKey, OpenRun};
use kalends_store::{
    ApiStore, Due, EngineStore, LeaseClock, Reply, Retention, RunWrite, RunWriteResult, ScanPage,
    StoreError,
};

use crate::world::{Response, World, at, job, run};

/// A store whose next commit can be made to fail.
struct FailingStore {
    inner: Arc<MemoryStore>,
    fails_next: AtomicBool,
}

impl LeaseClock for FailingStore {
    fn now(&self) -> Reply<'_, Instant> {
        self.inner.now()
    }
}

impl EngineStore for FailingStore {
    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        match self.fails_next.swap(false, Ordering::Relaxed) {
            true => Box::pin(std::future::ready(Err(StoreError::Busy("planned".into())))),
            false => self.inner.commit(writes),
        }
    }

    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        self.inner.due(until, limit)
    }

    fn jobs_for_run(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<JobForRun>>> {
        self.inner.jobs_for_run(jobs)
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        self.inner.gate_states(jobs)
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        self.inner.claimable(until, limit)
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

#[test]
fn a_failed_renewal_is_retried_before_the_renewals_of_younger_claims() {
    run(async {
        let mut world = World::new().await;
        let inner = world.store.clone();
        let store = Arc::new(FailingStore { inner, fails_next: AtomicBool::new(false) });
        let commit_interval = Duration::ZERO;
        let settings = EngineSettings { commit_interval, ..EngineSettings::default() };
        world.start_engine_on(store.clone(), settings);
        world.respond(&[Response::Hang, Response::Hang]);
        let older = world.put("older", job(&at(10), None)).await;
        world.put("younger", job(&at(14), None)).await;
        world.pass(14).await;
        assert_eq!(world.calls().len(), 2);
        let lease_until = async || {
            let open = world.store.open_runs(older.key).await.unwrap();
            open[0].claim.unwrap().lease_until
        };
        let first = lease_until().await;
        // The lease of the older claim is half expired; its renewal fails once.
        store.fails_next.store(true, Ordering::Relaxed);
        world.pass(1).await;
        assert!(!store.fails_next.load(Ordering::Relaxed), "a renewal was committed");
        assert_eq!(lease_until().await, first);
        world.pass(2).await;
        assert!(lease_until().await > first, "the younger claim is not renewed before 19 s");
    });
}
