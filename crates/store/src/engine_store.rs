//! The calls of the engine.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{HistoryEntry, Lifecycle};
use kalends_recurrence::Instant;

use crate::invariant_scan::ScanPage;
use crate::record::{
    Claim, CollectionKey, FencingToken, GateState, JobForRun, JobKey, LedgerRecord, NodeId,
    OpenRun, Progress, RunId, SlotKey,
};
use crate::store::{LeaseClock, PauseState, Reply};

/// The calls of the engine.
pub trait EngineStore: LeaseClock + PauseState {
    /// Active and enabled jobs in enabled collections that are due between `from` and `until`, both
    /// inclusive, earliest first. None while a pause holds.
    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>>;

    /// The same without a lower bound.
    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        self.due_between(Instant::MIN, until, limit)
    }

    /// Everything the engine needs to begin runs of jobs; `None` for a job that was deleted. A job
    /// whose occurrence another node began meanwhile is no longer due in it. If some of them cannot be
    /// read, it fails with [`StoreError::Unreadable`], which names those. Each is allocated once, by the
    /// thread that reads it: it is large, and the engine keeps it until its run has finished.
    ///
    /// [`StoreError::Unreadable`]: crate::StoreError::Unreadable
    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>>;

    /// The same for jobs that were not found due.
    fn jobs_for_run(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        self.jobs_for_run_at(jobs.into_iter().map(|job| JobAt { job, due: None }).collect())
    }

    /// The state that the gate before an attempt checks; `None` for a job that was deleted.
    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>>;

    /// Carries out the engine's decisions in one transaction. Each write names the state it expects;
    /// a write whose expectation no longer holds changes nothing and returns
    /// [`RunWriteResult::Stale`], while the others are carried out.
    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>>;

    /// Renews leases, in a transaction of its own and with a short deadline: a renewal that waits for
    /// other writes comes too late.
    fn renew_leases(&self, renewals: Vec<LeaseRenewal>) -> Reply<'_, Vec<RenewalResult>> {
        Box::pin(async move {
            let results = self.commit(renewals.into_iter().map(RunWrite::from).collect()).await?;
            Ok(results.into_iter().map(RenewalResult::from).collect())
        })
    }

    /// Records that a node is in service. Returns the earliest start of service of the other nodes in
    /// service, or `None` if there are none, as in a store of a single node. A node is in service for
    /// [`HEARTBEAT_VALID`] after its last heartbeat.
    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>>;

    /// Unclaimed runs whose next attempt is due at or before `until`, and runs whose lease has
    /// expired by the store's clock; in enabled collections only, earliest first. Parked runs are not
    /// among them. None while a pause holds.
    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>>;

    /// Runs that are parked for a host or collection, in enabled collections only, earliest first. An
    /// edit of its job and a claim end the parking of a run. None while a pause holds.
    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>>;

    /// The hosts and collections that runs are parked for, in any order.
    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>>;

    /// Expires every claim and returns their number. Only for a process that is known to be the only
    /// one: the owners of the claims are gone.
    fn expire_claims(&self) -> Reply<'_, usize>;

    /// Removes rows that retention no longer keeps, at most `limit`, and returns their number. Fewer
    /// than `limit` means that nothing is left to remove.
    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize>;

    /// A page of all jobs in key order, for the invariant scan. It reads at most `scan_max` rows, and
    /// at least one job.
    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage>;
}

/// The parked runs of a host or collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedRuns {
    /// The host or collection.
    pub key: SlotKey,
    /// Number of runs, also of disabled collections.
    pub count: u64,
}

/// A due job and its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The job and its scheduled time.
    pub on: DueJob,
    /// Its collection, for fair admission.
    pub collection: CollectionKey,
}

/// A job that is expected to be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueJob {
    /// The job.
    pub job: JobKey,
    /// Its generation when it was read.
    pub generation: u64,
    /// Its next scheduled time when it was read.
    pub due: Instant,
}

/// A job to read, with the scheduled time at which it was found due. A store may find its state there,
/// beside those of the other jobs that are due then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobAt {
    /// The job.
    pub job: JobKey,
    /// The scheduled time; it may have passed to another one meanwhile.
    pub due: Option<Instant>,
}

