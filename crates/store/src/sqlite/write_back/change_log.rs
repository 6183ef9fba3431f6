//! The change log: a redo log of `state` and `runs`, one row per transaction.
//!
//! An entry holds rows as they *are* after its transaction, not operations. Replay is therefore
//! idempotent: replaying an entry over tables that already have some of its rows gives the same
//! result.

use std::collections::BTreeMap;

use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::StoreError;
use crate::record::{Claim, JobKey, JobState, OpenRun, Progress, RunId, SlotKey};
use crate::run_reports::RecordedAttempts;
use crate::sqlite::code::{Code, Coded};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::StateRow;
use crate::sqlite::write_back::dirty_rows::Version;
use crate::sqlite::write_back::open_runs::RunRow;

/// Version of the entry format. Entries of earlier versions are read, later ones are rejected.
const FORMAT_VERSION: u64 = 6;
/// Version 1 had no schedule generation, time of enabling and held runs.
const FORMAT_WITHOUT_HELD_RUNS: u64 = 1;
/// Version 2 had no parked runs.
const FORMAT_WITHOUT_PARKED_RUNS: u64 = 2;
/// Version 3 had no number of consecutive failures.
const FORMAT_WITHOUT_CONSECUTIVE_FAILURES: u64 = 3;
/// Version 4 had no skipped occurrences.
const FORMAT_WITHOUT_SKIPS: u64 = 4;
/// Version 5 had no attempts of runs.
const FORMAT_WITHOUT_ATTEMPTS: u64 = 5;

/// The last allocated numbers. They are never reused, even after a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastNumbers {
    /// Id of the last run.
    pub(crate) run: i64,
    /// Number of the last history row.
    pub(crate) history: i64,
    /// Number of the last ledger row.
    pub(crate) ledger: i64,
}

/// Result of a replay: the newest version of every row in the change log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Number of the newest transaction.
    pub(crate) transaction: u64,
    pub(crate) numbers: LastNumbers,
    pub(crate) jobs: BTreeMap<JobKey, Version>,
    pub(crate) runs: BTreeMap<RunId, (u64, Option<RunRow>)>,
}

/// Number of the newest transaction visible to a connection; 0 if the change log is empty.
pub(crate) fn newest(connection: &Connection) -> SqliteResult<u64> {
    let newest: Option<Coded<u64>> = connection
        .prepare_cached("SELECT sequence FROM log ORDER BY sequence DESC LIMIT 1")?
        .query_row((), |row| row.get(0))
        .optional()?;
    Ok(newest.map_or(0, |newest| newest.0))
}

/// Appends the changes of a transaction.
pub(crate) fn append(
    connection: &Connection,
    transaction: u64,
    changes: &[u8],
) -> SqliteResult<()> {
    connection
        .prepare_cached("INSERT INTO log (sequence, changes) VALUES (?, ?)")?
        .execute((Coded(transaction), changes))?;
    Ok(())
}

/// Deletes at most `limit` entries up to a transaction and returns their number. A newer entry must
/// exist at the commit.
pub(crate) fn trim(connection: &Connection, up_to: u64, limit: i64) -> SqliteResult<usize> {
    Ok(connection
        .prepare_cached(
            "DELETE FROM log WHERE sequence IN (
                 SELECT sequence FROM log WHERE sequence <= ? ORDER BY sequence LIMIT ?)",
        )?
        .execute((Coded(up_to), limit))?)
}

/// Replays the whole change log.
pub(crate) fn replay(connection: &Connection) -> SqliteResult<Replayed> {
    let mut replayed = Replayed::default();
    let mut statement =
        connection.prepare("SELECT sequence, changes FROM log ORDER BY sequence")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        replayed.transaction = row.get::<_, Coded<u64>>(0)?.0;
        let changes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        decode(&mut replayed, changes).ok_or_else(|| {
            let number = replayed.transaction;
            StoreError::Damaged(format!("row {number} of the log cannot be read"))
        })?;
    }
    Ok(replayed)
}

