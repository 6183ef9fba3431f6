//! One process with an engine: runs until it is idle, shuts down gracefully, or crashes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use kalends_actions::ActionExecutor;
use kalends_engine::{Engine, EngineSettings, Nudge};
use kalends_environment::Clock;
use kalends_store::Store;
use kalends_store::record::NodeId;
use tokio::runtime::{Builder, Runtime};

/// A process with an engine. Dropping it simulates a crash: every task ends at its current await.
pub struct Node {
    runtime: Runtime,
    idle: Arc<Idle>,
    engine: Option<Engine>,
    nudge: Nudge,
    stopped: Arc<AtomicBool>,
}

/// Signalled by the runtime when it parks, that is when no task can make progress.
#[derive(Default)]
struct Idle {
    reached: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Idle {
    fn reach(&self) {
        self.reached.store(true, Ordering::Relaxed);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Node {
    /// Starts an engine on a single-threaded runtime.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        executor: Arc<dyn ActionExecutor>,
        id: NodeId,
        settings: EngineSettings,
    ) -> io::Result<Node> {
        let idle = Arc::new(Idle::default());
        let signal = Arc::clone(&idle);
        let runtime =
            Builder::new_current_thread().on_thread_park(move || signal.reach()).build()?;
        let entered = runtime.enter();
        let engine = Engine::start(store, clock, executor, id, settings);
        drop(entered);
        let nudge = engine.nudge();
        Ok(Node { runtime, idle, engine: Some(engine), nudge, stopped: Arc::default() })
    }

    /// Runs until every task waits for a timer.
    pub fn run_until_idle(&self) {
        self.idle.reached.store(false, Ordering::Relaxed);
        self.runtime.block_on(std::future::poll_fn(|context| {
            if self.idle.reached.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            let mut waker = self.idle.waker.lock().unwrap_or_else(PoisonError::into_inner);
            *waker = Some(context.waker().clone());
            Poll::Pending
        }));
    }

    /// Makes the engine load due jobs at once.
    pub fn nudge(&self) {
        self.nudge.nudge();
    }

    /// Starts a graceful shutdown.
    pub fn stop(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        let stopped = Arc::clone(&self.stopped);
        self.runtime.spawn(async move {
            engine.stop().await;
            stopped.store(true, Ordering::Relaxed);
        });
    }

    /// Whether the graceful shutdown has finished.
    pub fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