/// A decision of the engine. The module `run_state` applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWrite {
    /// Begins an occurrence: opens a run, claims it, and advances the job to its next occurrence.
    /// Expects the job to be active, enabled, of this generation and due at this time, and no pause.
    Begin {
        /// The expected state.
        on: DueJob,
        /// The occurrence that runs: the expected one, or a later one if that was missed.
        scheduled: Instant,
        /// The first attempt.
        progress: Progress,
        /// The node that claims the run; `None` leaves it unclaimed.
        owner: Option<NodeId>,
        /// Duration of the lease.
        lease: Duration,
        /// The job's next occurrence.
        advance: Advance,
        /// Earlier occurrences that are closed without a run.
        closed: Vec<LedgerRecord>,
        /// Their history entries.
        postponed: Vec<HistoryEntry>,
        /// Parks the run: the host or collection that has no free slot. Only without an owner.
        waits_for: Option<SlotKey>,
    },
    /// Closes occurrences without a run and advances the job. Same expectation as `Begin`.
    Skip {
        /// The expected state.
        on: DueJob,
        /// The job's next occurrence.
        advance: Advance,
        /// The closed occurrences.
        closed: Vec<LedgerRecord>,
        /// Their history entries.
        postponed: Vec<HistoryEntry>,
    },
    /// Gives an active job without a next occurrence one again, or finishes it: the repair of the
    /// invariant scan. Expects the job to be active, of this generation and without a next
    /// occurrence.
    Reschedule {
        /// The job.
        job: JobKey,
        /// Its generation when it was read.
        generation: u64,
        /// The job's next occurrence.
        advance: Advance,
    },
    /// Claims a run. Expects it to be unclaimed and unchanged since it was read, or its lease to be
    /// expired, and no pause.
    Claim {
        /// The run.
        run: RunId,
        /// The fencing token of the claim when the run was read; `None` if it was unclaimed.
        seen: Option<FencingToken>,
        /// The node that claims it.
        owner: NodeId,
        /// Duration of the lease.
        lease: Duration,
        /// The attempt that follows.
        progress: Progress,
        /// Progress of the run when it was read.
        expected: Progress,
    },
    /// Parks a run that is due and has no free slot. Same expectation as `Claim`, and the job must be
    /// of this generation: an edit may have changed the host. The run is unclaimed afterwards.
    Park {
        /// The run.
        run: RunId,
        /// The fencing token of the claim when the run was read; `None` if it was unclaimed.
        seen: Option<FencingToken>,
        /// The generation of the job when it was read.
        generation: u64,
        /// The attempt that follows.
        progress: Progress,
        /// The progress when the run was read.
        expected: Progress,
        /// The host or collection that has no free slot.
        waits_for: SlotKey,
    },
    /// Renews a lease or, with a lease of zero, releases it. Expects the fencing token.
    RenewLease {
        /// The run.
        run: RunId,
        /// Proof of the claim.
        token: FencingToken,
        /// Duration of the lease, from now.
        lease: Duration,
    },
    /// Records an attempt that another one follows, and releases or keeps the claim. Expects the
    /// fencing token.
    Continue {
        /// The run.
        run: RunId,
        /// Proof of the claim.
        token: FencingToken,
        /// History entry of the attempt.
        entry: Option<HistoryEntry>,
        /// The attempt's contribution to the job's counters.
        counts: AttemptCounts,
        /// Progress of the run after the attempt.
        progress: Progress,
        /// Whether the owner keeps its claim for the next attempt.
        claim: ClaimAfter,
    },
    /// Records the last attempt and closes the run. Expects the fencing token.
    Finish {
        /// The run.
        run: RunId,
        /// Proof of the claim.
        token: FencingToken,
        /// History entry of the attempt.
        entry: Option<HistoryEntry>,
        /// The attempt's contribution to the job's counters.
        counts: AttemptCounts,
        /// The occurrence record.
        closed: LedgerRecord,
        /// The job's final state if this was its last run: it has no next occurrence, no other run of
        /// its schedule is open, and the run is not superseded.
        lifecycle: Option<Lifecycle>,
        /// Set if the occurrence did not run after all: it does not use `count`.
        unused: Option<UnusedOccurrence>,
    },
}

