//! Open runs, and what the engine has decided about them.

use kalends_domain::{HistoryEntry, Lifecycle};
use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::record::{
    Cause, Claim, Disposition, JobKey, LedgerRecord, NodeId, OpenRun, Progress, RunId, Token,
};
use crate::sqlite::code::{Coded, collect, read, read_option, rows};
use crate::sqlite::history::{append, close};
use crate::sqlite::trouble::Worked;
use crate::store::{Advance, DueJob, RunAnswer, RunWrite, Tally};

/// What a run is read from.
macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT r.run, r.job, r.generation, r.scheduled, r.cause, r.repeat, r.role, r.retry,
                 r.redelivery, r.next_at, r.first_started, r.owner, r.token, r.lease_until
             FROM runs r ",
            $rest
        )
    };
}

fn read_run(row: &Row<'_>) -> Worked<OpenRun> {
    let claim = match read_option(row, "token")? {
        Some(token) => {
            let (owner, lease_until) = (read(row, "owner")?, read(row, "lease_until")?);
            Some(Claim { owner, token, lease_until })
        }
        None => None,
    };
    Ok(OpenRun {
        id: read(row, "run")?,
        job: read(row, "job")?,
        generation: read(row, "generation")?,
        scheduled: read(row, "scheduled")?,
        cause: read(row, "cause")?,
        repeat: read(row, "repeat")?,
        progress: Progress {
            role: read(row, "role")?,
            retry: read(row, "retry")?,
            redelivery: read(row, "redelivery")?,
            next_at: read(row, "next_at")?,
            first_started: read_option(row, "first_started")?,
        },
        claim,
    })
}

/// Opens a run.
#[expect(clippy::too_many_arguments, reason = "a run has so many members")]
pub(crate) fn open(
    connection: &Connection,
    job: JobKey,
    generation: u64,
    scheduled: Instant,
    cause: Cause,
    repeat: u64,
    progress: Progress,
    claim: Option<(NodeId, Instant)>,
) -> Worked<RunAnswer> {
    let claim = claim.map(|(owner, lease_until)| Claim { owner, token: Token(1), lease_until });
    connection
        .prepare_cached(
            "INSERT INTO runs (job, generation, scheduled, cause, repeat, role, retry, redelivery,
                 next_at, first_started, owner, token, lease_until, last_token)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            Coded(job),
            Coded(generation),
            Coded(scheduled),
            Coded(cause),
            Coded(repeat),
            Coded(progress.role),
            Coded(progress.retry),
            Coded(progress.redelivery),
            Coded(progress.next_at),
            progress.first_started.map(Coded),
            claim.map(|claim| Coded(claim.owner)),
            claim.map(|claim| Coded(claim.token)),
            claim.map(|claim| Coded(claim.lease_until)),
            claim.is_some(),
        ))?;
    Ok(RunAnswer::Begun { run: RunId(connection.last_insert_rowid()), claim })
}

/// Closes the open runs of a job that nobody works on.
pub(crate) fn close_waiting(
    connection: &Connection,
    job: JobKey,
    disposition: Disposition,
    now: Instant,
) -> Worked<()> {
    let mut statement = connection
        .prepare_cached(select_run!("WHERE r.job = ? AND r.token IS NULL ORDER BY r.run"))?;
    for run in collect(statement.query([Coded(job)])?, read_run)? {
        connection.prepare_cached("DELETE FROM runs WHERE run = ?")?.execute([Coded(run.id)])?;
        let OpenRun { generation, scheduled, cause, .. } = run;
        let (from, to, count, closed) = (scheduled, scheduled, 1, now);
        close(
            connection,
            job,
            &LedgerRecord { generation, from, to, count, cause, disposition, closed },
        )?;
    }
    Ok(())
}

