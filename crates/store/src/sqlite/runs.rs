//! What the engine has decided about runs.

use std::collections::HashSet;

use kalends_domain::{HistoryEntry, Lifecycle};
use kalends_recurrence::Instant;

use crate::record::{
    Cause, Claim, Disposition, FencingToken, JobKey, JobState, LedgerRecord, NodeId, OpenRun,
    Progress, RunId,
};
use crate::sqlite::chain::{append, close};
use crate::sqlite::code::collect;
use crate::sqlite::desk::Desk;
use crate::sqlite::due;
use crate::sqlite::open_runs::RunRow;
use crate::sqlite::state::{StateRow, States as _};
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::store::{Advance, AttemptCounts, DueJob, RunWrite, RunWriteResult};

/// A run that is to be opened.
pub(crate) struct Opening {
    pub(crate) job: JobKey,
    pub(crate) collection: i64,
    pub(crate) generation: u64,
    pub(crate) scheduled: Instant,
    pub(crate) cause: Cause,
    pub(crate) repeat: u64,
    pub(crate) progress: Progress,
    /// Who works on it, and until when.
    pub(crate) owner: Option<(NodeId, Instant)>,
}

/// Opens a run.
pub(crate) fn open(desk: &mut Desk, opening: Opening) -> RunWriteResult {
    let Opening { job, collection, generation, scheduled, cause, repeat, progress, owner } =
        opening;
    let id = desk.new_run();
    let claim =
        owner.map(|(owner, lease_until)| Claim { owner, token: FencingToken(1), lease_until });
    let run = OpenRun { id, job, generation, scheduled, cause, repeat, progress, claim };
    desk.set_run(id, Some(RunRow { run, collection, last_token: u64::from(claim.is_some()) }));
    RunWriteResult::Begun { run: id, claim }
}

/// Closes the open runs of a job that nobody works on.
pub(crate) fn close_waiting(
    desk: &mut Desk,
    job: JobKey,
    row: &mut StateRow,
    disposition: Disposition,
    now: Instant,
) -> Worked<()> {
    for RunRow { run, .. } in desk.runs_of(job) {
        if run.claim.is_none() {
            desk.set_run(run.id, None);
            let OpenRun { generation, scheduled, cause, .. } = run;
            let (from, to, count, closed) = (scheduled, scheduled, 1, now);
            let closing = LedgerRecord { generation, from, to, count, cause, disposition, closed };
            close(desk, job, row, &closing)?;
        }
    }
    Ok(())
}

/// Carries out one write; `None` where what it rests on is no longer so.
pub(crate) fn carry_out(
    desk: &mut Desk,
    write: &RunWrite,
    now: Instant,
) -> Worked<Option<RunWriteResult>> {
    match write {
        RunWrite::Begin { on, scheduled, progress, owner, lease, advance, closed, postponed } => {
            let Some(before) = as_seen(desk, *on)? else { return Ok(None) };
            go_on(desk, on.job, before, *advance, (closed, postponed), now)?;
            Ok(Some(open(
                desk,
                Opening {
                    job: on.job,
                    collection: before.collection,
                    generation: on.generation,
                    scheduled: *scheduled,
                    cause: Cause::Scheduled,
                    repeat: advance.used,
                    progress: *progress,
                    owner: owner.map(|owner| (owner, now.saturating_add(*lease))),
                },
            )))
        }
        RunWrite::Skip { on, advance, closed, postponed } => {
            let Some(before) = as_seen(desk, *on)? else { return Ok(None) };
            go_on(desk, on.job, before, *advance, (closed, postponed), now)?;
            Ok(Some(RunWriteResult::Done))
        }
        RunWrite::Claim { run, seen, owner, lease, progress } => {
            let free = |row: &RunRow| {
                let claim = row.run.claim;
                claim.map(|claim| claim.token) == *seen
                    && match claim {
                        Some(claim) => claim.lease_until < now,
                        None => row.run.progress == *progress,
                    }
            };
            let Some(mut row) = desk.run(*run).filter(free) else { return Ok(None) };
            row.last_token += 1;
            let (owner, token) = (*owner, FencingToken(row.last_token));
            let claim = Claim { owner, token, lease_until: now.saturating_add(*lease) };
            row.run.claim = Some(claim);
            row.run.progress = *progress;
            desk.set_run(*run, Some(row));
            Ok(Some(RunWriteResult::Claimed(claim)))
        }
        RunWrite::RenewLease { run, token, lease } => {
            let Some((mut row, mut claim)) = held(desk, *run, *token) else { return Ok(None) };
            claim.lease_until = now.saturating_add(*lease);
            row.run.claim = Some(claim);
            desk.set_run(*run, Some(row));
            Ok(Some(RunWriteResult::Claimed(claim)))
        }
        RunWrite::Continue { run, token, entry, counts, progress } => {
            let Some((mut row, _)) = held(desk, *run, *token) else { return Ok(None) };
            row.run.claim = None;
            row.run.progress = *progress;
            desk.set_run(*run, Some(row));
            conclude(desk, row.run, *counts, (&[], entry.as_slice()), |_| {})?;
            Ok(Some(RunWriteResult::Done))
        }
        RunWrite::Finish { run, token, entry, counts, closed, lifecycle } => {
            let Some((row, _)) = held(desk, *run, *token) else { return Ok(None) };
            desk.set_run(*run, None);
            let records = (std::slice::from_ref(closed), entry.as_slice());
            // Looked for only where it matters: it takes a look at all that the transaction did.
            let is_last = lifecycle.is_some() && !has_open(desk, row.run.job, row.run.generation);
            conclude(desk, row.run, *counts, records, |after| {
                if let Some(lifecycle) = lifecycle
                    && is_last
                    && after.generation == row.run.generation
                    && after.state.due.is_none()
                    && after.state.lifecycle == Lifecycle::Active
                {
                    finish(&mut after.state, *lifecycle, now);
                }
            })?;
            Ok(Some(RunWriteResult::Done))
        }
    }
}

