//! What the writer works with: the connection, and the changes of the transaction under way.
//!
//! Rows of jobs and open runs are changed in memory and written to the log when the transaction is
//! committed. A request that is refused is undone here as in the database, and so is a transaction
//! that fails.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::{JobKey, RunId};
use crate::sqlite::chain::Kind;
use crate::sqlite::code::Coded;
use crate::sqlite::collections;
use crate::sqlite::due;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::{self, ReadState, StateRow};
use crate::sqlite::write_back::change_log::{self, Numbers};
use crate::sqlite::write_back::dirty_rows::Before;
use crate::sqlite::write_back::open_runs::RunRow;
use crate::sqlite::write_back::shared::{End, SharedState};

/// Rows of history, or of the ledger, that share an entry of `spans`: some pages, so that looking
/// through them takes less than a millisecond.
pub(crate) const SPAN: i64 = 512;

/// The writer's connection and the transaction under way.
pub(crate) struct WriteTransaction {
    connection: Connection,
    pub(crate) shared: Arc<SharedState>,
    /// The last transaction that was committed and is in the log.
    committed: u64,
    numbers: Numbers,
    /// What the transaction changed, in order, with what undoes it.
    jobs: Vec<(JobKey, Before)>,
    runs: HashMap<RunId, Option<RunRow>>,
    runs_before: Vec<(RunId, Option<Option<RunRow>>)>,
    /// Runs that it changed, by their jobs.
    runs_by_job: BTreeSet<(JobKey, RunId)>,
    spans: BTreeMap<(Kind, i64), Instant>,
    /// Whether it must be in the log even if it changed nothing that is logged.
    must_log: bool,
    /// What it undoes when it fails.
    numbers_before: Numbers,
    request: Mark,
    /// Which collections there are, and whether they are enabled; until one is changed.
    collections: HashMap<i64, Option<bool>>,
    /// Whether the transaction changed one.
    changed_collections: bool,
    /// Whether something deleted may still have to be removed.
    pub(crate) has_removals: bool,
    /// Whether somebody asked that the log be brought into the tables.
    pub(crate) wants_flush: bool,
    /// The last transaction that changed a job's row or a run.
    last_change: u64,
    /// How many such changes were logged since that was last set back.
    pub(crate) logged: usize,
}

/// Where a request began.
#[derive(Clone, Copy, Default)]
struct Mark {
    jobs: usize,
    runs: usize,
    numbers: Numbers,
}

