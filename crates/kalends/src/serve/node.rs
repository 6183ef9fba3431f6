//! Describes this process for `GET /api/node`.

use std::sync::Arc;
use std::time::Duration;

use kalends_engine::{EngineMetrics, EngineSettings};
use kalends_environment::{Clock, Entropy as _, SystemClock, SystemEntropy};
use kalends_server::{AttemptLimits, Node, SchedulerLoad, StoreKind};
use kalends_store::Retention;
use kalends_store::record::NodeId;

use crate::store_location::{Database, StoreLocation};

/// A random id for this process.
pub(super) fn new_id() -> anyhow::Result<NodeId> {
    let mut node = [0; 8];
    SystemEntropy.fill(&mut node)?;
    Ok(NodeId(u64::from_le_bytes(node)))
}

/// Describes a process that starts now.
pub(super) fn describe(
    id: NodeId,
    location: &StoreLocation,
    retention: Retention,
    attempt_timeout: Duration,
    metrics: &Arc<EngineMetrics>,
) -> anyhow::Result<Node> {
    // The engine has these defaults, see `serve`.
    let engine = EngineSettings::default();
    let metrics = Arc::clone(metrics);
    Ok(Node {
        name: format!("{:016x}", id.0),
        version: env!("CARGO_PKG_VERSION"),
        started: SystemClock.now().into(),
        store: match location.database()? {
            Database::Sqlite(_) => StoreKind::Sqlite,
            Database::Postgres(_) => StoreKind::Postgres,
        },
        retention,
        attempts: AttemptLimits {
            total: engine.attempts_max,
            per_host: engine.host_attempts_max,
            per_collection: engine.collection_attempts_max,
            timeout: attempt_timeout,
        },
        load: Box::new(move || SchedulerLoad {
            running: metrics.attempts_in_flight(),
            waiting: metrics.waiting_runs(),
        }),
    })
}
