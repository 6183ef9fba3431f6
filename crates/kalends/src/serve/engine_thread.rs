//! A dedicated thread for the engine.

use std::io;
use std::thread::{self, JoinHandle};

use kalends_engine::Engine;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// An engine on its own single-threaded runtime. The steps of a run follow each other within
/// microseconds; moving them between threads would cost more than most of the steps.
pub(super) struct EngineThread {
    engine: Engine,
    /// Dropping the sender ends the thread.
    open: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl EngineThread {
    /// Starts the thread, and on it the engine that `start` returns.
    pub(super) fn start(start: impl FnOnce() -> Engine) -> io::Result<EngineThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let engine = {
            let _inside = runtime.enter();
            start()
        };
        let (open, closed) = oneshot::channel();
        let thread = thread::Builder::new().name("engine".into()).spawn(move || {
            // Returns when the sender is dropped.
            let _ = runtime.block_on(closed);
            runtime.shutdown_background();
        })?;
        Ok(EngineThread { engine, open, thread })
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits for attempts in flight, then stops the engine and its thread.
    pub(super) async fn stop(self) {
        self.engine.stop().await;
        drop(self.open);
        // A thread that panicked has ended too.
        drop(self.thread.join());
    }
}