/// Carries out one write; `None` where what it rests on is no longer so.
pub(crate) fn carry_out(
    connection: &Connection,
    write: &RunWrite,
    now: Instant,
) -> Worked<Option<RunAnswer>> {
    match write {
        RunWrite::Begin { on, scheduled, progress, owner, lease, advance, closed, postponed } => {
            if !advance_if_due(connection, *on, *advance, postponed.len(), now)? {
                return Ok(None);
            }
            record(connection, on.job, closed, postponed)?;
            let claim = owner.map(|owner| (owner, now.saturating_add(*lease)));
            let DueJob { job, generation, .. } = *on;
            let (at, cause) = (*scheduled, Cause::Scheduled);
            open(connection, job, generation, at, cause, advance.used, *progress, claim).map(Some)
        }
        RunWrite::Pass { on, advance, closed, postponed } => {
            if !advance_if_due(connection, *on, *advance, postponed.len(), now)? {
                return Ok(None);
            }
            record(connection, on.job, closed, postponed)?;
            Ok(Some(RunAnswer::Done))
        }
        RunWrite::Claim { run, seen, owner, lease, progress } => {
            let lease_until = now.saturating_add(*lease);
            let token = claim(connection, *run, *seen, *owner, lease_until, *progress, now)?;
            let owner = *owner;
            Ok(token.map(|token| RunAnswer::Claimed(Claim { owner, token, lease_until })))
        }
        RunWrite::Extend { run, token, lease } => {
            let lease_until = now.saturating_add(*lease);
            let owner: Option<Coded<NodeId>> = connection
                .prepare_cached(
                    "UPDATE runs SET lease_until = ? WHERE run = ? AND token = ? RETURNING owner",
                )?
                .query_row((Coded(lease_until), Coded(*run), Coded(*token)), |row| row.get(0))
                .optional()?;
            let token = *token;
            Ok(owner.map(|owner| RunAnswer::Claimed(Claim { owner: owner.0, token, lease_until })))
        }
        RunWrite::Continue { run, token, entry, tally, progress } => {
            let Some(job) = give_up(connection, *run, *token, *progress)? else { return Ok(None) };
            count(connection, job, *tally, entry.iter().len())?;
            record(connection, job, &[], entry.as_slice())?;
            Ok(Some(RunAnswer::Done))
        }
        RunWrite::Finish { run, token, entry, tally, closed, lifecycle } => {
            let held = connection
                .prepare_cached(
                    "DELETE FROM runs WHERE run = ? AND token = ? RETURNING job, generation",
                )?
                .query_row((Coded(*run), Coded(*token)), |row| {
                    Ok((read::<JobKey>(row, "job")?, read::<u64>(row, "generation")?))
                })
                .optional()?;
            let Some((job, generation)) = held else { return Ok(None) };
            count(connection, job, *tally, entry.iter().len())?;
            record(connection, job, std::slice::from_ref(closed), entry.as_slice())?;
            if let Some(lifecycle) = lifecycle {
                end_job(connection, job, generation, *lifecycle, now)?;
            }
            Ok(Some(RunAnswer::Done))
        }
    }
}

/// Moves a job on to its next occurrence, where it is still as it was seen.
fn advance_if_due(
    connection: &Connection,
    on: DueJob,
    advance: Advance,
    entries: usize,
    now: Instant,
) -> Worked<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE state SET due = ?1, used = ?2, entries = entries + ?4,
                 lifecycle = iif(open, 0, ?3),
                 finished = CASE iif(open, 0, ?3) WHEN 0 THEN NULL
                     ELSE coalesce(finished, ?5) END
             FROM (SELECT ?3 <> 0 AND EXISTS (SELECT 1 FROM runs WHERE runs.job = ?6
                     AND runs.generation = ?7 AND runs.cause = ?9) AS open)
             WHERE job = ?6 AND generation = ?7 AND due = ?8 AND lifecycle = 0 AND switched_on = 1
                 AND (SELECT enabled FROM collections WHERE id = collection)",
        )?
        .execute((
            advance.due.map(Coded),
            Coded(advance.used),
            Coded(advance.lifecycle),
            rows(entries as u64),
            Coded(now),
            Coded(on.job),
            Coded(on.generation),
            Coded(on.due),
            Coded(Cause::Scheduled),
        ))?;
    Ok(changed > 0)
}

fn claim(
    connection: &Connection,
    run: RunId,
    seen: Option<Token>,
    owner: NodeId,
    lease_until: Instant,
    progress: Progress,
    now: Instant,
) -> Worked<Option<Token>> {
    let token: Option<Coded<Token>> = connection
        .prepare_cached(
            "UPDATE runs SET owner = ?1, token = last_token + 1, last_token = last_token + 1,
                 lease_until = ?2, role = ?3, retry = ?4, redelivery = ?5, next_at = ?6,
                 first_started = ?7
             WHERE run = ?8 AND token IS ?9 AND (lease_until < ?10 OR token IS NULL AND role = ?3
                 AND retry = ?4 AND redelivery = ?5 AND next_at = ?6 AND first_started IS ?7)
             RETURNING token",
        )?
        .query_row(
            (
                Coded(owner),
                Coded(lease_until),
                Coded(progress.role),
                Coded(progress.retry),
                Coded(progress.redelivery),
                Coded(progress.next_at),
                progress.first_started.map(Coded),
                Coded(run),
                seen.map(Coded),
                Coded(now),
            ),
            |row| row.get(0),
        )
        .optional()?;
    Ok(token.map(|token| token.0))
}

