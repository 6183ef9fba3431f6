//! An engine at work on a damaged store, with a clock that is moved by hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kalends_actions::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest};
use kalends_domain::Outcome;
use kalends_engine::{Engine, EngineMetrics, EngineSettings};
use kalends_environment::{Clock, ManualClock};
use kalends_metrics::{Exposition, Metrics};
use kalends_recurrence::Instant;
use kalends_store::record::NodeId;
use kalends_store::{JobContext, JobWrite, Store};

use crate::sample::job_path;

/// Much longer than any damage stays unnoticed, and not so long that a claim is over.
const SECONDS_MAX: u64 = 3_000;
/// Questions to the store for each second: what the engine asked before is answered then, or soon
/// where a store answers several at once.
const QUESTIONS: usize = 6;

/// A target that takes everything.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Vec<Instant>>);

impl ActionExecutor for Calls {
    fn execute(&self, order: AttemptRequest) -> AttemptFuture<'_> {
        self.0.lock().unwrap().push(order.scheduled);
        Box::pin(std::future::ready(AttemptReport::new(Outcome::Succeeded, "taken")))
    }
}

pub(crate) struct Mending {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    calls: Arc<Calls>,
    metrics: Arc<EngineMetrics>,
    engine: Engine,
}

impl Mending {
    pub(crate) fn start(store: Arc<dyn Store>, clock: &Arc<ManualClock>) -> Mending {
        let (calls, metrics) = (Arc::new(Calls::default()), Arc::new(EngineMetrics::default()));
        // The clock is moved faster than a disk can follow.
        let (engine_metrics, lease) = (metrics.clone(), Duration::from_secs(3_600));
        let settings =
            EngineSettings { metrics: engine_metrics, lease, ..EngineSettings::default() };
        let (kept, clock) = (store.clone(), clock.clone());
        let engine = Engine::start(store, clock.clone(), calls.clone(), NodeId(1), settings);
        Mending { store: kept, clock, calls, metrics, engine }
    }

    /// Lets time pass, second by second, until it is so.
    pub(crate) async fn until(&self, is_so: impl AsyncFn(&Mending) -> bool) {
        for _ in 0..SECONDS_MAX {
            for _ in 0..QUESTIONS {
                self.store.due(Instant::MIN, 1).await.unwrap();
                // A write that changes nothing comes after those that were asked for before.
                let keep = |_: JobContext<'_>| Ok(JobWrite::Keep);
                let path = job_path("c", "none").unwrap();
                self.store.edit_job(path, Box::new(keep)).await.unwrap();
            }
            if is_so(self).await {
                return;
            }
            self.clock.set(self.clock.now().checked_add(Duration::from_secs(1)).unwrap());
        }
        panic!("it did not come to that; found: {:?}", self.found());
    }

    /// What was found, as `kind count`.
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

    pub(crate) fn surveys(&self) -> u64 {
        self.metrics.scans_completed()
    }

    /// The instants that the target was called for.
    pub(crate) fn calls(&self) -> Vec<Instant> {
        self.calls.0.lock().unwrap().clone()
    }

    pub(crate) async fn stop(self) {
        self.engine.stop().await;
    }
}
