//! The write transaction: the writer's connection and the uncommitted changes.
//!
//! Changes of job states and open runs stay in memory until the commit appends them to the change
//! log. Rejected requests roll back to a savepoint, in memory as in the database; failed
//! transactions roll back completely.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::{JobKey, LedgerRecord, Pause, PauseRecord, RunId};
use crate::run_reports::{RunCounts, bucket_of};
use crate::sqlite::chain::ChainKind;
use crate::sqlite::code::Coded;
use crate::sqlite::collections;
use crate::sqlite::due;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::run_counts;
use crate::sqlite::state::{self, ReadState, StateRow};
use crate::sqlite::write_back::change_log::{self, LastNumbers};
use crate::sqlite::write_back::dirty_rows::UndoEntry;
use crate::sqlite::write_back::open_runs::RunRow;
use crate::sqlite::write_back::shared::{ChangeLogEnd, SharedState};

/// Number of consecutive history or ledger rows that share a row of `spans`. They fill a few pages;
/// a scan of them takes less than a millisecond.
pub(crate) const SPAN: i64 = 512;

/// Times of a history or ledger row, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowTimes {
    /// When the row expires by age, plus its retention; the oldest of several rows.
    pub(crate) oldest: Instant,
    /// The last scheduled time of a ledger row; the latest of several rows.
    pub(crate) latest: Option<Instant>,
}

/// The writer's connection and its current transaction.
pub(crate) struct WriteTransaction {
    connection: Connection,
    pub(crate) shared: Arc<SharedState>,
    /// Number of the last committed transaction in the change log.
    committed: u64,
    numbers: LastNumbers,
    /// Changed job states in order, each with its undo entry.
    jobs: Vec<(JobKey, UndoEntry)>,
    /// Changed runs; `None` for a closed one.
    runs: HashMap<RunId, Option<RunRow>>,
    /// Undo entries of `runs`, in order: the earlier value of the map, if it had one.
    runs_before: Vec<(RunId, Option<Option<RunRow>>)>,
    /// Index of `runs` by job.
    runs_by_job: BTreeSet<(JobKey, RunId)>,
    /// The times of the new rows of each span.
    spans: BTreeMap<(ChainKind, i64), RowTimes>,
    /// Counts of new ledger rows in order, each with its bucket and collection.
    run_counts: Vec<((i64, i64), RunCounts)>,
    /// Whether the transaction appends to the change log even if nothing in it changed.
    force_log_entry: bool,
    /// Values to restore on a rollback of the whole transaction.
    numbers_before: LastNumbers,
    /// Start of the current request.
    savepoint: Savepoint,
    /// Whether collections are enabled, read on demand; `None` for a deleted one. Cleared when a
    /// collection changes.
    collections: HashMap<i64, Option<bool>>,
    /// Whether the transaction changed a collection, so that the commit invalidates the caches.
    changed_collections: bool,
    /// The pause that the transaction wrote. Writing it is the last step of a request, so that no
    /// rollback to a savepoint has to restore it.
    changed_pause: Option<PauseRecord>,
    /// Whether rows of deleted jobs or collections may be left to remove.
    pub(crate) has_removals: bool,
    /// Whether a request asked the writer to flush all dirty rows.
    pub(crate) wants_flush: bool,
    /// Number of the last transaction that changed a job state or a run.
    last_change: u64,
    /// Number of changes appended to the change log since the last flush began.
    pub(crate) logged_changes: usize,
}

/// State at the start of a request: lengths of the undo lists, and the last numbers.
#[derive(Clone, Copy, Default)]
struct Savepoint {
    jobs: usize,
    runs: usize,
    run_counts: usize,
    numbers: LastNumbers,
}

impl WriteTransaction {
    /// Creates the transaction state of a store whose change log ends at `end`.
    pub(crate) fn new(
        connection: Connection,
        shared: Arc<SharedState>,
        end: ChangeLogEnd,
    ) -> WriteTransaction {
        WriteTransaction {
            connection,
            shared,
            committed: end.transaction,
            numbers: end.numbers,
            jobs: Vec::new(),
            runs: HashMap::default(),
            runs_before: Vec::new(),
            runs_by_job: BTreeSet::new(),
            spans: BTreeMap::new(),
            run_counts: Vec::new(),
            force_log_entry: false,
            numbers_before: end.numbers,
            savepoint: Savepoint::default(),
            collections: HashMap::default(),
            changed_collections: false,
            changed_pause: None,
            has_removals: true,
            wants_flush: false,
            last_change: end.transaction,
            logged_changes: 0,
        }
    }

