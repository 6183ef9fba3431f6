//! The engine's own thread.

use std::io;
use std::thread::{self, JoinHandle};

use kalends_engine::Engine;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// An engine and the thread that it has for itself. What is to be done for a run follows each other
/// within microseconds: to hand it from thread to thread costs more than most of it does.
pub(super) struct EngineThread {
    engine: Engine,
    /// The thread ends when this is dropped.
    open: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl EngineThread {
    /// Starts an engine there.
    pub(super) fn start(start: impl FnOnce() -> Engine) -> io::Result<EngineThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let engine = {
            let _inside = runtime.enter();
            start()
        };
        let (open, closed) = oneshot::channel();
        let thread = thread::Builder::new().name("engine".into()).spawn(move || {
            // Nobody sends anything.
            let _ = runtime.block_on(closed);
            runtime.shutdown_background();
        })?;
        Ok(EngineThread { engine, open, thread })
    }

    /// The engine.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops the engine, and then ends the thread.
    pub(super) async fn stop(self) {
        self.engine.stop().await;
        drop(self.open);
        // A thread that has panicked has ended as well.
        drop(self.thread.join());
    }
}
