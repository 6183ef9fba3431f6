//! The state machine of runs: the one place that decides fencing, counters, final states and
//! occurrence records.
//!
//! [`apply`] is pure: it judges one [`RunWrite`] by the rows that the write names and returns the
//! [`Change`] to save, or the reason for its rejection. Every store goes through [`commit`], which
//! loads those rows from its [`RunTables`], applies the write and saves the change. No store
//! interprets a [`RunWrite`] itself.
//!
//! Edits use the same rules: [`manual_run`] opens the run of a `run` request, [`close_superseded_run`]
//! closes a run that an edit supersedes, and [`expire_claim`] ends a lease.

use kalends_domain::{AttemptStatus, Execution, HistoryEntry, Lifecycle};
use kalends_recurrence::Instant;

use crate::engine_store::{Advance, AttemptCounts, ClaimAfter, DueJob, RunWrite, RunWriteResult};
use crate::record::{
    Cause, Claim, Disposition, FencingToken, JobKey, JobState, LedgerRecord, OpenRun, Pause,
    Progress, RunId,
};
use crate::run_reports::RecordedAttempts;

#[cfg(test)]
mod tests;

/// The part of a job that writes are judged by and change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobRow {
    pub(crate) generation: u64,
    /// Scheduled runs of earlier generations are superseded.
    pub(crate) schedule_generation: u64,
    /// Both the job and its collection are enabled.
    pub(crate) is_enabled: bool,
    pub(crate) state: JobState,
}

/// An open run with the fencing token it handed out last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) run: OpenRun,
    /// Grows with every claim, also after the claim was released.
    pub(crate) last_token: u64,
    /// The finished attempts.
    pub(crate) attempts: RecordedAttempts,
}

/// The tables of a store, as seen and changed by the transaction that commits runs.
pub(crate) trait RunTables {
    /// Why a table cannot be read or written.
    type Error;

    /// The job that is expected to be due.
    fn due_job(&mut self, expected: DueJob) -> Result<Option<JobRow>, Self::Error>;

    /// The job of a run.
    fn job(&mut self, job: JobKey) -> Result<Option<JobRow>, Self::Error>;

    /// An open run.
    fn run(&mut self, run: RunId) -> Result<Option<RunRow>, Self::Error>;

    /// The open runs of a job. Called only for a job that has no next occurrence or ends.
    fn open_runs(&mut self, job: JobKey) -> Result<Vec<OpenRun>, Self::Error>;

    /// The newest pause of all jobs.
    fn pause(&mut self) -> Result<Option<Pause>, Self::Error>;

    /// The id that the next opened run gets. [`RunChange::Open`] takes it.
    fn next_run_id(&mut self) -> Result<RunId, Self::Error>;

    /// Saves a change.
    fn save(&mut self, change: Change<'_>) -> Result<(), Self::Error>;
}

/// Carries out one write.
pub(crate) fn commit<T: RunTables>(
    tables: &mut T,
    write: &RunWrite,
    now: Instant,
) -> Result<RunWriteResult, T::Error> {
    let rows = Rows::load(tables, write)?;
    match apply(&rows, write, now) {
        Ok(change) => {
            let result = change.result();
            tables.save(change)?;
            Ok(result)
        }
        Err(_) => Ok(RunWriteResult::Stale),
    }
}

/// The rows that a write names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    job: Option<JobRow>,
    run: Option<RunRow>,
    /// Another run of the job's schedule is open that is not superseded. Loaded only where the
    /// answer can end the job.
    has_other_run: bool,
    new_run: Option<RunId>,
    /// The newest pause of all jobs. Loaded for writes that a pause rejects.
    pause: Option<Pause>,
}