/// The row of a job that is still as it was seen, and whose schedule starts runs.
fn as_seen(desk: &mut Desk, on: DueJob) -> Worked<Option<StateRow>> {
    let found = match desk.changed(on.job) {
        Some(changed) => changed,
        // Beside those that are due with it. One that is not there is mostly not as it was seen; but
        // one whose place is lost can still be begun by who finds out.
        None => match due::find(desk.connection(), on.due, on.job)? {
            Some(row) => Some(row),
            None => desk.state(on.job)?,
        },
    };
    let Some(row) = found else { return Ok(None) };
    let is_as_seen = row.generation == on.generation && row.starts_at() == Some(on.due);
    let starts = is_as_seen && desk.collection_enabled(row.collection)? == Some(true);
    Ok(starts.then_some(row))
}

/// The run, where the token is that of its claim.
fn held(desk: &Desk, run: RunId, token: FencingToken) -> Option<(RunRow, Claim)> {
    let row = desk.run(run)?;
    let claim = row.run.claim.filter(|claim| claim.token == token)?;
    Some((row, claim))
}

/// Whether a run of a job's schedule is open.
fn has_open(desk: &Desk, job: JobKey, generation: u64) -> bool {
    let is_scheduled =
        |row: &RunRow| row.run.generation == generation && row.run.cause == Cause::Scheduled;
    desk.runs_of(job).iter().any(is_scheduled)
}

type Records<'a> = (&'a [LedgerRecord], &'a [HistoryEntry]);

/// Moves a job on to its next occurrence.
fn go_on(
    desk: &mut Desk,
    job: JobKey,
    before: StateRow,
    advance: Advance,
    records: Records<'_>,
    now: Instant,
) -> Worked<()> {
    let mut after = before;
    after.state.due = advance.due;
    after.state.used = advance.used;
    let ends = advance.lifecycle != Lifecycle::Active && !has_open(desk, job, before.generation);
    let lifecycle = if ends { advance.lifecycle } else { Lifecycle::Active };
    finish(&mut after.state, lifecycle, now);
    record(desk, job, &mut after, records)?;
    desk.set_state(job, &before, Some(after))
}

/// Counts an attempt and records what is said of it.
fn conclude(
    desk: &mut Desk,
    run: OpenRun,
    counts: AttemptCounts,
    records: Records<'_>,
    then: impl FnOnce(&mut StateRow),
) -> Worked<()> {
    // A run goes with its job.
    let Some(before) = desk.state(run.job)? else { return Ok(()) };
    let mut after = before;
    let state = &mut after.state;
    state.last_execution = counts.executed.or(state.last_execution);
    state.executions += u64::from(counts.executed.is_some());
    state.failures += u64::from(counts.failed);
    state.faulted += u64::from(counts.faulted);
    then(&mut after);
    record(desk, run.job, &mut after, records)?;
    desk.set_state(run.job, &before, Some(after))
}

fn finish(state: &mut JobState, lifecycle: Lifecycle, now: Instant) {
    state.lifecycle = lifecycle;
    state.finished = match lifecycle {
        Lifecycle::Active => None,
        _ => state.finished.or(Some(now)),
    };
}

fn record(
    desk: &mut Desk,
    job: JobKey,
    row: &mut StateRow,
    (closed, entries): Records<'_>,
) -> Worked<()> {
    closed.iter().try_for_each(|closing| close(desk, job, row, closing))?;
    entries.iter().try_for_each(|entry| append(desk, job, row, entry))
}

/// Lets every claim expire.
pub(crate) fn expire_claims(desk: &mut Desk) -> usize {
    let claimed = desk.claimed_runs();
    for mut row in claimed.iter().copied() {
        row.run.claim = row.run.claim.map(|claim| Claim { lease_until: Instant::MIN, ..claim });
        desk.set_run(row.run.id, Some(row));
    }
    claimed.len()
}

/// The open runs of a job.
pub(crate) fn of_job(view: &View, job: JobKey) -> Vec<OpenRun> {
    view.memory.runs().of_job(job).map(|row| row.run).collect()
}

/// Runs that may be claimed, the earliest first.
pub(crate) fn claimable(
    view: &View,
    until: Instant,
    now: Instant,
    limit: usize,
) -> Worked<Vec<OpenRun>> {
    let mut statement =
        view.connection().prepare_cached("SELECT id FROM collections WHERE enabled = 0")?;
    let disabled = collect(statement.query(())?, |row| Ok(row.get(0)?))?;
    let disabled: HashSet<i64> = disabled.into_iter().collect();
    Ok(view.memory.runs().claimable(until, now, &disabled, limit))
}
