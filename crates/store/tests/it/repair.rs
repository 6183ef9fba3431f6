//! Runs an engine on a damaged store with a manual clock, for tests of the invariant scan and repair.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kalends_actions::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, SendFence};
use kalends_domain::Outcome;
use kalends_engine::{Engine, EngineMetrics, EngineSettings};
use kalends_environment::{Clock, ManualClock};
use kalends_metrics::{Exposition, Metrics};
use kalends_recurrence::Instant;
use kalends_store::record::NodeId;
use kalends_store::{JobContext, JobWrite, Store};

use crate::sample::job_path;

/// Longer than the invariant scan needs to find any damage, shorter than the lease.
const SECONDS_MAX: u64 = 3_000;
/// Calls to the store per second of the clock. They let earlier calls of the engine complete first.
const CALLS_PER_SECOND: usize = 6;

/// A target that accepts every request and records its scheduled time.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Vec<Instant>>);

impl ActionExecutor for Calls {
    fn execute<'a>(&'a self, request: AttemptRequest<'a>, _: SendFence) -> AttemptFuture<'a> {
        self.0.lock().unwrap().push(request.scheduled);
        Box::pin(std::future::ready(Ok(AttemptReport::new(Outcome::Succeeded, "accepted"))))
    }
}

pub(crate) struct RepairTest {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    calls: Arc<Calls>,
    metrics: Arc<EngineMetrics>,
    engine: Engine,
}

impl RepairTest {
    pub(crate) fn start(store: Arc<dyn Store>, clock: &Arc<ManualClock>) -> RepairTest {
        let (calls, metrics) = (Arc::new(Calls::default()), Arc::new(EngineMetrics::default()));
        // The clock advances faster than the disk can write.
        let (engine_metrics, lease) = (metrics.clone(), Duration::from_secs(3_600));
        let settings =
            EngineSettings { metrics: engine_metrics, lease, ..EngineSettings::default() };
        let (observed, clock) = (store.clone(), clock.clone());
        let engine = Engine::start(store, clock.clone(), calls.clone(), NodeId(1), settings);
        RepairTest { store: observed, clock, calls, metrics, engine }
    }

    /// Advances the clock second by second until the condition holds.
    pub(crate) async fn until(&self, condition: impl AsyncFn(&RepairTest) -> bool) {
        for _ in 0..SECONDS_MAX {
            for _ in 0..CALLS_PER_SECOND {
                self.store.due(Instant::MIN, 1).await.unwrap();
                // A write without effect completes after all earlier writes.
                let keep = |_: JobContext<'_>| Ok(JobWrite::Keep);
                let path = job_path("c", "none").unwrap();
                self.store.edit_job(path, Box::new(keep)).await.unwrap();
            }
            if condition(self).await {
                return;
            }
            self.clock.set(self.clock.now().checked_add(Duration::from_secs(1)).unwrap());
        }
        panic!("timeout; violations found: {:?}", self.found());
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> String {
        let mut page = Exposition::default();
        self.metrics.write(&mut page);
        let text = page.finish();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().to_owned()
    }

    /// The violations that the scan found, as `kind count`.
    pub(crate) fn found(&self) -> Vec<String> {
        let mut page = Exposition::default();
        self.metrics.write(&mut page);
        let text = page.finish();
        let lines = text.lines().filter_map(|line| {
            let (kind, count) = line
                .strip_prefix("kalends_invariant_violations_total{kind=\"")?
                .split_once("\"} ")?;
            (count != "0").then(|| format!("{kind} {count}"))
        });
        lines.collect()
    }

    pub(crate) fn scans_completed(&self) -> u64 {
        self.metrics.scans_completed()
    }

    /// The scheduled times for which the target was called.
    pub(crate) fn calls(&self) -> Vec<Instant> {
        self.calls.0.lock().unwrap().clone()
    }

    pub(crate) async fn stop(self) {
        self.engine.stop().await;
    }
}
