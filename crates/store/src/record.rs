//! What a store keeps of groups, collections, jobs, runs and history.

use std::fmt;

use kalends_domain::{
    ActionRole, Collection, CollectionPath, CollectionState, GroupPath, HistoryEntry,
    JobDefinition, JobPath, Lifecycle, Location, Switch,
};
use kalends_recurrence::Instant;

pub use kalends_domain::{Cause, CollectionFacts, Disposition, JobFacts, LedgerRecord};

/// A resource group as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Where it is; spelled as when it was created.
    pub path: GroupPath,
    /// Where it is said to be.
    pub location: Option<String>,
    /// For people, in their order.
    pub tags: Vec<(String, String)>,
}

/// A collection as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionRecord {
    /// Where it is; spelled as when it was created.
    pub path: CollectionPath,
    /// What its author defined.
    pub collection: Collection,
    /// When it was created.
    pub created: Instant,
    /// Since when it is enabled, by the clock of the store; where it is not, since when it was. What
    /// came due before does not run by itself.
    pub enabled_since: Instant,
    /// Grows with every change; the `ETag`.
    pub version: u64,
}

/// Since when a collection is enabled that is made or replaced now.
pub(crate) fn enabled_since(
    before: Option<&CollectionRecord>,
    collection: &Collection,
    now: Instant,
) -> Instant {
    let was_on = |before: &CollectionRecord| before.collection.state == CollectionState::Enabled;
    let is_on = collection.state == CollectionState::Enabled;
    before.filter(|before| !is_on || was_on(before)).map_or(now, |before| before.enabled_since)
}

/// A collection's number in one store: what is fair is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionKey(pub i64);

/// A job's number in one store: short, and never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(pub i64);

/// A job's identity over all installations, made of chance when the job is created. A job that is
/// deleted and made again is another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobUid(pub [u8; 16]);

impl fmt::Display for JobUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A job as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Its number in this store.
    pub key: JobKey,
    /// Where it is; spelled as when it was created.
    pub path: JobPath,
    /// Its identity and what its author defined.
    pub job: Job,
    /// What has become of it.
    pub state: JobState,
    /// Grows with every change of definition or state by a user; the `ETag`. Runs leave it alone.
    pub version: u64,
}

/// What identifies and defines a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its identity over all installations.
    pub uid: JobUid,
    /// When it was created.
    pub created: Instant,
    /// What its author defined.
    pub definition: JobDefinition,
    /// Grows with every edit, so that what was begun before an edit can be told from what comes
    /// after.
    pub generation: u64,
}

/// What has become of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobState {
    /// Whether it goes on.
    pub lifecycle: Lifecycle,
    /// The next occurrence that is not yet claimed or disposed of.
    pub due: Option<Instant>,
    /// How many occurrences have started a run since the last edit that restarts the count.
    pub used: u64,
    /// When the last attempt of the main action started.
    pub last_execution: Option<Instant>,
    /// Attempts of the main action.
    pub executions: u64,
    /// Failed attempts of the main action.
    pub failures: u64,
    /// Occurrences of which all tries failed.
    pub faulted: u64,
    /// When it was finished, for its removal.
    pub finished: Option<Instant>,
}

/// What there is to know of a job before a run of it is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobForRun {
    /// The job.
    pub job: JobRecord,
    /// Its collection.
    pub collection: CollectionKey,
    /// Where its collection is said to be.
    pub location: Location,
    /// Since when its collection is enabled.
    pub enabled_since: Instant,
    /// Its open runs.
    pub open: Vec<OpenRun>,
}

/// How a job stands: what changes with edits and runs, without its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// Grows with every edit.
    pub generation: u64,
    /// Whether its author has switched it on.
    pub switch: Switch,
    /// Whether its collection is enabled.
    pub collection: Switch,
    /// What has become of it.
    pub state: JobState,
}

/// A run's number in one store; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// Which process works on a run. Made of chance when a process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub u64);

/// Proof of a claim: who claims a run later has a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

/// An occurrence being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRun {
    /// Its number.
    pub id: RunId,
    /// Of which job.
    pub job: JobKey,
    /// Of which edit of the job.
    pub generation: u64,
    /// When it was due.
    pub scheduled: Instant,
    /// Why there is one.
    pub cause: Cause,
    /// The number of the occurrence.
    pub repeat: u64,
    /// Where it stands.
    pub progress: Progress,
    /// Who works on it.
    pub claim: Option<Claim>,
}

/// Where a run stands between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which action the next attempt carries out.
    pub role: ActionRole,
    /// Retries of that action made so far.
    pub retry: u32,
    /// How often the present attempt was begun again after its process died.
    pub redelivery: u32,
    /// When the next attempt is to be made.
    pub next_at: Instant,
    /// When that action was first attempted.
    pub first_started: Option<Instant>,
}

impl Progress {
    /// Before the first attempt, which is to be made then.
    pub fn first(next_at: Instant) -> Progress {
        let role = ActionRole::Main;
        Progress { role, retry: 0, redelivery: 0, next_at, first_started: None }
    }
}

/// Who works on a run, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who.
    pub owner: NodeId,
    /// The proof.
    pub token: FencingToken,
    /// Until when, by the clock of the store.
    pub lease_until: Instant,
}

/// A history entry and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// Grows with every entry of the store.
    pub sequence: u64,
    /// What is kept.
    pub entry: HistoryEntry,
}