    /// Number of the last transaction that changed a job state or a run.
    pub(crate) fn last_change(&self) -> u64 {
        self.last_change
    }

    /// Number of the current transaction.
    pub(crate) fn transaction(&self) -> u64 {
        self.committed + 1
    }

    /// Number of the last committed transaction in the change log.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Sets the savepoint of a request.
    pub(crate) fn begin_request(&mut self) {
        let (jobs, runs) = (self.jobs.len(), self.runs_before.len());
        let (run_counts, numbers) = (self.run_counts.len(), self.numbers);
        self.savepoint = Savepoint { jobs, runs, run_counts, numbers };
    }

    /// Rolls back the changes since [`WriteTransaction::begin_request`].
    pub(crate) fn roll_back_request(&mut self) {
        self.roll_back_to(self.savepoint);
    }

    fn roll_back_to(&mut self, savepoint: Savepoint) {
        for (job, before) in self.jobs.drain(savepoint.jobs..).rev() {
            self.shared.dirty_rows.undo(job, before);
        }
        for (run, before) in self.runs_before.drain(savepoint.runs..).rev() {
            match before {
                Some(before) => drop(self.runs.insert(run, before)),
                None => drop(self.runs.remove(&run)),
            }
        }
        self.run_counts.truncate(savepoint.run_counts);
        self.numbers = savepoint.numbers;
        self.collections.clear();
        self.has_removals = true;
    }

    /// Rolls back the whole transaction.
    pub(crate) fn roll_back(&mut self) {
        self.roll_back_to(Savepoint { numbers: self.numbers_before, ..Savepoint::default() });
        self.reset();
    }

    /// Makes the transaction append to the change log, so that it gets a number of its own.
    pub(crate) fn force_log_entry(&mut self) {
        self.force_log_entry = true;
    }