impl Rows {
    fn load<T: RunTables>(tables: &mut T, write: &RunWrite) -> Result<Rows, T::Error> {
        match write {
            RunWrite::Begin { on, .. } => {
                let new_run = Some(tables.next_run_id()?);
                let (job, pause) = (tables.due_job(*on)?, tables.pause()?);
                Ok(Rows { job, new_run, pause, ..Rows::default() })
            }
            RunWrite::Skip { on, advance, .. } => {
                let job = tables.due_job(*on)?;
                let may_end = advance.lifecycle != Lifecycle::Active;
                let has_other_run = match job.filter(|_| may_end) {
                    None => false,
                    Some(row) => has_scheduled_run(tables, (on.job, row), None)?,
                };
                Ok(Rows { job, has_other_run, pause: tables.pause()?, ..Rows::default() })
            }
            RunWrite::Reschedule { job, advance, .. } => {
                let row = tables.job(*job)?;
                let may_end = advance.lifecycle != Lifecycle::Active;
                let has_other_run = match row.filter(|_| may_end) {
                    None => false,
                    Some(row) => has_scheduled_run(tables, (*job, row), None)?,
                };
                Ok(Rows { job: row, has_other_run, ..Rows::default() })
            }
            RunWrite::Claim { run, .. } => {
                Ok(Rows { run: tables.run(*run)?, pause: tables.pause()?, ..Rows::default() })
            }
            RunWrite::RenewLease { run, .. } => {
                Ok(Rows { run: tables.run(*run)?, ..Rows::default() })
            }
            RunWrite::Park { run, .. } | RunWrite::Continue { run, .. } => {
                let run = tables.run(*run)?;
                let job = run.map(|row| tables.job(row.run.job)).transpose()?.flatten();
                Ok(Rows { job, run, ..Rows::default() })
            }
            RunWrite::Finish { run, lifecycle, .. } => {
                let run = tables.run(*run)?;
                let job = run.map(|row| tables.job(row.run.job)).transpose()?.flatten();
                let may_end = lifecycle.is_some() && job.is_some_and(|job| job.state.due.is_none());
                let has_other_run = match run.zip(job).filter(|_| may_end) {
                    None => false,
                    Some((RunRow { run, .. }, job)) => {
                        has_scheduled_run(tables, (run.job, job), Some(run.id))?
                    }
                };
                Ok(Rows { job, run, has_other_run, ..Rows::default() })
            }
        }
    }
}

/// Whether a run of the job's schedule is open that is not superseded and other than `except`.
fn has_scheduled_run<T: RunTables>(
    tables: &mut T,
    (job, row): (JobKey, JobRow),
    except: Option<RunId>,
) -> Result<bool, T::Error> {
    let is_scheduled = |run: &OpenRun| {
        Some(run.id) != except
            && run.cause == Cause::Scheduled
            && !run.is_superseded(row.schedule_generation)
    };
    Ok(tables.open_runs(job)?.iter().any(is_scheduled))
}

/// Why a write changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The job was deleted, edited, disabled or finished, or another node took the occurrence.
    JobChanged,
    /// The run was closed.
    RunClosed,
    /// The fencing token is not that of the current claim.
    ClaimLost,
    /// Another owner holds the claim, or the run made progress since it was read.
    NotClaimable,
    /// All jobs are paused.
    Paused,
}

/// Changes of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change<'w> {
    /// The job's new state.
    pub(crate) job: Option<(JobKey, JobState)>,
    pub(crate) run: RunChange,
    /// Occurrence records to append to the job's ledger.
    pub(crate) ledger: &'w [LedgerRecord],
    /// Attempts of the closed run, which the only ledger row is about.
    pub(crate) execution: Option<Execution>,
    /// Entries to append to the job's history.
    pub(crate) history: &'w [HistoryEntry],
}

/// Change of the run of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunChange {
    None,
    /// A run with the id from [`RunTables::next_run_id`] is inserted.
    Open(RunRow),
    Update(RunRow),
    Close(RunId),
}

