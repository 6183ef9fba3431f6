//! Dirty rows: job states that changed and are not yet in their tables.
//!
//! MVCC: each version of a row carries the number of its transaction. The writer adds a version
//! before it commits. A reader sees versions up to the newest transaction in its SQLite snapshot,
//! so that tables and dirty rows show the same state. A version is dropped once the tables have it
//! and no older snapshot is open.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::HashMap;
use kalends_recurrence::Instant;

use crate::record::JobKey;
use crate::sqlite::state::StateRow;

/// Slot value of a reader without a snapshot.
const IDLE: u64 = u64::MAX;

/// The dirty rows and the open snapshots.
pub(crate) struct DirtyRows {
    rows: RwLock<Rows>,
    /// For each reader, a transaction that its snapshot is certain to include.
    readers: Vec<AtomicU64>,
    /// Number of the newest committed transaction.
    committed: AtomicU64,
}

#[derive(Default)]
struct Rows {
    by_job: HashMap<JobKey, Versions>,
    /// Positions of all versions.
    due_positions: BTreeSet<DuePosition>,
}

/// A transaction number and the row after it; `None` if the job was deleted.
pub(crate) type Version = (u64, Option<StateRow>);

/// Sort position in `due`.
pub(crate) type DuePosition = (Instant, JobKey);

/// A row's due time, its job, and the transaction number of its version.
pub(crate) type DueVersion = (Option<Instant>, JobKey, u64);

struct Versions {
    newest: Version,
    /// Ascending; usually empty.
    older: Vec<Version>,
    /// Whether the table `due` may have a row for the newest version.
    is_in_due: bool,
    /// Whether the table `state` has the newest version.
    is_in_state: bool,
}

/// The value of a row before a change, for rollback.
pub(crate) enum UndoEntry {
    /// The row was not dirty.
    Absent,
    /// The same transaction had changed it before, to this value.
    SameTransaction(Option<StateRow>),
    /// An earlier transaction had changed it; its version is kept.
    EarlierTransaction,
}

