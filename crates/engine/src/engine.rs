//! The engine as the rest of the program sees it: started, nudged, stopped.

use std::sync::Arc;

use kalends_actions::ActionExecutor;
use kalends_environment::Clock;
use kalends_store::Store;
use kalends_store::record::NodeId;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::scheduler::Scheduler;
use crate::settings::EngineSettings;

/// Tells the engine that something has changed. It carries nothing: the engine looks for itself,
/// and would look without it a little later.
#[derive(Clone, Debug, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    /// Something has changed.
    pub fn nudge(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn nudged(&self) {
        self.0.notified().await;
    }
}

/// The engine, running.
pub struct Engine {
    nudge: Nudge,
    clock: Arc<dyn Clock>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Engine {
    /// Starts the engine. It works until it is stopped.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        executor: Arc<dyn ActionExecutor>,
        node: NodeId,
        settings: EngineSettings,
    ) -> Engine {
        let nudge = Nudge::default();
        let (stop, stopping) = watch::channel(false);
        let ledger = Scheduler::new(store, clock, executor, node, settings);
        let clock = ledger.clock();
        let task = tokio::spawn(ledger.run(nudge.clone(), stopping));
        Engine { nudge, clock, stop, task }
    }

    /// The clock that this engine goes by: that of the store, where others share it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// What tells this engine that something has changed.
    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }

    /// Begins nothing more, lets attempts under way end within the grace time, hands back the rest.
    pub async fn stop(self) {
        // Where the engine has ended already there is nobody to tell.
        let _ = self.stop.send(true);
        drop(self.task.await);
    }
}
