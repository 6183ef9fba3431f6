//! The rows of jobs that were changed lately and are not in their table yet.
//!
//! A row has versions: the number of the transaction that made it. The writer puts a version here
//! before it commits; a reader sees the versions up to the newest transaction in its snapshot of the
//! database, so that what it reads here and there is of one moment. A version goes when the table
//! has it and no reader is left whose snapshot was taken before.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kalends_recurrence::Instant;

use crate::record::JobKey;
use crate::sqlite::state::StateRow;

/// A reader that reads nothing.
const IDLE: u64 = u64::MAX;

/// The rows, and who reads them.
pub(crate) struct DirtyRows {
    rows: RwLock<Rows>,
    /// For each reader, a transaction that its snapshot holds at least.
    readers: Vec<AtomicU64>,
    /// The newest transaction that is committed.
    committed: AtomicU64,
}

#[derive(Default)]
struct Rows {
    by_job: HashMap<JobKey, Versions>,
    /// When the schedules of these jobs start runs, in any of their versions.
    due_positions: BTreeSet<DuePosition>,
}

/// A row, or that it is gone, as of a transaction.
pub(crate) type Version = (u64, Option<StateRow>);

/// Where a job stands among those that are due.
pub(crate) type DuePosition = (Instant, JobKey);

/// When a job is due, in the version that has this number.
pub(crate) type DueVersion = (Option<Instant>, JobKey, u64);

struct Versions {
    newest: Version,
    /// In their order; mostly none.
    older: Vec<Version>,
    /// Whether the table of due jobs may have the place of the newest version.
    is_in_due: bool,
    /// Whether the table of states has the newest version.
    is_in_state: bool,
}

/// What a row was before it was changed, for undoing the change.
pub(crate) enum Before {
    /// Not here.
    Absent,
    /// Changed by the same transaction.
    Same(Option<StateRow>),
    /// Changed by an earlier one.
    Older,
}

impl DirtyRows {
    /// With what the log holds.
    pub(crate) fn new(
        rows: impl Iterator<Item = (JobKey, Version)>,
        committed: u64,
        readers: usize,
    ) -> DirtyRows {
        let by_job: HashMap<_, _> =
            rows.map(|(job, newest)| (job, Versions::new(newest))).collect();
        let place = |(job, versions): (&JobKey, &Versions)| Some((due(&versions.newest)?, *job));
        let due_positions = by_job.iter().filter_map(place).collect();
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

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.read().by_job.len()
    }