impl WriteTransaction {
    /// For a store whose log ends there.
    pub(crate) fn new(
        connection: Connection,
        shared: Arc<SharedState>,
        end: End,
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
            must_log: false,
            numbers_before: end.numbers,
            request: Mark::default(),
            collections: HashMap::new(),
            changed_collections: false,
            has_removals: true,
            wants_flush: false,
            last_change: end.transaction,
            logged: 0,
        }
    }

    /// The last transaction that changed a job's row or a run.
    pub(crate) fn last_change(&self) -> u64 {
        self.last_change
    }

    /// The number of the transaction under way.
    pub(crate) fn transaction(&self) -> u64 {
        self.committed + 1
    }

    /// The last transaction in the log.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// A request begins.
    pub(crate) fn begin_request(&mut self) {
        let (jobs, runs) = (self.jobs.len(), self.runs_before.len());
        self.request = Mark { jobs, runs, numbers: self.numbers };
    }

    /// Undoes what was done since the request began.
    pub(crate) fn undo_request(&mut self) {
        self.undo_to(self.request);
    }

    fn undo_to(&mut self, mark: Mark) {
        for (job, before) in self.jobs.drain(mark.jobs..).rev() {
            self.shared.dirty_rows.undo(job, before);
        }
        for (run, before) in self.runs_before.drain(mark.runs..).rev() {
            match before {
                Some(before) => drop(self.runs.insert(run, before)),
                None => drop(self.runs.remove(&run)),
            }
        }
        self.numbers = mark.numbers;
        self.collections.clear();
        self.has_removals = true;
    }

    /// Undoes the whole transaction.
    pub(crate) fn undo_all(&mut self) {
        self.undo_to(Mark { numbers: self.numbers_before, ..Mark::default() });
        self.end();
    }

    /// The transaction is to have a number even if it changes nothing that is logged.
    pub(crate) fn must_log(&mut self) {
        self.must_log = true;
    }

    /// Writes what was changed to the log, last in the transaction.
    pub(crate) fn seal(&mut self) -> SqliteResult<()> {
        for ((kind, span), oldest) in std::mem::take(&mut self.spans) {
            self.connection
                .prepare_cached(
                    "INSERT INTO spans (kind, span, oldest) VALUES (?, ?, ?)
                     ON CONFLICT DO UPDATE SET oldest = min(oldest, excluded.oldest)",
                )?
                .execute((kind as i64, span, Coded(oldest)))?;
        }
        if !self.is_logged() {
            return Ok(());
        }
        let mut jobs: Vec<_> = self.jobs.iter().map(|(job, _)| *job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let dirty_rows = &self.shared.dirty_rows;
        let newest = |job| dirty_rows.newest(job).map(|version| (job, version.1));
        let jobs: Vec<_> = jobs.into_iter().filter_map(newest).collect();
        let runs: Vec<_> = self.runs.iter().map(|(run, row)| (*run, *row)).collect();
        change_log::append(
            &self.connection,
            self.transaction(),
            &change_log::encode(self.numbers, &jobs, &runs),
        )
    }

    fn is_logged(&self) -> bool {
        let changed = !self.jobs.is_empty() || !self.runs.is_empty();
        self.must_log || changed || self.numbers != self.numbers_before
    }

    /// The transaction is committed: what it did is shown to readers.
    pub(crate) fn publish(&mut self) {
        if self.changed_collections {
            self.shared.forget_collections();
        }
        if self.is_logged() {
            self.committed += 1;
            self.shared.dirty_rows.commit(self.committed);
        }
        if self.changes() > 0 {
            self.last_change = self.committed;
            self.logged += self.changes();
        }
        if !self.runs.is_empty() {
            let mut runs = self.shared.runs_mut();
            for (run, row) in self.runs.drain() {
                runs.apply(run, row, self.committed);
            }
        }
        self.end();
    }

    fn end(&mut self) {
        self.jobs.clear();
        self.runs.clear();
        self.runs_before.clear();
        self.runs_by_job.clear();
        self.spans.clear();
        self.must_log = false;
        self.changed_collections = false;
        self.numbers_before = self.numbers;
    }

    /// How many rows of jobs and runs the transaction has changed so far.
    pub(crate) fn changes(&self) -> usize {
        self.jobs.len() + self.runs_before.len()
    }

    /// Changes the row of a job, and where it stands among those that are due and finished.
    pub(crate) fn set_state(
        &mut self,
        job: JobKey,
        before: &StateRow,
        after: Option<StateRow>,
    ) -> SqliteResult<()> {
        let undo = self.shared.dirty_rows.set(job, (self.transaction(), after));
        self.jobs.push((job, undo));
        let was = before.starts_at();
        let is_moved = was != after.as_ref().and_then(StateRow::starts_at);
        if let Some(was) = was.filter(|_| is_moved)
            && self.shared.dirty_rows.take_from_due(job)
        {
            due::remove(&self.connection, was, job)?;
        }
        index_finished(&self.connection, job, Some(before), after.as_ref())
    }

    /// Adds the row of a new job: into its table, where it comes last. Its place among those that are
    /// due may be on any page there; it is left to a flush, which brings many of them at a time.
    pub(crate) fn add_state(&mut self, job: JobKey, row: &StateRow) -> SqliteResult<()> {
        let mut statement = self.connection.prepare_cached(state::WRITE)?;
        state::write(&mut statement, job, row)?;
        if row.starts_at().is_some() {
            let undo = self.shared.dirty_rows.add(job, (self.transaction(), Some(*row)));
            self.jobs.push((job, undo));
        }
        index_finished(&self.connection, job, None, Some(row))
    }

    /// A new number for a row of history or of the ledger that lies at an instant.
    pub(crate) fn new_link(&mut self, kind: Kind, at: Instant) -> i64 {
        let number = match kind {
            Kind::Entry => &mut self.numbers.entry,
            Kind::Closing => &mut self.numbers.closing,
        };
        *number += 1;
        let oldest = self.spans.entry((kind, *number / SPAN)).or_insert(at);
        *oldest = at.min(*oldest);
        *number
    }

    /// The id that the next run gets.
    pub(crate) fn next_run_id(&self) -> RunId {
        RunId(self.numbers.run + 1)
    }

    /// Takes that id.
    pub(crate) fn take_run_id(&mut self) {
        self.numbers.run += 1;
    }

    /// An open run.
    pub(crate) fn run(&self, run: RunId) -> Option<RunRow> {
        match self.runs.get(&run) {
            Some(row) => *row,
            None => self.shared.runs().get(run).copied(),
        }
    }

    /// The open runs of a job, in their order.
    pub(crate) fn runs_of(&self, job: JobKey) -> Vec<RunRow> {
        let range = (job, RunId(i64::MIN))..=(job, RunId(i64::MAX));
        let changed = self.runs_by_job.range(range).filter_map(|(_, run)| self.runs.get(run));
        let committed = self.shared.runs();
        let committed = committed.of_job(job).filter(|row| !self.runs.contains_key(&row.run.id));
        let mut runs: Vec<_> = committed.chain(changed.flatten()).copied().collect();
        runs.sort_unstable_by_key(|row| row.run.id);
        runs
    }

    /// The open runs of a collection, in their order.
    pub(crate) fn runs_in(&self, collection: i64) -> Vec<RunRow> {
        let committed = self.shared.runs();
        self.runs_where(committed.of_collection(collection).copied(), |row| {
            row.collection == collection
        })
    }

    /// The runs that somebody works on, in their order.
    pub(crate) fn claimed_runs(&self) -> Vec<RunRow> {
        self.runs_where(self.shared.runs().claimed().copied(), |row| row.run.claim.is_some())
    }

    fn runs_where(
        &self,
        committed: impl Iterator<Item = RunRow>,
        fits: impl Fn(&RunRow) -> bool,
    ) -> Vec<RunRow> {
        let unchanged = committed.filter(|row| !self.runs.contains_key(&row.run.id));
        let changed = self.runs.values().filter_map(|row| *row).filter(fits);
        let mut runs: Vec<_> = unchanged.chain(changed).collect();
        runs.sort_unstable_by_key(|row| row.run.id);
        runs
    }

    /// Changes an open run, or closes it.
    pub(crate) fn set_run(&mut self, run: RunId, row: Option<RunRow>) {
        if let Some(row) = &row {
            self.runs_by_job.insert((row.run.job, run));
        }
        let before = self.runs.insert(run, row);
        self.runs_before.push((run, before));
    }

    /// Whether a collection is enabled; `None` where it is gone.
    pub(crate) fn collection_enabled(&mut self, id: i64) -> SqliteResult<Option<bool>> {
        if let Some(known) = self.collections.get(&id) {
            return Ok(*known);
        }
        let found = collections::is_enabled(&self.connection, id)?;
        self.collections.insert(id, found);
        Ok(found)
    }

    /// A collection was changed or deleted.
    pub(crate) fn forget_collections(&mut self) {
        self.collections.clear();
        self.changed_collections = true;
    }
}

impl ReadState for WriteTransaction {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn changed(&self, job: JobKey) -> Option<Option<StateRow>> {
        self.shared.dirty_rows.newest(job).map(|version| version.1)
    }
}

/// Keeps `finished` as a job's row says.
fn index_finished(
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