impl DirtyRows {
    /// Creates the dirty rows that the change log holds, up to transaction `committed`.
    pub(crate) fn new(
        rows: impl Iterator<Item = (JobKey, Version)>,
        committed: u64,
        readers: usize,
    ) -> DirtyRows {
        let by_job: HashMap<_, _> =
            rows.map(|(job, newest)| (job, Versions::new(newest))).collect();
        let position = |(job, versions): (&JobKey, &Versions)| Some((due(&versions.newest)?, *job));
        let due_positions = by_job.iter().filter_map(position).collect();
        DirtyRows {
            rows: RwLock::new(Rows { by_job, due_positions }),
            readers: (0..readers).map(|_| AtomicU64::new(IDLE)).collect(),
            committed: AtomicU64::new(committed),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of dirty rows.
    pub(crate) fn len(&self) -> usize {
        self.read().by_job.len()
    }

    /// Registers a snapshot that the reader is about to take. Versions it may need stay until
    /// [`DirtyRows::end_read`].
    pub(crate) fn begin_read(&self, reader: usize) {
        if let Some(slot) = self.readers.get(reader) {
            // Must precede the snapshot: see `oldest_snapshot`.
            slot.store(self.committed.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Unregisters the reader's snapshot.
    pub(crate) fn end_read(&self, reader: usize) {
        if let Some(slot) = self.readers.get(reader) {
            slot.store(IDLE, Ordering::SeqCst);
        }
    }

    /// A transaction that all current and future snapshots include. A reader that is not registered
    /// yet will take its snapshot later, with everything committed by now.
    fn oldest_snapshot(&self) -> u64 {
        let committed = self.committed.load(Ordering::SeqCst);
        let slots = self.readers.iter().map(|slot| slot.load(Ordering::SeqCst));
        slots.min().unwrap_or(IDLE).min(committed)
    }

    /// Records that a transaction was committed.
    pub(crate) fn commit(&self, transaction: u64) {
        self.committed.store(transaction, Ordering::SeqCst);
    }

    /// The newest version of a row, committed or not.
    pub(crate) fn newest(&self, job: JobKey) -> Option<Version> {
        self.read().by_job.get(&job).map(|versions| versions.newest)
    }

    /// Calls `work` with the newest versions of rows, committed or not.
    pub(crate) fn with_newest<T>(
        &self,
        jobs: &[JobKey],
        work: impl FnOnce(&[(JobKey, Option<&StateRow>)]) -> T,
    ) -> T {
        let rows = self.read();
        let newest = |job: &JobKey| Some((*job, rows.by_job.get(job)?.newest.1.as_ref()));
        work(&jobs.iter().filter_map(newest).collect::<Vec<_>>())
    }

    /// Removes the positions of jobs with a dirty row.
    pub(crate) fn retain_clean(&self, positions: &mut Vec<DuePosition>) {
        let rows = self.read();
        positions.retain(|(_, job)| !rows.by_job.contains_key(job));
    }

    /// A row as of a transaction; `None` if the table has it.
    pub(crate) fn as_of(&self, job: JobKey, transaction: u64) -> Option<Option<StateRow>> {
        self.read().by_job.get(&job)?.as_of(transaction)
    }

    /// Jobs due after a position, as of a transaction, among the next `scan_max` positions; and the
    /// last scanned position if there may be more.
    pub(crate) fn due(
        &self,
        after: DuePosition,
        until: Instant,
        transaction: u64,
        scan_max: usize,
    ) -> (Vec<(DuePosition, StateRow)>, Option<DuePosition>) {
        let rows = self.read();
        let due_positions = rows.due_positions.range((Bound::Excluded(after), Bound::Unbounded));
        let (mut found, mut scanned, mut last) = (Vec::new(), 0, None);
        for (due, job) in due_positions.take_while(|(due, _)| *due <= until).take(scan_max) {
            scanned += 1;
            last = Some((*due, *job));
            let row = rows.by_job.get(job).and_then(|versions| versions.as_of(transaction));
            let is_current = |row: &StateRow| row.active_due() == Some(*due);
            found.extend(row.flatten().filter(is_current).map(|row| ((*due, *job), row)));
        }
        (found, last.filter(|_| scanned == scan_max))
    }

    /// Rows as of the newest commit; `None` if the table has one of them. Locks once for all.
    pub(crate) fn as_committed(&self, jobs: &[JobKey]) -> Option<Vec<Option<StateRow>>> {
        let rows = self.read();
        let committed = self.committed.load(Ordering::SeqCst);
        jobs.iter().map(|job| rows.by_job.get(job)?.as_of(committed)).collect()
    }

    /// Changes a row in the current transaction.
    pub(crate) fn set(&self, job: JobKey, version: Version) -> UndoEntry {
        let oldest_snapshot = self.oldest_snapshot();
        let Rows { by_job, due_positions } = &mut *self.write();
        let Some(versions) = by_job.get_mut(&job) else {
            due_positions.extend(due(&version).map(|due| (due, job)));
            by_job.insert(job, Versions::new(version));
            return UndoEntry::Absent;
        };
        let before = std::mem::replace(&mut versions.newest, version);
        versions.is_in_state = false;
        if due(&before) != due(&version) {
            due_positions.extend(due(&version).map(|due| (due, job)));
        }
        if before.0 == version.0 {
            versions.remove_due_position(job, &before, due_positions);
            return UndoEntry::SameTransaction(before.1);
        }
        // Usually it stays the only one, and the default capacity would be larger than the rest of
        // the row.
        versions.older.reserve_exact(1);
        versions.older.push(before);
        for dropped in versions.drop_unreachable(oldest_snapshot) {
            versions.remove_due_position(job, &dropped, due_positions);
        }
        UndoEntry::EarlierTransaction
    }

    /// Adds the row of a new job. The same transaction inserts it into `state`, but not into `due`.
    pub(crate) fn add(&self, job: JobKey, version: Version) -> UndoEntry {
        let Rows { by_job, due_positions } = &mut *self.write();
        due_positions.extend(due(&version).map(|due| (due, job)));
        let versions = Versions { is_in_due: false, is_in_state: true, ..Versions::new(version) };
        by_job.insert(job, versions);
        UndoEntry::Absent
    }

    /// Undoes the last change of a row.
    pub(crate) fn undo(&self, job: JobKey, before: UndoEntry) {
        let Rows { by_job, due_positions } = &mut *self.write();
        let Some(versions) = by_job.get_mut(&job) else { return };
        // The rollback restores the row that the transaction deleted from `due`.
        versions.is_in_due = true;
        versions.is_in_state = false;
        let undone = versions.newest;
        match before {
            UndoEntry::Absent => {
                by_job.remove(&job);
                remove_position(due_positions, &undone, job);
                return;
            }
            UndoEntry::SameTransaction(row) => versions.newest.1 = row,
            UndoEntry::EarlierTransaction => {
                if let Some(newest) = versions.older.pop() {
                    versions.newest = newest;
                }
            }
        }
        due_positions.extend(due(&versions.newest).map(|due| (due, job)));
        versions.remove_due_position(job, &undone, due_positions);
    }

    /// Must be called before a job's row is deleted from `due`. Returns `false` if the table does
    /// not have it.
    pub(crate) fn mark_removed_from_due(&self, job: JobKey) -> bool {
        let mut rows = self.write();
        let versions = rows.by_job.get_mut(&job);
        versions.is_none_or(|versions| std::mem::replace(&mut versions.is_in_due, false))
    }

    /// Must be called before a job's row is written to `due`. Returns the row to write, or `None`
    /// if a newer version exists.
    pub(crate) fn mark_written_to_due(
        &self,
        job: JobKey,
        version: u64,
    ) -> Option<Option<StateRow>> {
        let mut rows = self.write();
        let versions = rows.by_job.get_mut(&job).filter(|versions| versions.newest.0 == version)?;
        versions.is_in_due = true;
        Some(versions.newest.1)
    }

    /// Jobs whose newest version `state` does not have, by key; and all others, with their
    /// versions.
    pub(crate) fn unflushed(&self) -> (Vec<JobKey>, Vec<DueVersion>) {
        let (mut unwritten, mut written) = (Vec::new(), Vec::new());
        for (job, versions) in &self.read().by_job {
            match versions.is_in_state {
                true => written.push((due(&versions.newest), *job, versions.newest.0)),
                false => unwritten.push(*job),
            }
        }
        unwritten.sort_unstable();
        (unwritten, written)
    }

    /// Jobs whose newest version matches a condition, by key.
    pub(crate) fn jobs_where(&self, holds: impl Fn(JobKey, &StateRow) -> bool) -> Vec<JobKey> {
        let rows = self.read();
        let matches = |(job, versions): (&JobKey, &Versions)| {
            versions.newest.1.as_ref().is_some_and(|row| holds(*job, row)).then_some(*job)
        };
        let mut jobs: Vec<_> = rows.by_job.iter().filter_map(matches).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Drops rows whose versions were flushed by transaction `since`, unless they changed again.
    /// Returns `false`, and drops nothing, while an older snapshot is open.
    pub(crate) fn drop_flushed(&self, since: u64, flushed: &[(JobKey, u64)]) -> bool {
        if self.oldest_snapshot() < since {
            return false;
        }
        let Rows { by_job, due_positions } = &mut *self.write();
        for (job, version) in flushed {
            if by_job.get(job).is_some_and(|versions| versions.newest.0 == *version)
                && let Some(versions) = by_job.remove(job)
            {
                for version in versions.all() {
                    remove_position(due_positions, version, *job);
                }
            }
        }
        true
    }
}

/// The due time of a version, if its schedule is active.
fn due(version: &Version) -> Option<Instant> {
    version.1?.active_due()
}

fn remove_position(due_positions: &mut BTreeSet<DuePosition>, version: &Version, job: JobKey) {
    if let Some(due) = due(version) {
        due_positions.remove(&(due, job));
    }
}

impl Versions {
    fn new(newest: Version) -> Versions {
        Versions { newest, older: Vec::new(), is_in_due: true, is_in_state: false }
    }

    /// All versions, newest first.
    fn all(&self) -> impl Iterator<Item = &Version> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }

    fn as_of(&self, transaction: u64) -> Option<Option<StateRow>> {
        self.all().find(|version| version.0 <= transaction).map(|version| version.1)
    }

    /// Removes the position of a dropped version, unless another version has the same.
    fn remove_due_position(
        &self,
        job: JobKey,
        dropped: &Version,
        due_positions: &mut BTreeSet<DuePosition>,
    ) {
        if !self.all().any(|version| due(version) == due(dropped)) {
            remove_position(due_positions, dropped, job);
        }
    }

    /// Drops versions that no snapshot can see.
    fn drop_unreachable(&mut self, oldest_snapshot: u64) -> Vec<Version> {
        let seen = self.older.iter().rposition(|version| version.0 <= oldest_snapshot);
        // The oldest snapshot sees version `seen`, because the newest one is not committed yet.
        self.older.drain(..seen.unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::JobState;

    const JOB: JobKey = JobKey(1);

    fn row(used: u64) -> Option<StateRow> {
        Some(StateRow {
            collection: 1,
            generation: 1,
            switched_on: true,
            state: JobState { used, ..JobState::default() },
            entries: 0,
            newest_entry: 0,
            newest_ledger_row: 0,
            schedule_generation: 1,
            enabled_since: None,
        })
    }

    #[test]
    fn a_reader_sees_the_versions_of_its_snapshot() {
        let dirty_rows = DirtyRows::new(std::iter::empty(), 4, 2);
        dirty_rows.begin_read(0);
        dirty_rows.set(JOB, (5, row(5)));
        assert_eq!(dirty_rows.as_of(JOB, 4), None, "the table has this version");
        dirty_rows.commit(5);
        dirty_rows.begin_read(1);
        dirty_rows.set(JOB, (6, row(6)));
        dirty_rows.set(JOB, (6, row(7)));
        dirty_rows.commit(6);
        dirty_rows.set(JOB, (8, None));
        assert_eq!(dirty_rows.as_of(JOB, 4), None);
        assert_eq!(dirty_rows.as_of(JOB, 5), Some(row(5)));
        assert_eq!(dirty_rows.as_of(JOB, 7), Some(row(7)));
        assert_eq!(dirty_rows.as_of(JOB, 8), Some(None));
    }

    #[test]
    fn undo_restores_the_previous_versions() {
        let dirty_rows = DirtyRows::new([(JOB, (3, row(3)))].into_iter(), 3, 1);
        let other = JobKey(2);
        let first = dirty_rows.set(JOB, (4, row(4)));
        let second = dirty_rows.set(JOB, (4, None));
        let third = dirty_rows.set(other, (4, row(1)));
        dirty_rows.undo(other, third);
        dirty_rows.undo(JOB, second);
        assert_eq!(dirty_rows.newest(JOB), Some((4, row(4))));
        dirty_rows.undo(JOB, first);
        assert_eq!(dirty_rows.newest(JOB), Some((3, row(3))));
        assert_eq!(dirty_rows.newest(other), None);
    }

    #[test]
    fn flushed_rows_stay_while_an_older_snapshot_is_open() {
        let dirty_rows = DirtyRows::new([(JOB, (3, row(3)))].into_iter(), 3, 1);
        dirty_rows.begin_read(0);
        dirty_rows.commit(4);
        assert!(!dirty_rows.drop_flushed(4, &[(JOB, 3)]));
        assert_eq!(dirty_rows.as_of(JOB, 3), Some(row(3)));
        dirty_rows.end_read(0);
        assert!(dirty_rows.drop_flushed(4, &[(JOB, 3)]));
        assert_eq!(dirty_rows.len(), 0);
    }

    fn due_at(ticks: i64) -> Option<StateRow> {
        let due = Instant::from_ticks(ticks);
        row(1).map(|row| StateRow { state: JobState { due, ..row.state }, ..row })
    }

    /// Due times and jobs as of a transaction, read in pages of two.
    fn due_as_of(dirty_rows: &DirtyRows, transaction: u64) -> Vec<(i64, i64)> {
        let (mut all, mut after) = (Vec::new(), Some((Instant::MIN, JobKey(0))));
        while let Some(position) = after {
            let (found, last) = dirty_rows.due(position, Instant::MAX, transaction, 2);
            all.extend(found.iter().map(|((due, job), _)| (due.ticks(), job.0)));
            after = last;
        }
        all
    }

    #[test]
    fn due_positions_follow_the_snapshot_of_the_reader() {
        let others = (2..5).map(|job| (JobKey(job), (3, due_at(10 * job))));
        let dirty_rows = DirtyRows::new([(JOB, (3, due_at(10)))].into_iter().chain(others), 4, 1);
        dirty_rows.begin_read(0);
        dirty_rows.set(JOB, (5, due_at(35)));
        dirty_rows.set(JobKey(3), (5, None));
        dirty_rows.commit(5);
        assert_eq!(due_as_of(&dirty_rows, 4), [(10, 1), (20, 2), (30, 3), (40, 4)]);
        assert_eq!(due_as_of(&dirty_rows, 5), [(20, 2), (35, 1), (40, 4)]);
        dirty_rows.end_read(0);
        let change = dirty_rows.set(JOB, (6, due_at(50)));
        let again = dirty_rows.set(JOB, (6, due_at(20)));
        assert_eq!(due_as_of(&dirty_rows, 6), [(20, 1), (20, 2), (40, 4)]);
        dirty_rows.undo(JOB, again);
        dirty_rows.undo(JOB, change);
        assert_eq!(due_as_of(&dirty_rows, 6), [(20, 2), (35, 1), (40, 4)]);
        assert!(dirty_rows.drop_flushed(5, &[(JOB, 5), (JobKey(2), 3), (JobKey(3), 5)]));
        assert_eq!(due_as_of(&dirty_rows, 6), [(40, 4)]);
        assert_eq!(dirty_rows.read().due_positions.len(), 1);
    }

    #[test]
    fn a_new_row_is_in_the_state_table_but_not_in_the_due_table() {
        let dirty_rows = DirtyRows::new(std::iter::empty(), 4, 0);
        let is_in_state = || dirty_rows.unflushed().0.is_empty();
        let added = dirty_rows.add(JOB, (5, due_at(10)));
        assert_eq!(due_as_of(&dirty_rows, 5), [(10, 1)]);
        assert!(is_in_state());
        assert!(!dirty_rows.mark_removed_from_due(JOB));
        dirty_rows.undo(JOB, added);
        assert_eq!((dirty_rows.len(), dirty_rows.read().due_positions.len()), (0, 0));
        dirty_rows.add(JOB, (5, due_at(10)));
        let change = dirty_rows.set(JOB, (6, due_at(20)));
        assert!(!is_in_state());
        dirty_rows.undo(JOB, change);
        assert!(!is_in_state(), "the table may have the newer version");
    }

    #[test]
    fn a_due_row_is_removed_once_and_again_after_an_undo() {
        let dirty_rows = DirtyRows::new(std::iter::empty(), 4, 0);
        let change = dirty_rows.set(JOB, (5, due_at(10)));
        assert!(dirty_rows.mark_removed_from_due(JOB));
        assert!(!dirty_rows.mark_removed_from_due(JOB));
        let again = dirty_rows.set(JOB, (5, due_at(20)));
        dirty_rows.undo(JOB, again);
        assert!(dirty_rows.mark_removed_from_due(JOB), "the rollback restored the row");
        assert_eq!(dirty_rows.mark_written_to_due(JOB, 4), None);
        assert_eq!(dirty_rows.mark_written_to_due(JOB, 5), Some(due_at(10)));
        assert!(dirty_rows.mark_removed_from_due(JOB));
        dirty_rows.undo(JOB, change);
        assert_eq!(dirty_rows.len(), 0);
    }

    #[test]
    fn flushed_rows_that_changed_again_stay() {
        let dirty_rows = DirtyRows::new([(JOB, (3, row(3)))].into_iter(), 4, 1);
        dirty_rows.set(JOB, (5, row(5)));
        assert!(dirty_rows.drop_flushed(4, &[(JOB, 3)]));
        assert_eq!(dirty_rows.newest(JOB), Some((5, row(5))));
    }
}
