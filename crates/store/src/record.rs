//! Records of groups, collections, jobs, runs and history.

use std::fmt;

use kalends_domain::{
    ActionRole, Collection, CollectionPath, CollectionState, GroupPath, HistoryEntry,
    JobDefinition, JobPath, Lifecycle, Location, OffTimes, Switch,
};
use kalends_recurrence::Instant;

use crate::api_store::WaitingRuns;

pub use kalends_domain::{
    Cause, CollectionFacts, Disposition, JobFacts, LedgerRecord, Pause, PauseRecord,
};

/// A stored resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Path, with the spelling of its creation.
    pub path: GroupPath,
    /// Location given by its author.
    pub location: Option<String>,
    /// Tags, in the order given by their author.
    pub tags: Vec<(String, String)>,
}

/// A stored collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionRecord {
    /// Path, with the spelling of its creation.
    pub path: CollectionPath,
    /// The definition.
    pub collection: Collection,
    /// Time of creation.
    pub created: Instant,
    /// When it was last enabled, by the clock of the store. Occurrences scheduled before do not run
    /// by themselves.
    pub enabled_since: Instant,
    /// Increases with every change; the `ETag`.
    pub version: u64,
}

/// Whether the jobs of a collection run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStatus {
    /// The state of the collection.
    pub state: CollectionState,
    /// Whether all jobs are paused, by the clock of the store.
    pub is_paused: bool,
}

/// The value of `enabled_since` after a collection is created or replaced at `now`.
pub(crate) fn enabled_since(
    before: Option<&CollectionRecord>,
    collection: &Collection,
    now: Instant,
) -> Instant {
    let was_on = |before: &CollectionRecord| before.collection.state == CollectionState::Enabled;
    let is_on = collection.state == CollectionState::Enabled;
    before.filter(|before| !is_on || was_on(before)).map_or(now, |before| before.enabled_since)
}

/// A definition that an edit replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierDefinition {
    /// Its generation.
    pub generation: u64,
    /// When it was replaced.
    pub replaced: Instant,
    /// The definition.
    pub definition: JobDefinition,
}

impl EarlierDefinition {
    /// Earlier definitions that are retained for a job.
    pub const PER_JOB_MAX: u64 = 20;

    /// Whether the definition of a job is retained after an edit: runs may have used it.
    pub(crate) fn is_retained(job: &JobRecord, open: &[OpenRun]) -> bool {
        job.state.executions > 0 || !open.is_empty()
    }
}

/// A job after an edit at `now`.
pub(crate) fn edited_job(
    before: &Job,
    definition: JobDefinition,
    waiting: WaitingRuns,
    now: Instant,
) -> Job {
    let generation = before.generation + 1;
    Job {
        uid: before.uid,
        created: before.created,
        generation,
        schedule_generation: match waiting {
            WaitingRuns::Keep => before.schedule_generation,
            WaitingRuns::Supersede => generation,
        },
        enabled_since: match (before.definition.switch, definition.switch) {
            (Switch::Disabled, Switch::Enabled) => Some(now),
            _ => before.enabled_since,
        },
        definition,
    }
}

/// When a job or its collection was last enabled, whichever is later.
pub(crate) fn both_enabled_since(job: Option<Instant>, collection: Instant) -> Instant {
    job.map_or(collection, |job| job.max(collection))
}

/// A collection's number in one store. The engine divides its slots fairly between collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionKey(pub i64);

/// A job's number in one store; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(pub i64);

/// A job's globally unique id, generated at random on creation. A job that is deleted and created
/// again gets a new one.
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

/// A stored job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Number in this store.
    pub key: JobKey,
    /// Path, with the spelling of its creation.
    pub path: JobPath,
    /// Id and definition.
    pub job: Job,
    /// Schedule state and counters.
    pub state: JobState,
    /// Increases with every edit; the `ETag`. Runs do not change it.
    pub version: u64,
}

/// Id and definition of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Globally unique id.
    pub uid: JobUid,
    /// Time of creation.
    pub created: Instant,
    /// The definition.
    pub definition: JobDefinition,
    /// Increases with every edit.
    pub generation: u64,
    /// Generation of the last edit that changed the schedule, or 1. It supersedes scheduled runs of
    /// earlier generations.
    pub schedule_generation: u64,
    /// When the job was last enabled, by the clock of the store; `None` if it was never disabled.
    pub enabled_since: Option<Instant>,
}

/// Schedule state and counters of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobState {
    /// Whether the job is active, completed or faulted.
    pub lifecycle: Lifecycle,
    /// The next occurrence that has neither a run nor a ledger row.
    pub due: Option<Instant>,
    /// Occurrences that started a run since the last edit that resets the count.
    pub used: u64,
    /// Start of the last attempt of the main action.
    pub last_execution: Option<Instant>,
    /// Number of attempts of the main action.
    pub executions: u64,
    /// Number of failed attempts of the main action.
    pub failures: u64,
    /// Number of occurrences whose attempts all failed.
    pub faulted: u64,
    /// When the job finished; retention counts from it.
    pub finished: Option<Instant>,
    /// Number of failed runs since the last run that succeeded. A run fails when its last attempt
    /// does; occurrences that are skipped, missed or superseded do not count.
    pub consecutive_failures: u64,
    /// Occurrences up to this time that have not begun are skipped by request. An edit of the schedule
    /// drops it.
    pub skip_until: Option<Instant>,
}

/// The data that the engine needs to begin a run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobForRun {
    /// The job.
    pub job: JobRecord,
    /// Number of its collection.
    pub collection: CollectionKey,
    /// Location of its collection.
    pub location: Location,
    /// When the job or its collection was last enabled, whichever is later.
    pub enabled_since: Instant,
    /// Its open runs.
    pub open: OpenRunSummary,
    /// The newest pause of all jobs, also one that has ended.
    pub pause: Option<Pause>,
}

