//! The interface of a store, split by its users.
//!
//! | trait | user |
//! |---|---|
//! | [`ApiStore`] | the REST API: groups, collections, jobs, history, events, tokens, sessions |
//! | [`OverviewStore`](crate::OverviewStore) | the REST API: reads over all collections |
//! | [`RunReports`] | the REST API: runs over all jobs, and their counts |
//! | [`EngineStore`] | the engine: due jobs, claims, commits of runs, retention, invariant scan |
//! | [`AdminStore`] | operators' tools |
//! | [`StoreHealth`] | readiness checks and metrics |
//! | [`LeaseClock`] | API and engine: the time by which leases expire |
//! | [`PauseState`] | API, engine and health: the pause of all jobs |
//! | [`Store`] | all of them: what a server opens |
//!
//! Every method is one transaction: it happens completely or not at all, and once it has returned
//! `Ok` its effect survives the death of the process and of the machine.

use std::future::Future;
use std::pin::Pin;

use kalends_recurrence::Instant;

use crate::api_store::ApiStore;
use crate::engine_store::EngineStore;
use crate::error::StoreError;
use crate::record::PauseRecord;
#[cfg(doc)]
use crate::run_reports::RunReports;

/// The result of a call, when it arrives.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A complete store.
pub trait Store: ApiStore + EngineStore + AdminStore {}

impl<S: ApiStore + EngineStore + AdminStore> Store for S {}

/// The clock of a store, which all its nodes share.
pub trait LeaseClock: Send + Sync {
    /// The time by the clock that measures leases. Doubles as a probe: it fails if the store is out
    /// of reach.
    fn now(&self) -> Reply<'_, Instant>;
}

/// The pause of all jobs, which holds for every node of a store.
pub trait PauseState: Send + Sync {
    /// The pause, if one holds now by the clock of the store.
    fn pause(&self) -> Reply<'_, Option<PauseRecord>>;
}

/// The calls of operators' tools.
pub trait AdminStore: Send + Sync {
    /// Checks the files and the references between rows. Returns one line per finding.
    fn check(&self) -> Reply<'_, Vec<String>>;
}

/// The health of a store. None of these calls depends on the contents of jobs.
pub trait StoreHealth: PauseState {
    /// Writes as durably as an edit, without an effect. Fails as an edit would.
    fn probe(&self) -> Reply<'_, ()>;

    /// Time of the earliest occurrence that has not begun, or attempt that no node has claimed, in
    /// the past or in the future; of enabled jobs and collections only, and none during a pause.
    fn next_due(&self) -> Reply<'_, Option<Instant>>;

    /// End of the newest history entry.
    fn newest_entry(&self) -> Reply<'_, Option<Instant>>;

    /// Size of the stored data in bytes, with indexes and logs.
    fn bytes(&self) -> Reply<'_, u64>;

    /// The failure after which this process can no longer write; `None` while it can. Only a restart
    /// of the process recovers.
    fn stopped(&self) -> Option<StoreError>;
}

/// The result of [`StoreHealth::next_due`].
pub(crate) async fn next_due(store: &impl EngineStore) -> Result<Option<Instant>, StoreError> {
    let due = store.due(Instant::MAX, 1).await?;
    let runs = store.claimable(Instant::MAX, 1).await?;
    let runs = runs.iter().map(|run| run.progress.next_at);
    Ok(due.iter().map(|due| due.on.due).chain(runs).min())
}