/// Encodes the changes of a transaction.
pub(crate) fn encode(
    numbers: LastNumbers,
    jobs: &[(JobKey, Option<&StateRow>)],
    runs: &[(RunId, Option<&RunRow>)],
) -> Vec<u8> {
    let mut to = Vec::with_capacity(32 + jobs.len() * 64 + runs.len() * 64);
    put(&mut to, FORMAT_VERSION);
    for number in [numbers.run, numbers.history, numbers.ledger] {
        put_signed(&mut to, number);
    }
    put(&mut to, jobs.len() as u64);
    for (job, row) in jobs {
        put_signed(&mut to, job.0);
        put(&mut to, u64::from(row.is_some()));
        if let Some(row) = row {
            put_state(&mut to, row);
        }
    }
    put(&mut to, runs.len() as u64);
    for (run, row) in runs {
        put_signed(&mut to, run.0);
        put(&mut to, u64::from(row.is_some()));
        if let Some(row) = row {
            put_run(&mut to, row);
        }
    }
    to
}

fn decode(to: &mut Replayed, changes: &[u8]) -> Option<()> {
    let from = &mut &*changes;
    let version = take(from)?;
    if !(FORMAT_WITHOUT_HELD_RUNS..=FORMAT_VERSION).contains(&version) {
        return None;
    }
    to.numbers = LastNumbers {
        run: take_signed(from)?,
        history: take_signed(from)?,
        ledger: take_signed(from)?,
    };
    let transaction = to.transaction;
    for _ in 0..take(from)? {
        let job = JobKey(take_signed(from)?);
        let row = if take(from)? == 1 { Some(take_state(from, version)?) } else { None };
        to.jobs.insert(job, (transaction, row));
    }
    for _ in 0..take(from)? {
        let id = RunId(take_signed(from)?);
        let row = if take(from)? == 1 { Some(take_run(from, id, version)?) } else { None };
        to.runs.insert(id, (transaction, row));
    }
    from.is_empty().then_some(())
}

/// Approximate size of a packed row in bytes.
const PACKED_SIZE: usize = 64;

/// Encodes the state of a job as the change log does.
pub(crate) fn pack(row: &StateRow) -> Vec<u8> {
    let mut to = Vec::with_capacity(PACKED_SIZE);
    put_state(&mut to, row);
    to
}

/// Decodes [`pack`]; `None` if the bytes are invalid. A row that an earlier version packed is shorter.
pub(crate) fn unpack(packed: &[u8]) -> Option<StateRow> {
    let read = |version| {
        let from = &mut &*packed;
        take_state(from, version).filter(|_| from.is_empty())
    };
    read(FORMAT_VERSION)
        .or_else(|| read(FORMAT_WITHOUT_SKIPS))
        .or_else(|| read(FORMAT_WITHOUT_CONSECUTIVE_FAILURES))
        .or_else(|| read(FORMAT_WITHOUT_HELD_RUNS))
}

fn put_state(to: &mut Vec<u8>, row: &StateRow) {
    let StateRow { collection, generation, switched_on, state, entries, .. } = *row;
    put_signed(to, collection);
    put(to, generation);
    put_signed(to, switched_on.code());
    put_signed(to, state.lifecycle.code());
    put_instant(to, state.due);
    put(to, state.used);
    put_instant(to, state.last_execution);
    put(to, state.executions);
    put(to, state.failures);
    put(to, state.faulted);
    put_instant(to, state.finished);
    put(to, entries);
    put_signed(to, row.newest_entry);
    put_signed(to, row.newest_ledger_row);
    put(to, row.schedule_generation);
    put_instant(to, row.enabled_since);
    put(to, state.consecutive_failures);
    put_instant(to, state.skip_until);
}