fn give_up(
    connection: &Connection,
    run: RunId,
    token: Token,
    progress: Progress,
) -> Worked<Option<JobKey>> {
    let job: Option<Coded<JobKey>> = connection
        .prepare_cached(
            "UPDATE runs SET owner = NULL, token = NULL, lease_until = NULL, role = ?, retry = ?,
                 redelivery = ?, next_at = ?, first_started = ?
             WHERE run = ? AND token = ? RETURNING job",
        )?
        .query_row(
            (
                Coded(progress.role),
                Coded(progress.retry),
                Coded(progress.redelivery),
                Coded(progress.next_at),
                progress.first_started.map(Coded),
                Coded(run),
                Coded(token),
            ),
            |row| row.get(0),
        )
        .optional()?;
    Ok(job.map(|job| job.0))
}

fn count(connection: &Connection, job: JobKey, tally: Tally, entries: usize) -> Worked<()> {
    connection
        .prepare_cached(
            "UPDATE state SET last_execution = coalesce(?, last_execution),
                 executions = executions + ?, failures = failures + ?, faulted = faulted + ?,
                 entries = entries + ? WHERE job = ?",
        )?
        .execute((
            tally.executed.map(Coded),
            tally.executed.is_some(),
            tally.failed,
            tally.faulted,
            rows(entries as u64),
            Coded(job),
        ))?;
    Ok(())
}

fn end_job(
    connection: &Connection,
    job: JobKey,
    generation: u64,
    lifecycle: Lifecycle,
    now: Instant,
) -> Worked<()> {
    connection
        .prepare_cached(
            "UPDATE state SET lifecycle = ?1,
                 finished = CASE ?1 WHEN 0 THEN NULL ELSE coalesce(finished, ?2) END
             WHERE job = ?3 AND generation = ?4 AND due IS NULL AND lifecycle = 0
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job = ?3 AND runs.generation = ?4
                     AND runs.cause = ?5)",
        )?
        .execute((
            Coded(lifecycle),
            Coded(now),
            Coded(job),
            Coded(generation),
            Coded(Cause::Scheduled),
        ))?;
    Ok(())
}

fn record(
    connection: &Connection,
    job: JobKey,
    closed: &[LedgerRecord],
    entries: &[HistoryEntry],
) -> Worked<()> {
    closed.iter().try_for_each(|row| close(connection, job, row))?;
    entries.iter().try_for_each(|entry| append(connection, job, entry))
}

/// The open runs of a job.
pub(crate) fn of_job(connection: &Connection, job: JobKey) -> Worked<Vec<OpenRun>> {
    let mut statement = connection.prepare_cached(select_run!("WHERE r.job = ? ORDER BY r.run"))?;
    collect(statement.query([Coded(job)])?, read_run)
}

/// Runs that may be claimed, the earliest first.
pub(crate) fn claimable(
    connection: &Connection,
    until: Instant,
    now: Instant,
    limit: usize,
) -> Worked<Vec<OpenRun>> {
    let limit_rows = rows(limit as u64);
    let mut waiting = connection.prepare_cached(select_run!(
        "CROSS JOIN state s ON s.job = r.job JOIN collections c ON c.id = s.collection
         WHERE r.token IS NULL AND r.next_at <= ? AND c.enabled = 1
         ORDER BY r.next_at, r.run LIMIT ?"
    ))?;
    let mut runs = collect(waiting.query((Coded(until), limit_rows))?, read_run)?;
    let mut expired = connection.prepare_cached(select_run!(
        "CROSS JOIN state s ON s.job = r.job JOIN collections c ON c.id = s.collection
         WHERE r.token IS NOT NULL AND r.lease_until < ? AND c.enabled = 1
         ORDER BY r.next_at, r.run LIMIT ?"
    ))?;
    runs.extend(collect(expired.query((Coded(now), limit_rows))?, read_run)?);
    runs.sort_by_key(|run| (run.progress.next_at, run.id));
    runs.truncate(limit);
    Ok(runs)
}