impl Change<'_> {
    fn of_run(run: RunChange) -> Change<'static> {
        Change { job: None, run, ledger: &[], execution: None, history: &[] }
    }

    fn result(&self) -> RunWriteResult {
        match self.run {
            RunChange::Open(RunRow { run, .. }) => {
                RunWriteResult::Begun { run: run.id, claim: run.claim }
            }
            RunChange::Update(RunRow { run, .. }) => {
                run.claim.map_or(RunWriteResult::Done, RunWriteResult::Claimed)
            }
            RunChange::None | RunChange::Close(_) => RunWriteResult::Done,
        }
    }
}

/// Judges a write by the rows it names.
pub(crate) fn apply<'w>(
    rows: &Rows,
    write: &'w RunWrite,
    now: Instant,
) -> Result<Change<'w>, Rejected> {
    match write {
        RunWrite::Begin {
            on,
            scheduled,
            progress,
            owner,
            lease,
            advance,
            closed,
            postponed,
            waits_for,
        } => {
            let job = expected_job(rows, *on, now)?;
            let id = rows.new_run.ok_or(Rejected::JobChanged)?;
            let lease_until = now.saturating_add(*lease);
            let claim = owner.map(|owner| Claim { owner, token: FencingToken(1), lease_until });
            let run = OpenRun {
                id,
                job: on.job,
                generation: on.generation,
                scheduled: *scheduled,
                cause: Cause::Scheduled,
                repeat: advance.used,
                progress: *progress,
                claim,
                waits_for: waits_for.filter(|_| claim.is_none()),
            };
            Ok(Change {
                // The run that opens here keeps the job active.
                job: Some((on.job, advanced(job.state, *advance, Lifecycle::Active, now))),
                run: RunChange::Open(RunRow {
                    run,
                    last_token: u64::from(claim.is_some()),
                    attempts: RecordedAttempts::default(),
                }),
                ledger: closed,
                execution: None,
                history: postponed,
            })
        }
        RunWrite::Skip { on, advance, closed, postponed } => {
            let job = expected_job(rows, *on, now)?;
            let lifecycle = if rows.has_other_run { Lifecycle::Active } else { advance.lifecycle };
            Ok(Change {
                job: Some((on.job, advanced(job.state, *advance, lifecycle, now))),
                run: RunChange::None,
                ledger: closed,
                execution: None,
                history: postponed,
            })
        }
        RunWrite::Reschedule { job, generation, advance } => {
            let is_expected = |row: &JobRow| {
                row.generation == *generation
                    && row.state.due.is_none()
                    && row.state.lifecycle == Lifecycle::Active
            };
            let row = rows.job.filter(is_expected).ok_or(Rejected::JobChanged)?;
            let lifecycle = if rows.has_other_run { Lifecycle::Active } else { advance.lifecycle };
            Ok(Change {
                job: Some((*job, advanced(row.state, *advance, lifecycle, now))),
                run: RunChange::None,
                ledger: &[],
                execution: None,
                history: &[],
            })
        }
        RunWrite::Claim { seen, owner, lease, progress, expected, .. } => {
            let mut row = claimable(rows, *seen, *expected, now)?;
            not_paused(rows, now)?;
            row.last_token += 1;
            let (owner, token) = (*owner, FencingToken(row.last_token));
            row.run.claim = Some(Claim { owner, token, lease_until: now.saturating_add(*lease) });
            row.run.waits_for = None;
            row.run.progress = *progress;
            Ok(Change::of_run(RunChange::Update(row)))
        }
        RunWrite::Park { seen, generation, progress, expected, waits_for, .. } => {
            let mut row = claimable(rows, *seen, *expected, now)?;
            rows.job.filter(|job| job.generation == *generation).ok_or(Rejected::JobChanged)?;
            row.run.claim = None;
            row.run.waits_for = Some(*waits_for);
            row.run.progress = *progress;
            Ok(Change::of_run(RunChange::Update(row)))
        }
        RunWrite::RenewLease { token, lease, .. } => {
            let (mut row, claim) = held(rows, *token)?;
            row.run.claim = Some(Claim { lease_until: now.saturating_add(*lease), ..claim });
            Ok(Change::of_run(RunChange::Update(row)))
        }
        RunWrite::Continue { token, entry, counts, progress, claim, .. } => {
            let (mut row, present) = held(rows, *token)?;
            row.run.claim = match claim {
                ClaimAfter::Release => None,
                // With the old token, the owner could record the attempt again when the reply to
                // this write is lost.
                ClaimAfter::Keep { lease } => {
                    row.last_token += 1;
                    let (token, lease_until) =
                        (FencingToken(row.last_token), now.saturating_add(*lease));
                    Some(Claim { token, lease_until, ..present })
                }
            };
            row.run.progress = *progress;
            row.attempts = with_entry(row.attempts, entry.as_ref());
            let counted = |job: JobRow| (row.run.job, counted(job.state, *counts));
            Ok(Change {
                job: rows.job.map(counted),
                run: RunChange::Update(row),
                ledger: &[],
                execution: None,
                history: entry.as_slice(),
            })
        }
        RunWrite::Finish { token, entry, counts, closed, lifecycle, unused, .. } => {
            let (RunRow { run, attempts, .. }, _) = held(rows, *token)?;
            let ended = |job: JobRow| {
                let mut state = counted(job.state, *counts);
                state.consecutive_failures = match closed.disposition {
                    Disposition::Completed => 0,
                    Disposition::Failed => state.consecutive_failures + 1,
                    _ => state.consecutive_failures,
                };
                let is_superseded = run.is_superseded(job.schedule_generation);
                if let Some(unused) = unused.filter(|_| !is_superseded) {
                    state.used = state.used.saturating_sub(1);
                    state.due = state.due.or(unused.next);
                }
                let is_last = !rows.has_other_run
                    && !is_superseded
                    && state.due.is_none()
                    && state.lifecycle == Lifecycle::Active;
                let decides_state = match run.cause {
                    Cause::Scheduled => is_last,
                    // The newest run that was requested after the job had finished.
                    Cause::Manual => state.finished.is_some_and(|since| since <= run.scheduled),
                };
                if let Some(lifecycle) = lifecycle.filter(|_| decides_state) {
                    state.finished = None;
                    set_lifecycle(&mut state, lifecycle, now);
                }
                (run.job, state)
            };
            Ok(Change {
                job: rows.job.map(ended),
                run: RunChange::Close(run.id),
                ledger: std::slice::from_ref(closed),
                execution: execution(attempts, entry.as_ref(), now),
                history: entry.as_slice(),
            })
        }
    }
}