fn take_state(from: &mut &[u8], version: u64) -> Option<StateRow> {
    let mut row = StateRow {
        collection: take_signed(from)?,
        generation: take(from)?,
        switched_on: take_code(from)?,
        state: JobState {
            lifecycle: take_code(from)?,
            due: take_instant(from)?,
            used: take(from)?,
            last_execution: take_instant(from)?,
            executions: take(from)?,
            failures: take(from)?,
            faulted: take(from)?,
            finished: take_instant(from)?,
            consecutive_failures: 0,
            skip_until: None,
        },
        entries: take(from)?,
        newest_entry: take_signed(from)?,
        newest_ledger_row: take_signed(from)?,
        schedule_generation: 0,
        enabled_since: None,
    };
    row.schedule_generation = row.generation;
    if version > FORMAT_WITHOUT_HELD_RUNS {
        row.schedule_generation = take(from)?;
        row.enabled_since = take_instant(from)?;
    }
    if version > FORMAT_WITHOUT_CONSECUTIVE_FAILURES {
        row.state.consecutive_failures = take(from)?;
    }
    if version > FORMAT_WITHOUT_SKIPS {
        row.state.skip_until = take_instant(from)?;
    }
    Some(row)
}

fn put_run(to: &mut Vec<u8>, row: &RunRow) {
    let RunRow { run, collection, last_token, is_held, attempts } = *row;
    let OpenRun { progress, claim, .. } = run;
    put_signed(to, run.job.0);
    put_signed(to, collection);
    put(to, run.generation);
    put_instant(to, Some(run.scheduled));
    put_signed(to, run.cause.code());
    put(to, run.repeat);
    put_signed(to, progress.role.code());
    put(to, progress.retry.into());
    put(to, progress.redelivery.into());
    put_instant(to, Some(progress.next_at));
    put_instant(to, progress.first_started);
    put_instant(to, claim.map(|claim| claim.lease_until));
    if let Some(claim) = claim {
        put_signed(to, claim.owner.code());
        put_signed(to, claim.token.code());
    }
    put(to, last_token);
    put(to, is_held.into());
    put(to, u64::from(run.waits_for.is_some()));
    if let Some(SlotKey(key)) = run.waits_for {
        put(to, key);
    }
    put(to, attempts.count.into());
    put_instant(to, attempts.first_started);
}

fn take_run(from: &mut &[u8], id: RunId, version: u64) -> Option<RunRow> {
    let job = JobKey(take_signed(from)?);
    let collection = take_signed(from)?;
    let (generation, scheduled) = (take(from)?, take_instant(from)??);
    let (cause, repeat) = (take_code(from)?, take(from)?);
    let progress = Progress {
        role: take_code(from)?,
        retry: take(from)?.try_into().ok()?,
        redelivery: take(from)?.try_into().ok()?,
        next_at: take_instant(from)??,
        first_started: take_instant(from)?,
    };
    let claim = match take_instant(from)? {
        Some(lease_until) => {
            Some(Claim { owner: take_code(from)?, token: take_code(from)?, lease_until })
        }
        None => None,
    };
    let last_token = take(from)?;
    let is_held = version > FORMAT_WITHOUT_HELD_RUNS && take(from)? == 1;
    let is_parked = version > FORMAT_WITHOUT_PARKED_RUNS && take(from)? == 1;
    let waits_for = if is_parked { Some(SlotKey(take(from)?)) } else { None };
    let run = OpenRun { id, job, generation, scheduled, cause, repeat, progress, claim, waits_for };
    let mut attempts = RecordedAttempts::default();
    if version > FORMAT_WITHOUT_ATTEMPTS {
        attempts.count = take(from)?.try_into().ok()?;
        attempts.first_started = take_instant(from)?;
    }
    Some(RunRow { run, collection, last_token, is_held, attempts })
}

