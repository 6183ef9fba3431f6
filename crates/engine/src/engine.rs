//! The public handle of a running engine: start, nudge, stop.

use std::sync::Arc;

use kalends_actions::ActionExecutor;
use kalends_environment::Clock;
use kalends_store::EngineStore;
use kalends_store::record::NodeId;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::scheduler::Scheduler;
use crate::settings::EngineSettings;
use crate::status::EngineStatus;

/// Makes the engine load due jobs immediately after an edit. It carries no data, and a lost nudge
/// only delays the next load.
#[derive(Clone, Debug, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    /// Requests a load.
    pub fn nudge(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn nudged(&self) {
        self.0.notified().await;
    }
}

/// Handle of a running engine. Dropping it aborts the engine without a graceful shutdown.
pub struct Engine {
    nudge: Nudge,
    clock: Arc<dyn Clock>,
    status: EngineStatus,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Engine {
    /// Starts the engine on the current Tokio runtime.
    pub fn start(
        store: Arc<dyn EngineStore>,
        clock: Arc<dyn Clock>,
        executor: Arc<dyn ActionExecutor>,
        node: NodeId,
        settings: EngineSettings,
    ) -> Engine {
        let nudge = Nudge::default();
        let (stop, stopping) = watch::channel(false);
        let scheduler = Scheduler::new(store, clock, executor, node, settings);
        let (clock, status) = (scheduler.clock(), scheduler.status());
        let task = tokio::spawn(scheduler.run(nudge.clone(), stopping));
        Engine { nudge, clock, status, stop, task }
    }

    /// The clock that decides due times: the store's clock if several nodes share the store.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// A handle that requests loads from this engine.
    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }

    /// Observes whether the engine makes progress.
    pub fn status(&self) -> EngineStatus {
        self.status.clone()
    }

    /// Completes when the engine no longer runs: after [`Engine::stop`], or if its loop panicked.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let stop = self.stop.clone();
        // The loop owns the only receiver.
        async move { stop.closed().await }
    }

    /// Starts no more attempts, waits up to the grace period for attempts in flight, and releases the
    /// remaining claims.
    pub async fn stop(self) {
        // An error means that the engine has already stopped.
        let _ = self.stop.send(true);
        drop(self.task.await);
    }
}