/// An occurrence that was begun and closes without an attempt. It gives its use of `count` back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedOccurrence {
    /// The job's next occurrence if the use of `count` had ended its schedule.
    pub next: Option<Instant>,
}

/// Time after its last heartbeat in which a node counts as in service.
pub const HEARTBEAT_VALID: Duration = Duration::from_secs(5);
/// Time after its last heartbeat after which the store forgets a node.
pub(crate) const HEARTBEAT_RETENTION: Duration = Duration::from_secs(60);

/// A sign of life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The node.
    pub node: NodeId,
    /// Start of the service without an outage that the node knows of, its own or that of a node that
    /// it has overlapped with.
    pub serving_since: Instant,
    /// Time at which the node sent the heartbeat, by the store's clock. A heartbeat that arrives late
    /// must not count as a new one.
    pub sent: Instant,
}

impl Heartbeat {
    /// Whether the node was in service at `now`. A time in the future remains from before the clock
    /// was set back.
    pub(crate) fn is_valid(&self, now: Instant, within: Duration) -> bool {
        now.since(self.sent).max(self.sent.since(now)) <= within
    }
}

/// The renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRenewal {
    /// The run.
    pub run: RunId,
    /// Proof of the claim.
    pub token: FencingToken,
    /// Duration of the lease, from now.
    pub lease: Duration,
}

impl From<LeaseRenewal> for RunWrite {
    fn from(LeaseRenewal { run, token, lease }: LeaseRenewal) -> RunWrite {
        RunWrite::RenewLease { run, token, lease }
    }
}

/// The result of a [`LeaseRenewal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalResult {
    /// The claim with its new lease.
    Renewed(Claim),
    /// The run is closed or claimed by another node.
    Lost,
    /// Another transaction holds the job. Nothing changed; the renewal can be repeated.
    Busy,
}

impl From<RunWriteResult> for RenewalResult {
    fn from(result: RunWriteResult) -> RenewalResult {
        match result {
            RunWriteResult::Claimed(claim) => RenewalResult::Renewed(claim),
            _ => RenewalResult::Lost,
        }
    }
}

/// The claim of a run after an attempt that another one follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAfter {
    /// The claim is released: any node may claim the run when its next attempt is due.
    Release,
    /// The owner starts the next attempt at once. It gets a renewed lease and a new fencing token, so
    /// that a repetition of this write is stale.
    Keep {
        /// Lease from now.
        lease: Duration,
    },
}

/// A job's step to its next occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The next occurrence.
    pub due: Option<Instant>,
    /// Number of occurrences that have started a run.
    pub used: u64,
    /// The new lifecycle. A job does not finish while a run of its schedule is open: the last of
    /// them finishes it.
    pub lifecycle: Lifecycle,
}

/// The contribution of one attempt to the counters of its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Start of the attempt, if it was one of the main action.
    pub executed: Option<Instant>,
    /// The attempt failed.
    pub failed: bool,
    /// All attempts of the occurrence failed.
    pub faulted: bool,
}

/// The result of a [`RunWrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunWriteResult {
    /// A run was opened.
    Begun {
        /// Its id.
        run: RunId,
        /// Its claim, if one was requested.
        claim: Option<Claim>,
    },
    /// The run was claimed, or its lease renewed.
    Claimed(Claim),
    /// The write was carried out.
    Done,
    /// The expected state no longer holds; nothing changed.
    Stale,
}

/// Retention limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age of history entries, ledger rows and notes, and of earlier definitions since they were
    /// replaced.
    pub history_age: Duration,
    /// Maximum number of history entries per job; the newest stay.
    pub history_count: u64,
    /// Time after which finished jobs are deleted.
    pub finished_jobs: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        const DAY: Duration = Duration::from_secs(86_400);
        Retention { history_age: 60 * DAY, history_count: 1_000, finished_jobs: 60 * DAY }
    }
}
