//! This process as a node of its store: facts and load that `GET /api/node` returns.

use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::Retention;

/// This process as a node of its store.
pub struct Node {
    /// Name among the nodes of the store; also the `owner` of its runs.
    pub name: String,
    /// Version of the program.
    pub version: &'static str,
    /// Start of the process.
    pub started: Instant,
    /// The kind of its store.
    pub store: StoreKind,
    /// Retention of history and of finished jobs.
    pub retention: Retention,
    /// Limits of attempts.
    pub attempts: AttemptLimits,
    /// Returns the current load of the scheduler.
    pub load: Box<dyn Fn() -> SchedulerLoad + Send + Sync>,
}

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum StoreKind {
    Sqlite,
    Postgres,
    Memory,
}

impl StoreKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "Sqlite",
            StoreKind::Postgres => "Postgres",
            StoreKind::Memory => "Memory",
        }
    }
}

/// Limits of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Maximum number of attempts in flight.
    pub total: usize,
    /// Maximum number of attempts in flight per target host.
    pub per_host: usize,
    /// Maximum number of attempts in flight per collection.
    pub per_collection: usize,
    /// Timeout of an attempt whose job sets none.
    pub timeout: Duration,
}

/// The load of the scheduler of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerLoad {
    /// Attempts in flight.
    pub running: u64,
    /// Due runs that wait for a free slot in memory.
    pub waiting: u64,
}

impl Default for Node {
    /// A node without scheduler, with a store in memory.
    fn default() -> Node {
        Node {
            name: String::new(),
            version: env!("CARGO_PKG_VERSION"),
            started: Instant::MIN,
            store: StoreKind::Memory,
            retention: Retention::default(),
            attempts: AttemptLimits::default(),
            load: Box::new(SchedulerLoad::default),
        }
    }
}
