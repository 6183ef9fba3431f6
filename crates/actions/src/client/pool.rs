//! Connection pool.
//!
//! The [`PoolKey`] decides which requests share a connection: never those of two collections or two
//! identities. Each key has a limit of requests in flight; further requests wait for a permit.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use foldhash::HashMap;
use kalends_domain::CollectionPath;
use kalends_environment::Stopwatch;
use tokio::sync::{Notify, Semaphore};
use url::Host;

use super::http1::Http1;
use super::http2::Http2;
use crate::egress::Security;

/// Idle time after which a connection is closed. Many servers close theirs after five seconds, and
/// a request sent at that moment is lost.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Interval between searches for expired connections, while there are any.
const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// Idle HTTP/1.1 connections of all targets: each is a file descriptor.
const IDLE_CONNECTIONS_MAX: usize = 1_024;
/// Targets in the pool. When it is full, targets without connections and requests are evicted.
const TARGETS_MAX: usize = 4_096;

/// Requests with equal keys share connections. The proxy is the same for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) collection: CollectionPath,
    /// The first of the checked addresses.
    pub(super) address: SocketAddr,
    pub(super) security: Security,
    pub(super) host: Host<String>,
    /// Digest of the client certificate.
    pub(super) identity: Option<[u8; 32]>,
}

/// The connections of one key.
pub(super) struct TargetPool {
    /// One permit for each request in flight.
    pub(super) permits: Semaphore,
    /// Notified when a connection becomes idle, maybe long before: the waiter looks again.
    pub(super) idle_added: Notify,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    /// Idle connections. The most recent one is reused first, so that the others expire.
    http1: Vec<(Stopwatch, Http1)>,
    /// The shared connection, with the time since its last use.
    http2: Option<(Stopwatch, Http2)>,
}

/// The pools of all targets.
pub(super) struct Pool {
    shared: Arc<Shared>,
    requests_per_target_max: usize,
}

#[derive(Default)]
struct Shared {
    targets: Mutex<HashMap<PoolKey, Arc<TargetPool>>>,
    /// Idle HTTP/1.1 connections.
    idle_count: AtomicUsize,
    /// Whether the reaper task is running.
    is_reaping: Mutex<bool>,
}

impl Pool {
    pub(super) fn new(requests_per_target_max: usize) -> Pool {
        Pool { shared: Arc::default(), requests_per_target_max }
    }

    pub(super) fn target(&self, key: PoolKey) -> Arc<TargetPool> {
        let mut targets = lock(&self.shared.targets);
        if let Some(target) = targets.get(&key) {
            return target.clone();
        }
        if targets.len() >= TARGETS_MAX {
            targets.retain(|_, target| Arc::strong_count(target) > 1 || !target.is_empty());
        }
        let permits = Semaphore::new(self.requests_per_target_max);
        let (idle_added, connections) = (Notify::new(), Mutex::default());
        let target = Arc::new(TargetPool { permits, idle_added, connections });
        // If all targets are in use, this one stays outside the pool and closes its connections.
        if targets.len() < TARGETS_MAX {
            targets.insert(key, target.clone());
        }
        target
    }

    /// Takes an idle HTTP/1.1 connection that is still usable.
    pub(super) fn take_idle(&self, target: &TargetPool) -> Option<Http1> {
        loop {
            let (since, mut connection) = lock(&target.connections).http1.pop()?;
            self.shared.idle_count.fetch_sub(1, Ordering::Relaxed);
            if since.elapsed() < IDLE_MAX && connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    /// The number of concurrent requests that the pooled connections can carry.
    pub(super) fn capacity(&self, target: &TargetPool) -> usize {
        let connections = lock(&target.connections);
        match connections.http2 {
            Some(_) => usize::MAX,
            None => connections.http1.len(),
        }
    }

    /// Returns a connection to the pool, or closes it if the pool is full.
    pub(super) fn put_idle(&self, target: &TargetPool, connection: Http1) {
        if self.shared.idle_count.fetch_add(1, Ordering::Relaxed) >= IDLE_CONNECTIONS_MAX {
            self.shared.idle_count.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        lock(&target.connections).http1.push((Stopwatch::start(), connection));
        target.idle_added.notify_one();
        self.start_reaper();
    }

    /// The shared HTTP/2 connection, if it is open.
    pub(super) fn http2(&self, target: &TargetPool) -> Option<Http2> {
        let mut connections = lock(&target.connections);
        let (used, connection) = connections.http2.as_mut()?;
        if !connection.is_open() {
            connections.http2 = None;
            return None;
        }
        *used = Stopwatch::start();
        Some(connection.clone())
    }

    /// Shares an HTTP/2 connection with later requests.
    pub(super) fn share_http2(&self, target: &TargetPool, connection: &Http2) {
        lock(&target.connections).http2 = Some((Stopwatch::start(), connection.clone()));
        self.start_reaper();
    }

    /// Starts the reaper unless it is running. It stops when the pool is empty.
    fn start_reaper(&self) {
        let mut is_reaping = lock(&self.shared.is_reaping);
        if !*is_reaping {
            *is_reaping = true;
            drop(tokio::spawn(close_expired(Arc::downgrade(&self.shared))));
        }
    }
}

async fn close_expired(shared: Weak<Shared>) {
    let mut interval = tokio::time::interval(REAP_INTERVAL);
    interval.tick().await;
    loop {
        interval.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        // Held to the end: a connection pooled meanwhile finds this task running or starts another.
        let mut is_reaping = lock(&shared.is_reaping);
        let mut has_connections = false;
        for target in lock(&shared.targets).values() {
            let mut connections = lock(&target.connections);
            let before = connections.http1.len();
            connections.http1.retain(|(since, _)| since.elapsed() < IDLE_MAX);
            let closed = before - connections.http1.len();
            shared.idle_count.fetch_sub(closed, Ordering::Relaxed);
            if connections.http2.as_ref().is_some_and(|(used, _)| used.elapsed() >= IDLE_MAX) {
                connections.http2 = None;
            }
            has_connections |= !connections.http1.is_empty() || connections.http2.is_some();
        }
        if !has_connections {
            *is_reaping = false;
            return;
        }
    }
}

impl TargetPool {
    fn is_empty(&self) -> bool {
        let connections = lock(&self.connections);
        connections.http1.is_empty() && connections.http2.is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
