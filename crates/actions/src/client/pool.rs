//! Connections that are kept for the next request.
//!
//! Who shares one is told by its [`Key`]: never two collections, nor two identities. Each key has a
//! limit of requests under way; who comes later waits for a turn.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kalends_domain::CollectionPath;
use kalends_environment::Stopwatch;
use tokio::sync::Semaphore;

use super::http1::Http1;
use super::http2::Http2;
use crate::egress::Security;

/// How long a connection is kept. Many servers close theirs after five seconds; one that is used
/// just then is lost with its request.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// How often old ones are looked for, while there are any.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// Connections kept in all: each is a file of the process.
const CONNECTIONS_KEPT_MAX: usize = 1_024;
/// Targets known at once. When there are more, those of which nothing is kept are forgotten.
const TARGETS_MAX: usize = 4_096;

/// Who shares a connection. The proxy is the same for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) collection: CollectionPath,
    /// The checked address that was to be tried first.
    pub(super) address: SocketAddr,
    pub(super) security: Security,
    pub(super) server_name: String,
    pub(super) identity: Option<[u8; 32]>,
}

/// What is kept for one key.
pub(super) struct Target {
    /// Requests that may be under way at once.
    pub(super) turns: Semaphore,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The newest is used first, so that the others get old.
    http1: Vec<(Stopwatch, Http1)>,
    http2: Option<(Stopwatch, Http2)>,
}

/// All that is kept.
pub(super) struct Pool {
    shared: Arc<Shared>,
    turns_max: usize,
}

#[derive(Default)]
struct Shared {
    targets: Mutex<HashMap<Key, Arc<Target>>>,
    /// Connections kept.
    count: AtomicUsize,
    /// Whether somebody looks for old ones.
    is_watched: Mutex<bool>,
}

impl Pool {
    pub(super) fn new(turns_max: usize) -> Pool {
        Pool { shared: Arc::default(), turns_max }
    }

    pub(super) fn target(&self, key: Key) -> Arc<Target> {
        let mut targets = lock(&self.shared.targets);
        if let Some(target) = targets.get(&key) {
            return target.clone();
        }
        if targets.len() >= TARGETS_MAX {
            targets.retain(|_, target| Arc::strong_count(target) > 1 || !target.is_empty());
        }
        let turns = Semaphore::new(self.turns_max);
        let target = Arc::new(Target { turns, kept: Mutex::default() });
        // Where all are in use this one is not remembered; its connections are closed after use.
        if targets.len() < TARGETS_MAX {
            targets.insert(key, target.clone());
        }
        target
    }

    /// A kept connection that can still be used.
    pub(super) fn take(&self, target: &Target) -> Option<Http1> {
        loop {
            let (since, mut connection) = lock(&target.kept).http1.pop()?;
            self.shared.count.fetch_sub(1, Ordering::Relaxed);
            if since.elapsed() < IDLE_MAX && connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    /// How many requests the connections that are kept can take at once.
    pub(super) fn kept(&self, target: &Target) -> usize {
        let kept = lock(&target.kept);
        match kept.http2 {
            Some(_) => usize::MAX,
            None => kept.http1.len(),
        }
    }

    /// Keeps a connection, or closes it where there are enough.
    pub(super) fn keep(&self, target: &Target, connection: Http1) {
        if self.shared.count.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_KEPT_MAX {
            self.shared.count.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        lock(&target.kept).http1.push((Stopwatch::start(), connection));
        self.watch();
    }

    pub(super) fn http2(&self, target: &Target) -> Option<Http2> {
        let mut kept = lock(&target.kept);
        let (used, connection) = kept.http2.as_mut()?;
        if !connection.is_open() {
            kept.http2 = None;
            return None;
        }
        *used = Stopwatch::start();
        Some(connection.clone())
    }

    pub(super) fn share(&self, target: &Target, connection: &Http2) {
        lock(&target.kept).http2 = Some((Stopwatch::start(), connection.clone()));
        self.watch();
    }

    /// Sees to it that old connections are closed; while there are none nothing wakes.
    fn watch(&self) {
        let mut is_watched = lock(&self.shared.is_watched);
        if !*is_watched {
            *is_watched = true;
            drop(tokio::spawn(close_old(Arc::downgrade(&self.shared))));
        }
    }
}

async fn close_old(shared: Weak<Shared>) {
    let mut looks = tokio::time::interval(LOOK_AROUND);
    looks.tick().await;
    loop {
        looks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        // Held to the end, so that what is kept meanwhile finds a watcher or starts one.
        let mut is_watched = lock(&shared.is_watched);
        let mut left = false;
        for target in lock(&shared.targets).values() {
            let mut kept = lock(&target.kept);
            let before = kept.http1.len();
            kept.http1.retain(|(since, _)| since.elapsed() < IDLE_MAX);
            shared.count.fetch_sub(before - kept.http1.len(), Ordering::Relaxed);
            if kept.http2.as_ref().is_some_and(|(used, _)| used.elapsed() >= IDLE_MAX) {
                kept.http2 = None;
            }
            left |= !kept.http1.is_empty() || kept.http2.is_some();
        }
        if !left {
            *is_watched = false;
            return;
        }
    }
}

impl Target {
    fn is_empty(&self) -> bool {
        let kept = lock(&self.kept);
        kept.http1.is_empty() && kept.http2.is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