impl JobForRun {
    /// The times in which the job could not run.
    pub fn off_times(&self) -> OffTimes {
        OffTimes { enabled_since: self.enabled_since, pause: self.pause }
    }
}

/// The open runs of a job, in a size that does not depend on their number: the engine keeps one for
/// every run that it executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRunSummary {
    /// Number of open runs.
    pub count: usize,
    /// The scheduled runs that were opened first, by number, at most
    /// [`OpenRunSummary::SCHEDULED_MAX`]. They decide about overlap: a run waits for those opened
    /// before it.
    pub scheduled: Vec<OpenRun>,
}

impl OpenRunSummary {
    /// Maximum number of scheduled runs in a summary. Decisions distinguish none, one and several;
    /// the rest allows for superseded runs among the first.
    pub const SCHEDULED_MAX: usize = 8;

    /// The summary of runs that are ordered by number.
    pub(crate) fn of(runs: impl IntoIterator<Item = OpenRun>) -> OpenRunSummary {
        let mut summary = OpenRunSummary::default();
        for run in runs {
            summary.count += 1;
            if run.cause == Cause::Scheduled && summary.scheduled.len() < Self::SCHEDULED_MAX {
                summary.scheduled.push(run);
            }
        }
        summary
    }
}

/// The data that decides whether a run may start: switches and schedule state, without the
/// definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// Increases with every edit.
    pub generation: u64,
    /// Whether the job is enabled by its author.
    pub switch: Switch,
    /// Whether its collection is enabled.
    pub collection: Switch,
    /// Schedule state and counters.
    pub state: JobState,
    /// Generation of the last edit that changed the schedule.
    pub schedule_generation: u64,
    /// When the job or its collection was last enabled, whichever is later.
    pub enabled_since: Instant,
    /// The newest pause of all jobs, also one that has ended.
    pub pause: Option<Pause>,
}

impl GateState {
    /// The times in which the job could not run.
    pub fn off_times(&self) -> OffTimes {
        OffTimes { enabled_since: self.enabled_since, pause: self.pause }
    }

    /// Whether all jobs are paused at `now`.
    pub fn is_paused(&self, now: Instant) -> bool {
        self.pause.is_some_and(|pause| pause.is_active(now))
    }
}

/// A run's number in one store; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// A server process, generated at random when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// Fencing token of a claim. A later claim of the same run has a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

/// An occurrence that is being executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRun {
    /// Number of the run.
    pub id: RunId,
    /// Its job.
    pub job: JobKey,
    /// Generation of the job when the run was opened.
    pub generation: u64,
    /// Scheduled time; for a manual run, the time of the request.
    pub scheduled: Instant,
    /// Whether the schedule or a request caused it.
    pub cause: Cause,
    /// Ordinal of the occurrence since the count was reset; 0 for a manual run.
    pub repeat: u64,
    /// The next attempt.
    pub progress: Progress,
    /// The node that executes it; `None` while it waits.
    pub claim: Option<Claim>,
    /// The run is parked: it was due, but its host or its collection had no free slot. Never set on a
    /// claimed run.
    pub waits_for: Option<SlotKey>,
}

/// A host or a collection whose attempts in flight are limited: a stable hash of its name or number.
/// The lowest bit tells a collection from a host. Hosts with equal hashes share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey(pub u64);

impl SlotKey {
    const COLLECTION: u64 = 1;

    /// The key of a host, or of the account or namespace of a message queue.
    pub fn of_host(name: &str) -> SlotKey {
        SlotKey(fnv_1a(b"h:", name.as_bytes()) & !Self::COLLECTION)
    }

    /// The key of a collection.
    pub fn of_collection(collection: CollectionKey) -> SlotKey {
        SlotKey(fnv_1a(b"c:", &collection.0.to_le_bytes()) | Self::COLLECTION)
    }

    /// Whether this is the key of a collection.
    pub fn is_collection(self) -> bool {
        self.0 & Self::COLLECTION != 0
    }
}

/// FNV-1a with 64 bits, shifted left by the bit that the kind takes. The algorithm is part of the
/// stored format: other nodes and later versions must compute the same keys.
fn fnv_1a(kind: &[u8], name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    kind.iter().chain(name).fold(0xcbf2_9ce4_8422_2325, step) << 1
}

impl OpenRun {
    /// Whether an edit of the schedule superseded the run. Manual runs are never superseded.
    pub fn is_superseded(&self, schedule_generation: u64) -> bool {
        self.cause == Cause::Scheduled && self.generation < schedule_generation
    }
}

/// Progress of a run between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Action of the next attempt.
    pub role: ActionRole,
    /// Number of retries of that action so far.
    pub retry: u32,
    /// Number of times the current attempt was repeated after its node died.
    pub redelivery: u32,
    /// When the next attempt is due.
    pub next_at: Instant,
    /// Start of the first attempt of that action.
    pub first_started: Option<Instant>,
}

impl Progress {
    /// Progress before the first attempt, which is due at `next_at`.
    pub fn first(next_at: Instant) -> Progress {
        let role = ActionRole::Main;
        Progress { role, retry: 0, redelivery: 0, next_at, first_started: None }
    }

    /// Whether certainly no attempt was made.
    pub fn is_unattempted(&self) -> bool {
        *self == Progress::first(self.next_at)
    }
}

/// A node's exclusive right to execute a run until its lease expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The node that holds it.
    pub owner: NodeId,
    /// Required for every write of the run.
    pub token: FencingToken,
    /// Expiry, by the clock of the store.
    pub lease_until: Instant,
}

/// A history entry and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// Increases with every entry of the store.
    pub sequence: u64,
    /// The entry.
    pub entry: HistoryEntry,
}