    /// A reader says that it will take a snapshot. What is committed by now will be in it, and
    /// what it may need stays here until it [leaves](DirtyRows::leave).
    pub(crate) fn enter(&self, reader: usize) {
        if let Some(slot) = self.readers.get(reader) {
            // Before the snapshot is taken, and not after: see `oldest_read`.
            slot.store(self.committed.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// A reader has given up its snapshot.
    pub(crate) fn leave(&self, reader: usize) {
        if let Some(slot) = self.readers.get(reader) {
            slot.store(IDLE, Ordering::SeqCst);
        }
    }

    /// A transaction that every snapshot holds, of readers that read now or begin later: one that
    /// is not seen here has yet to take its snapshot, which will hold all that is committed.
    fn oldest_read(&self) -> u64 {
        let committed = self.committed.load(Ordering::SeqCst);
        let slots = self.readers.iter().map(|slot| slot.load(Ordering::SeqCst));
        slots.min().unwrap_or(IDLE).min(committed)
    }

    /// A transaction is committed.
    pub(crate) fn commit(&self, transaction: u64) {
        self.committed.store(transaction, Ordering::SeqCst);
    }

    /// The newest version of a row.
    pub(crate) fn newest(&self, job: JobKey) -> Option<Version> {
        self.read().by_job.get(&job).map(|versions| versions.newest)
    }

    /// A row as of a transaction; `None` where the table has it.
    pub(crate) fn as_of(&self, job: JobKey, transaction: u64) -> Option<Option<StateRow>> {
        self.read().by_job.get(&job)?.as_of(transaction)
    }

    /// Jobs that are due behind a place, as of a transaction, of the next `scan_max` that are here; and
    /// the last that was looked at, where there may be more.
    pub(crate) fn due(
        &self,
        after: Option<DuePosition>,
        until: Instant,
        transaction: u64,
        scan_max: usize,
    ) -> (Vec<(DuePosition, StateRow)>, Option<DuePosition>) {
        let rows = self.read();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let due_positions = rows.due_positions.range((from, Bound::Unbounded));
        let (mut found, mut looked, mut last) = (Vec::new(), 0, None);
        for (due, job) in due_positions.take_while(|(due, _)| *due <= until).take(scan_max) {
            looked += 1;
            last = Some((*due, *job));
            let row = rows.by_job.get(job).and_then(|versions| versions.as_of(transaction));
            let is_there = |row: &StateRow| row.starts_at() == Some(*due);
            found.extend(row.flatten().filter(is_there).map(|row| ((*due, *job), row)));
        }
        (found, last.filter(|_| looked == scan_max))
    }

    /// A row as of the newest commit; `None` where it has to be read from the table. All that was
    /// answered before is in it.
    pub(crate) fn as_committed(&self, job: JobKey) -> Option<Option<StateRow>> {
        self.as_of(job, self.committed.load(Ordering::SeqCst))
    }

    /// Changes a row, for a transaction under way.
    pub(crate) fn set(&self, job: JobKey, version: Version) -> Before {
        let oldest_read = self.oldest_read();
        let Rows { by_job, due_positions } = &mut *self.write();
        let Some(versions) = by_job.get_mut(&job) else {
            due_positions.extend(due(&version).map(|due| (due, job)));
            by_job.insert(job, Versions::new(version));
            return Before::Absent;
        };
        let before = std::mem::replace(&mut versions.newest, version);
        versions.is_in_state = false;
        if due(&before) != due(&version) {
            due_positions.extend(due(&version).map(|due| (due, job)));
        }
        if before.0 == version.0 {
            versions.leave(job, &before, due_positions);
            return Before::Same(before.1);
        }
        // Mostly it stays the only one: room for more would be larger than all the rest.
        versions.older.reserve_exact(1);
        versions.older.push(before);
        for gone in versions.forget(oldest_read) {
            versions.leave(job, &gone, due_positions);
        }
        Before::Older
    }

    /// Adds the row of a job that was not there before. The table of states gets it in the same
    /// transaction, the table of due jobs does not.
    pub(crate) fn add(&self, job: JobKey, version: Version) -> Before {
        let Rows { by_job, due_positions } = &mut *self.write();
        due_positions.extend(due(&version).map(|due| (due, job)));
        let versions = Versions { is_in_due: false, is_in_state: true, ..Versions::new(version) };
        by_job.insert(job, versions);
        Before::Absent
    }

    /// Undoes the last change of a row.
    pub(crate) fn undo(&self, job: JobKey, before: Before) {
        let Rows { by_job, due_positions } = &mut *self.write();
        let Some(versions) = by_job.get_mut(&job) else { return };
        // What a transaction took out of the table is there again.
        versions.is_in_due = true;
        versions.is_in_state = false;
        let undone = versions.newest;
        match before {
            Before::Absent => {
                by_job.remove(&job);
                due_positions.extract(&undone, job);
                return;
            }
            Before::Same(row) => versions.newest.1 = row,
            Before::Older => {
                if let Some(newest) = versions.older.pop() {
                    versions.newest = newest;
                }
            }
        }
        due_positions.extend(due(&versions.newest).map(|due| (due, job)));
        versions.leave(job, &undone, due_positions);
    }

    /// The table of due jobs is about to lose the place of a job; `false` where it does not have it.
    pub(crate) fn take_from_due(&self, job: JobKey) -> bool {
        let mut rows = self.write();
        let versions = rows.by_job.get_mut(&job);
        versions.is_none_or(|versions| std::mem::replace(&mut versions.is_in_due, false))
    }

    /// The table of due jobs gets the place of a job: the row, where it is still of that version.
    pub(crate) fn place(&self, job: JobKey, version: u64) -> Option<Option<StateRow>> {
        let mut rows = self.write();
        let versions = rows.by_job.get_mut(&job).filter(|versions| versions.newest.0 == version)?;
        versions.is_in_due = true;
        Some(versions.newest.1)
    }

    /// The jobs that have rows here which the table of states does not have, in their order; and the
    /// others.
    pub(crate) fn unflushed(&self) -> (Vec<JobKey>, Vec<DueVersion>) {
        let (mut unsaved, mut saved) = (Vec::new(), Vec::new());
        for (job, versions) in &self.read().by_job {
            match versions.is_in_state {
                true => saved.push((due(&versions.newest), *job, versions.newest.0)),
                false => unsaved.push(*job),
            }
        }
        unsaved.sort_unstable();
        (unsaved, saved)
    }

    /// Jobs whose newest rows fulfil a condition, in their order.
    pub(crate) fn jobs_where(&self, holds: impl Fn(JobKey, &StateRow) -> bool) -> Vec<JobKey> {
        let rows = self.read();
        let fits = |(job, versions): (&JobKey, &Versions)| {
            versions.newest.1.as_ref().is_some_and(|row| holds(*job, row)).then_some(*job)
        };
        let mut jobs: Vec<_> = rows.by_job.iter().filter_map(fits).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Drops rows of which the table has the version since a transaction, unless they were changed
    /// again. `false` where a reader may still need them.
    pub(crate) fn drop_flushed(&self, since: u64, flushed: &[(JobKey, u64)]) -> bool {
        if self.oldest_read() < since {
            return false;
        }
        let Rows { by_job, due_positions } = &mut *self.write();
        for (job, version) in flushed {
            if by_job.get(job).is_some_and(|versions| versions.newest.0 == *version)
                && let Some(gone) = by_job.remove(job)
            {
                for version in gone.all() {
                    due_positions.extract(version, *job);
                }
            }
        }
        true
    }
}

/// When the schedule starts a run, in a version.
fn due(version: &Version) -> Option<Instant> {
    version.1?.starts_at()
}

trait Places {
    /// Takes out the place of a version.
    fn extract(&mut self, version: &Version, job: JobKey);
}

impl Places for BTreeSet<DuePosition> {
    fn extract(&mut self, version: &Version, job: JobKey) {
        if let Some(due) = due(version) {
            self.remove(&(due, job));
        }
    }
}

impl Versions {
    fn new(newest: Version) -> Versions {
        Versions { newest, older: Vec::new(), is_in_due: true, is_in_state: false }
    }

    /// The newest first.
    fn all(&self) -> impl Iterator<Item = &Version> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }

    fn as_of(&self, transaction: u64) -> Option<Option<StateRow>> {
        self.all().find(|version| version.0 <= transaction).map(|version| version.1)
    }

    /// Takes out the place of a version that is gone, unless another one has it too.
    fn leave(&self, job: JobKey, gone: &Version, due_positions: &mut BTreeSet<DuePosition>) {
        if !self.all().any(|version| due(version) == due(gone)) {
            due_positions.extract(gone, job);
        }
    }

    /// Drops what is older than the version that the oldest reader sees.
    fn forget(&mut self, oldest_read: u64) -> Vec<Version> {
        let seen = self.older.iter().rposition(|version| version.0 <= oldest_read);
        // A version that the oldest reader sees is hidden if the newest one is seen as well; that
        // one is not committed yet, and therefore it is not.
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
            newest_closing: 0,
        })
    }

    #[test]
    fn a_reader_sees_what_was_committed_when_it_began() {
        let dirty_rows = DirtyRows::new(std::iter::empty(), 4, 2);
        dirty_rows.enter(0);
        dirty_rows.set(JOB, (5, row(5)));
        assert_eq!(dirty_rows.as_of(JOB, 4), None, "the table has it");
        dirty_rows.commit(5);
        dirty_rows.enter(1);
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
    fn what_is_undone_is_as_it_was() {
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
    fn folded_rows_stay_while_an_older_snapshot_is_read() {
        let dirty_rows = DirtyRows::new([(JOB, (3, row(3)))].into_iter(), 3, 1);
        dirty_rows.enter(0);
        dirty_rows.commit(4);
        assert!(!dirty_rows.drop_flushed(4, &[(JOB, 3)]));
        assert_eq!(dirty_rows.as_of(JOB, 3), Some(row(3)));
        dirty_rows.leave(0);
        assert!(dirty_rows.drop_flushed(4, &[(JOB, 3)]));
        assert_eq!(dirty_rows.len(), 0);
    }

    fn due_at(ticks: i64) -> Option<StateRow> {
        let due = Instant::from_ticks(ticks);
        row(1).map(|row| StateRow { state: JobState { due, ..row.state }, ..row })
    }

    /// When jobs are due as of a transaction, found two at a time.
    fn due_as_of(dirty_rows: &DirtyRows, transaction: u64) -> Vec<(i64, i64)> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (found, last) = dirty_rows.due(after, Instant::MAX, transaction, 2);
            all.extend(found.iter().map(|((due, job), _)| (due.ticks(), job.0)));
            after = last;
            if after.is_none() {
                return all;
            }
        }
    }

    #[test]
    fn jobs_are_due_as_they_were_when_a_reader_began() {
        let others = (2..5).map(|job| (JobKey(job), (3, due_at(10 * job))));
        let dirty_rows = DirtyRows::new([(JOB, (3, due_at(10)))].into_iter().chain(others), 4, 1);
        dirty_rows.enter(0);
        dirty_rows.set(JOB, (5, due_at(35)));
        dirty_rows.set(JobKey(3), (5, None));
        dirty_rows.commit(5);
        assert_eq!(due_as_of(&dirty_rows, 4), [(10, 1), (20, 2), (30, 3), (40, 4)]);
        assert_eq!(due_as_of(&dirty_rows, 5), [(20, 2), (35, 1), (40, 4)]);
        dirty_rows.leave(0);
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
    fn a_new_row_is_saved_and_has_no_place_until_it_is_changed() {
        let dirty_rows = DirtyRows::new(std::iter::empty(), 4, 0);
        let is_in_state = || dirty_rows.unflushed().0.is_empty();
        let added = dirty_rows.add(JOB, (5, due_at(10)));
        assert_eq!(due_as_of(&dirty_rows, 5), [(10, 1)]);
        assert!(is_in_state());
        assert!(!dirty_rows.take_from_due(JOB));
        dirty_rows.undo(JOB, added);
        assert_eq!((dirty_rows.len(), dirty_rows.read().due_positions.len()), (0, 0));
        dirty_rows.add(JOB, (5, due_at(10)));
        let change = dirty_rows.set(JOB, (6, due_at(20)));
        assert!(!is_in_state());
        dirty_rows.undo(JOB, change);
        assert!(!is_in_state(), "the table may have had the other one");
    }

    #[test]
    fn a_place_is_taken_from_the_table_once_and_again_after_an_undo() {
        let dirty_rows = DirtyRows::new(std::iter::empty(), 4, 0);
        let change = dirty_rows.set(JOB, (5, due_at(10)));
        assert!(dirty_rows.take_from_due(JOB));
        assert!(!dirty_rows.take_from_due(JOB));
        let again = dirty_rows.set(JOB, (5, due_at(20)));
        dirty_rows.undo(JOB, again);
        assert!(dirty_rows.take_from_due(JOB), "what was taken out is there again");
        assert_eq!(dirty_rows.place(JOB, 4), None);
        assert_eq!(dirty_rows.place(JOB, 5), Some(due_at(10)));
        assert!(dirty_rows.take_from_due(JOB));
        dirty_rows.undo(JOB, change);
        assert_eq!(dirty_rows.len(), 0);
    }

    #[test]
    fn folded_rows_that_were_changed_again_stay() {
        let dirty_rows = DirtyRows::new([(JOB, (3, row(3)))].into_iter(), 4, 1);
        dirty_rows.set(JOB, (5, row(5)));
        assert!(dirty_rows.drop_flushed(4, &[(JOB, 3)]));
        assert_eq!(dirty_rows.newest(JOB), Some((5, row(5))));
    }
}