/// The run of a `run` request: beside the schedule, due at once, claimed by no node yet.
pub(crate) fn manual_run(id: RunId, job: JobKey, generation: u64, at: Instant) -> RunRow {
    let (cause, progress) = (Cause::Manual, Progress::first(at));
    let run = OpenRun {
        id,
        job,
        generation,
        scheduled: at,
        cause,
        repeat: 0,
        progress,
        claim: None,
        waits_for: None,
    };
    RunRow { run, last_token: 0, attempts: RecordedAttempts::default() }
}

/// The state of a job after a `run` request at `at`. A finished job stays finished until the outcome of
/// the run, and its retention starts anew.
pub(crate) fn state_after_run_request(state: JobState, at: Instant) -> JobState {
    JobState { finished: state.finished.map(|_| at), ..state }
}

/// The run after an edit of its job, which may have changed the host; `None` if it is not parked.
pub(crate) fn unpark(row: RunRow) -> Option<RunRow> {
    row.run.waits_for?;
    Some(RunRow { run: OpenRun { waits_for: None, ..row.run }, ..row })
}

/// The occurrence record of a run that an edit of the schedule closes; `None` for a manual run, which
/// goes on, and for a claimed one, whose owner sees the edit by the schedule generation.
pub(crate) fn close_superseded_run(run: &OpenRun, now: Instant) -> Option<LedgerRecord> {
    let is_closed = run.claim.is_none() && run.cause == Cause::Scheduled;
    is_closed.then_some(LedgerRecord {
        generation: run.generation,
        from: run.scheduled,
        to: run.scheduled,
        count: 1,
        cause: run.cause,
        disposition: Disposition::Superseded,
        closed: now,
    })
}