    /// Appends the changes to the change log. Must be the last write before the commit.
    pub(crate) fn append_to_change_log(&mut self) -> SqliteResult<()> {
        for ((kind, span), RowTimes { oldest, latest }) in std::mem::take(&mut self.spans) {
            self.connection
                .prepare_cached(
                    "INSERT INTO spans (kind, span, oldest, latest) VALUES (?, ?, ?, ?)
                     ON CONFLICT DO UPDATE SET oldest = min(oldest, excluded.oldest),
                         latest = max(latest, excluded.latest)",
                )?
                .execute((kind as i64, span, Coded(oldest), latest.map(Coded)))?;
        }
        run_counts::add(&self.connection, std::mem::take(&mut self.run_counts))?;
        if !self.is_logged() {
            return Ok(());
        }
        let mut jobs: Vec<_> = self.jobs.iter().map(|(job, _)| *job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let runs: Vec<_> = self.runs.iter().map(|(run, row)| (*run, row.as_ref())).collect();
        let changes = self
            .shared
            .dirty_rows
            .with_newest(&jobs, |jobs| change_log::encode(self.numbers, jobs, &runs));
        change_log::append(&self.connection, self.transaction(), &changes)
    }

    fn is_logged(&self) -> bool {
        let changed = !self.jobs.is_empty() || !self.runs.is_empty();
        self.force_log_entry || changed || self.numbers != self.numbers_before
    }

    /// After the commit: makes the changes visible to readers.
    pub(crate) fn publish(&mut self) {
        if self.changed_collections {
            self.shared.invalidate_collections();
        }
        if let Some(pause) = self.changed_pause.take() {
            self.shared.set_pause(pause);
        }
        if self.is_logged() {
            self.committed += 1;
            self.shared.dirty_rows.commit(self.committed);
        }
        if self.changes() > 0 {
            self.last_change = self.committed;
            self.logged_changes += self.changes();
        }
        if !self.runs.is_empty() {
            let mut runs = self.shared.runs_mut();
            for (run, row) in self.runs.drain() {
                runs.apply(run, row, self.committed);
            }
        }
        self.reset();
    }

    fn reset(&mut self) {
        self.jobs.clear();
        self.runs.clear();
        self.runs_before.clear();
        self.runs_by_job.clear();
        self.spans.clear();
        self.run_counts.clear();
        self.force_log_entry = false;
        self.changed_collections = false;
        self.changed_pause = None;
        self.numbers_before = self.numbers;
    }

    /// Number of changes to job states and runs in the current transaction.
    pub(crate) fn changes(&self) -> usize {
        self.jobs.len() + self.runs_before.len()
    }

    /// Changes or deletes a job's state, and updates `due` and `finished`.
    pub(crate) fn set_state(
        &mut self,
        job: JobKey,
        before: &StateRow,
        after: Option<StateRow>,
    ) -> SqliteResult<()> {
        if let Some(due) = self.change_state(job, before, after) {
            due::remove(&self.connection, due, job)?;
        }
        index_finished(&self.connection, job, Some(before), after.as_ref())
    }

    /// Changes or deletes a job's state in memory. The caller must update `finished`, and delete the
    /// job's row of `due` at the returned time.
    pub(crate) fn change_state(
        &mut self,
        job: JobKey,
        before: &StateRow,
        after: Option<StateRow>,
    ) -> Option<Instant> {
        let undo = self.shared.dirty_rows.set(job, (self.transaction(), after));
        self.jobs.push((job, undo));
        let was = before.active_due()?;
        let has_moved = Some(was) != after.as_ref().and_then(StateRow::active_due);
        (has_moved && self.shared.dirty_rows.mark_removed_from_due(job)).then_some(was)
    }

    /// Deletes a state that cannot be read from memory, `due` and `finished`. Reads all rows of both
    /// tables, because their keys are in the state.
    pub(crate) fn delete_unreadable_state(&mut self, job: JobKey) -> SqliteResult<()> {
        let undo = self.shared.dirty_rows.set(job, (self.transaction(), None));
        self.jobs.push((job, undo));
        self.shared.dirty_rows.mark_removed_from_due(job);
        for delete in ["DELETE FROM due WHERE job = ?", "DELETE FROM finished WHERE job = ?"] {
            self.connection.prepare_cached(delete)?.execute([Coded(job)])?;
        }
        Ok(())
    }

    /// Inserts the state of a new job at the end of its table. Its row in `due` may belong on any
    /// page, and therefore waits for a flush.
    pub(crate) fn add_state(&mut self, job: JobKey, row: &StateRow) -> SqliteResult<()> {
        state::WRITE.one(&self.connection, &state::integers(job, row))?;
        if row.active_due().is_some() {
            let undo = self.shared.dirty_rows.add(job, (self.transaction(), Some(*row)));
            self.jobs.push((job, undo));
        }
        index_finished(&self.connection, job, None, Some(row))
    }

    /// Allocates the number of a history or ledger row with these times.
    pub(crate) fn allocate_row_number(&mut self, kind: ChainKind, row: RowTimes) -> i64 {
        let number = match kind {
            ChainKind::History => &mut self.numbers.history,
            ChainKind::Ledger => &mut self.numbers.ledger,
        };
        *number += 1;
        let span = self.spans.entry((kind, *number / SPAN)).or_insert(row);
        span.oldest = row.oldest.min(span.oldest);
        span.latest = row.latest.max(span.latest);
        *number
    }

    /// Counts a new ledger row of a collection.
    pub(crate) fn count_closed(&mut self, collection: i64, record: &LedgerRecord) {
        let position = (bucket_of(record.closed), collection);
        self.run_counts.push((position, RunCounts::of(record)));
    }

    /// The id of the next run.
    pub(crate) fn next_run_id(&self) -> RunId {
        RunId(self.numbers.run + 1)
    }

    /// Marks [`WriteTransaction::next_run_id`] as used.
    pub(crate) fn allocate_run_id(&mut self) {
        self.numbers.run += 1;
    }

    /// An open run, with the changes of this transaction.
    pub(crate) fn run(&self, run: RunId) -> Option<RunRow> {
        match self.runs.get(&run) {
            Some(row) => *row,
            None => self.shared.runs().get(run).copied(),
        }
    }

    /// The open runs of a job, by id.
    pub(crate) fn runs_of(&self, job: JobKey) -> Vec<RunRow> {
        let mut runs = Vec::new();
        self.for_runs_of(job, |row| runs.push(*row));
        runs.sort_unstable_by_key(|row| row.run.id);
        runs
    }

    /// Calls `work` with the open runs of a job in any order.
    pub(crate) fn for_runs_of(&self, job: JobKey, mut work: impl FnMut(&RunRow)) {
        for row in self.shared.runs().of_job(job) {
            if !self.runs.contains_key(&row.run.id) {
                work(row);
            }
        }
        let range = (job, RunId(i64::MIN))..=(job, RunId(i64::MAX));
        let changed = self.runs_by_job.range(range).filter_map(|(_, run)| self.runs.get(run));
        changed.flatten().for_each(work);
    }

    /// The open runs of a collection, by id.
    pub(crate) fn runs_of_collection(&self, collection: i64) -> Vec<RunRow> {
        let committed = self.shared.runs();
        self.runs_where(committed.of_collection(collection).copied(), |row| {
            row.collection == collection
        })
    }

    /// The claimed runs, by id.
    pub(crate) fn claimed_runs(&self) -> Vec<RunRow> {
        self.runs_where(self.shared.runs().claimed().copied(), |row| row.run.claim.is_some())
    }

    fn runs_where(
        &self,
        committed: impl Iterator<Item = RunRow>,
        matches: impl Fn(&RunRow) -> bool,
    ) -> Vec<RunRow> {
        let unchanged = committed.filter(|row| !self.runs.contains_key(&row.run.id));
        let changed = self.runs.values().filter_map(|row| *row).filter(matches);
        let mut runs: Vec<_> = unchanged.chain(changed).collect();
        runs.sort_unstable_by_key(|row| row.run.id);
        runs
    }

    /// Inserts, updates or closes (`None`) a run.
    pub(crate) fn set_run(&mut self, run: RunId, row: Option<RunRow>) {
        if let Some(row) = &row {
            self.runs_by_job.insert((row.run.job, run));
        }
        let before = self.runs.insert(run, row);
        self.runs_before.push((run, before));
    }

    /// Whether a collection is enabled; `None` if it does not exist.
    pub(crate) fn collection_enabled(&mut self, id: i64) -> SqliteResult<Option<bool>> {
        if let Some(cached) = self.collections.get(&id) {
            return Ok(*cached);
        }
        let found = collections::is_enabled(&self.connection, id)?;
        self.collections.insert(id, found);
        Ok(found)
    }

    /// The newest pause of all jobs, also one that has ended.
    pub(crate) fn pause_record(&self) -> Option<PauseRecord> {
        self.changed_pause.clone().or_else(|| self.shared.pause_record())
    }

    /// The times of the newest pause.
    pub(crate) fn pause(&self) -> Option<Pause> {
        let changed = self.changed_pause.as_ref().map(|record| record.pause);
        changed.or_else(|| self.shared.pause())
    }

    /// Must be called after the pause was written.
    pub(crate) fn set_pause(&mut self, record: PauseRecord) {
        self.changed_pause = Some(record);
    }

    /// Must be called after a collection was changed or deleted.
    pub(crate) fn invalidate_collections(&mut self) {
        self.collections.clear();
        self.changed_collections = true;
    }
}

impl ReadState for WriteTransaction {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn dirty_state(&self, job: JobKey) -> Option<Option<StateRow>> {
        self.shared.dirty_rows.newest(job).map(|version| version.1)
    }
}

/// Updates the row of a job in `finished`.
pub(crate) fn index_finished(
    connection: &Connection,
    job: JobKey,
    before: Option<&StateRow>,
    after: Option<&StateRow>,
) -> SqliteResult<()> {
    let finished = |row: &StateRow| row.state.finished;
    let (was, is) = (before.and_then(finished), after.and_then(finished));
    if was != is {
        if let Some(finished) = was {
            connection
                .prepare_cached("DELETE FROM finished WHERE finished = ? AND job = ?")?
                .execute((Coded(finished), Coded(job)))?;
        }
        if let Some(finished) = is {
            connection
                .prepare_cached("INSERT INTO finished (finished, job) VALUES (?, ?)")?
                .execute((Coded(finished), Coded(job)))?;
        }
    }
    Ok(())
}