/// LEB128: seven bits per byte, the lowest first; the high bit is set on all but the last byte.
fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Zigzag encoding, so that small negative numbers are short too.
fn put_signed(to: &mut Vec<u8>, number: i64) {
    put(to, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn take_signed(from: &mut &[u8]) -> Option<i64> {
    let number = take(from)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}

fn take_code<T: Code>(from: &mut &[u8]) -> Option<T> {
    T::from_code(take_signed(from)?)
}

fn put_instant(to: &mut Vec<u8>, instant: Option<Instant>) {
    put(to, u64::from(instant.is_some()));
    if let Some(instant) = instant {
        put_signed(to, instant.ticks());
    }
}

fn take_instant(from: &mut &[u8]) -> Option<Option<Instant>> {
    match take(from)? {
        0 => Some(None),
        _ => Some(Some(Instant::from_ticks(take_signed(from)?)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cause, FencingToken, NodeId};
    use kalends_domain::{ActionRole, Lifecycle};

    fn state() -> StateRow {
        StateRow {
            collection: 7,
            generation: u64::MAX,
            switched_on: true,
            state: JobState {
                lifecycle: Lifecycle::Faulted,
                due: Some(Instant::MAX),
                used: 300,
                last_execution: Some(Instant::MIN),
                executions: 1,
                failures: 127,
                faulted: 128,
                finished: None,
                consecutive_failures: 129,
                skip_until: None,
            },
            entries: 5,
            newest_entry: i64::MAX,
            newest_ledger_row: 0,
            schedule_generation: 300,
            enabled_since: Some(Instant::MAX),
        }
    }

    fn run(claim: Option<Claim>) -> RunRow {
        let progress = Progress {
            role: ActionRole::Error,
            retry: u32::MAX,
            redelivery: 2,
            next_at: Instant::MAX,
            first_started: None,
        };
        let run = OpenRun {
            id: RunId(9),
            job: JobKey(3),
            generation: 4,
            scheduled: Instant::MIN,
            cause: Cause::Manual,
            repeat: 5,
            progress,
            claim,
            waits_for: claim.is_none().then_some(SlotKey(u64::MAX)),
        };
        let attempts = RecordedAttempts { count: 3, first_started: claim.map(|_| Instant::MIN) };
        RunRow { run, collection: 6, last_token: 8, is_held: true, attempts }
    }

    #[test]
    fn encoded_changes_decode_to_the_same_rows() {
        let owner = NodeId(u64::MAX);
        let claim = Claim { owner, token: FencingToken(8), lease_until: Instant::MAX };
        let numbers = LastNumbers { run: 9, history: -1, ledger: i64::MIN };
        let (job, claimed, waiting) = (state(), run(Some(claim)), run(None));
        let jobs = [(JobKey(3), Some(&job)), (JobKey(-4), None)];
        let runs = [(RunId(9), Some(&claimed)), (RunId(10), None), (RunId(9), Some(&waiting))];
        let mut replayed = Replayed { transaction: 2, ..Replayed::default() };
        decode(&mut replayed, &encode(numbers, &jobs, &runs)).unwrap();
        assert_eq!(replayed.numbers, numbers);
        assert_eq!(replayed.jobs[&JobKey(3)], (2, Some(state())));
        assert_eq!(replayed.jobs[&JobKey(-4)], (2, None));
        assert_eq!(replayed.runs[&RunId(9)], (2, Some(run(None))));
        assert_eq!(replayed.runs[&RunId(10)], (2, None));
    }

    #[test]
    fn rows_that_earlier_versions_packed_are_read() {
        let packed = pack(&state());
        let without =
            StateRow { state: JobState { consecutive_failures: 0, ..state().state }, ..state() };
        let (failures, no_skip) = (2, 1);
        assert_eq!(unpack(&packed), Some(state()));
        assert_eq!(unpack(&packed[..packed.len() - no_skip]), Some(state()));
        assert_eq!(unpack(&packed[..packed.len() - no_skip - failures]), Some(without));
        let skip_until = Some(Instant::MAX);
        let skip = StateRow { state: JobState { skip_until, ..state().state }, ..state() };
        assert_eq!(unpack(&pack(&skip)), Some(skip));
    }

    #[test]
    fn truncated_or_extended_entries_are_rejected() {
        let whole =
            encode(LastNumbers::default(), &[(JobKey(3), Some(&state()))], &[(RunId(1), None)]);
        for length in 0..whole.len() {
            assert_eq!(decode(&mut Replayed::default(), &whole[..length]), None, "{length}");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert_eq!(decode(&mut Replayed::default(), &longer), None);
    }
}