/// The run with its lease ended; `None` if no node holds it.
pub(crate) fn expire_claim(row: RunRow) -> Option<RunRow> {
    let claim = Claim { lease_until: Instant::MIN, ..row.run.claim? };
    Some(RunRow { run: OpenRun { claim: Some(claim), ..row.run }, ..row })
}

/// The job, if its schedule still starts a run at the expected time.
fn expected_job(rows: &Rows, expected: DueJob, now: Instant) -> Result<JobRow, Rejected> {
    not_paused(rows, now)?;
    let is_expected = |job: &JobRow| {
        job.generation == expected.generation
            && job.state.due == Some(expected.due)
            && job.is_enabled
            && job.state.lifecycle == Lifecycle::Active
    };
    rows.job.filter(is_expected).ok_or(Rejected::JobChanged)
}

/// Fails while a pause of all jobs holds.
fn not_paused(rows: &Rows, now: Instant) -> Result<(), Rejected> {
    match rows.pause.is_some_and(|pause| pause.is_active(now)) {
        true => Err(Rejected::Paused),
        false => Ok(()),
    }
}

/// The run, if it is unclaimed with this progress or its lease has expired, and its claim is the one
/// seen.
fn claimable(
    rows: &Rows,
    seen: Option<FencingToken>,
    expected: Progress,
    now: Instant,
) -> Result<RunRow, Rejected> {
    let row = rows.run.ok_or(Rejected::RunClosed)?;
    let is_free = match row.run.claim {
        Some(claim) => claim.lease_until < now,
        None => row.run.progress == expected,
    };
    let is_as_seen = row.run.claim.map(|claim| claim.token) == seen;
    if is_free && is_as_seen { Ok(row) } else { Err(Rejected::NotClaimable) }
}

/// The run, if the fencing token is that of its claim. An expired lease holds until another node
/// claims the run.
fn held(rows: &Rows, token: FencingToken) -> Result<(RunRow, Claim), Rejected> {
    let row = rows.run.ok_or(Rejected::RunClosed)?;
    let claim = row.run.claim.filter(|claim| claim.token == token).ok_or(Rejected::ClaimLost)?;
    Ok((row, claim))
}

/// The attempts of a run after a history entry.
fn with_entry(attempts: RecordedAttempts, entry: Option<&HistoryEntry>) -> RecordedAttempts {
    match entry.filter(|entry| entry.status != AttemptStatus::Postponed) {
        None => attempts,
        Some(entry) => RecordedAttempts {
            count: attempts.count + 1,
            first_started: attempts.first_started.or(Some(entry.started)),
        },
    }
}

/// The attempts of a run that closes at `now` with this entry; `None` if it made none.
fn execution(
    attempts: RecordedAttempts,
    entry: Option<&HistoryEntry>,
    now: Instant,
) -> Option<Execution> {
    let attempts = with_entry(attempts, entry);
    Some(Execution {
        started: attempts.first_started?,
        ended: entry.map_or(now, |entry| entry.ended),
        attempts: attempts.count,
    })
}

fn advanced(mut state: JobState, advance: Advance, lifecycle: Lifecycle, now: Instant) -> JobState {
    state.due = advance.due;
    state.used = advance.used;
    set_lifecycle(&mut state, lifecycle, now);
    state
}

fn counted(mut state: JobState, counts: AttemptCounts) -> JobState {
    state.last_execution = counts.executed.or(state.last_execution);
    state.executions += u64::from(counts.executed.is_some());
    state.failures += u64::from(counts.failed);
    state.faulted += u64::from(counts.faulted);
    state
}

fn set_lifecycle(state: &mut JobState, lifecycle: Lifecycle, now: Instant) {
    state.lifecycle = lifecycle;
    state.finished = match lifecycle {
        Lifecycle::Active => None,
        _ => state.finished.or(Some(now)),
    };
}
