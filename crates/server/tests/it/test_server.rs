//! A server for tests, with a store in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kalends_environment::{Clock, SeededEntropy, SystemClock};
use kalends_server::{
    AccessControl, App, AuditLog, EventSubscriptions, Health, PositionKey, SchedulerHealth,
    Settings, TestRuns, Timeouts, Tls, serve,
};
use kalends_store::memory::MemoryStore;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc?api-version=2026-11-01";
/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(3600);
pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// A running server.
pub(crate) struct Server {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) address: SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
}

/// Starts a server with timeouts for request heads and bodies.
pub(crate) async fn start(head: Duration, body: Duration) -> Server {
    let timeouts = Timeouts { request_head: head, request_body: body, keep_alive: head };
    start_with(Settings { timeouts, ..Settings::default() }, None).await
}

pub(crate) async fn start_with(settings: Settings, tls: Option<Arc<Tls>>) -> Server {
    start_at(settings, tls, Arc::new(SystemClock), Arc::new(SystemClock)).await
}

/// Starts a server that requires tokens.
pub(crate) async fn start_with_access(access: AccessControl) -> Server {
    let clock = Arc::new(SystemClock);
    start_full(Settings::default(), None, clock.clone(), clock, access).await
}

/// Starts a server whose clock may differ from that of its store.
pub(crate) async fn start_at(
    settings: Settings,
    tls: Option<Arc<Tls>>,
    clock: Arc<dyn Clock>,
    store_clock: Arc<dyn Clock>,
) -> Server {
    let access = AccessControl::single_user(AuditLog::off());
    start_full(settings, tls, clock, store_clock, access).await
}

async fn start_full(
    settings: Settings,
    tls: Option<Arc<Tls>>,
    clock: Arc<dyn Clock>,
    store_clock: Arc<dyn Clock>,
    access: AccessControl,
) -> Server {
    let entropy = Arc::new(SeededEntropy::new(1));
    let store = Arc::new(MemoryStore::new(store_clock));
    let health = Health::new(store.clone(), clock.clone(), SchedulerHealth::OnHold);
    let app = App {
        store: store.clone(),
        clock,
        health: Arc::new(health),
        position_key: PositionKey::new(&[7; 32]),
        on_edit: Arc::new(|| {}),
        id_entropy: entropy.clone(),
        entropy,
        events: EventSubscriptions::new(&access),
        test_runs: TestRuns::new(None, LONG, &access),
        access: Arc::new(access),
        settings: Arc::new(settings),
        metrics: Arc::default(),
        certificates: Default::default(),
        overview: Default::default(),
        node: Default::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, app, tls, async {
        let _ = stopped.await;
    }));
    Server { store, address, stop, task }
}
