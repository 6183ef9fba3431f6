//! Lower bounds of due times, one for each collection.
//!
//! Every run moves its job in the index of due jobs. While an old snapshot is open, such as that of a
//! backup, the database cannot remove the entries that the jobs left behind, and a search from the
//! start of the index would read all of them. The search therefore starts at a lower bound.
//!
//! The invariant: no active, enabled job of a collection is due before the bound of its collection.
//! It holds because
//!
//! * an edit of a job holds the lock of the collection and lowers the bound in the same transaction;
//! * a commit of the engine moves a job from its due time to a later one. A commit that sets an
//!   earlier time, or a time where there was none, locks the collection as an edit does and lowers
//!   the bound;
//! * [`RaiseDueFloors`] locks the collection and then reads its earliest due time, in two statements.
//!   The second one sees all edits that held the lock before; those that follow see the new bound and
//!   lower it. A commit of the engine that is not visible yet moves its job from a due time that is
//!   visible to a later one.
//!
//! `kalends store check` reports a violation, and the invariant scan repairs its consequence: an
//! overdue job that the search does not find.

use kalends_recurrence::Instant;

use crate::postgres::code::rows_max;
use crate::postgres::error::PostgresError;
use crate::postgres::row::get;
use crate::postgres::transaction::{Operation, Transaction, execute, query};

/// The bounds are raised with one in this many searches for due jobs.
pub(super) const SEARCHES_PER_RAISE: u32 = 4;
/// A bound is raised by at least one minute, in ticks, so that the table has few changes.
const STEP_MIN: i64 = 60 * 10_000_000;
/// Collections per transaction: their edits wait for it.
const COLLECTIONS_MAX: usize = 200;

/// Lowers the bound of a collection to the due time of one of its jobs. The caller has locked the
/// collection.
pub(super) async fn lower_due_floor(
    transaction: &Transaction<'_>,
    collection: i64,
    due: Option<Instant>,
) -> Result<(), PostgresError> {
    let lower = "UPDATE due_floors SET due = $2 WHERE collection_id = $1 AND due > $2";
    if let Some(due) = due {
        execute(transaction, lower, &[&collection, &due.ticks()]).await?;
    }
    Ok(())
}

/// Raises the bounds of enabled collections that a search up to `until` would visit. Skips those that
/// an edit has locked.
pub(super) struct RaiseDueFloors {
    pub(super) until: Instant,
}

impl Operation for RaiseDueFloors {
    type Output = ();

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let lock = "SELECT c.id FROM collections c
             LEFT JOIN due_floors f ON f.collection_id = c.id
             LEFT JOIN LATERAL (
                SELECT s.due FROM states s
                WHERE s.collection_id = c.id AND s.due >= coalesce(f.due, $2)
                  AND s.due IS NOT NULL AND s.lifecycle = 0 AND s.enabled
                ORDER BY s.due LIMIT 1
             ) d ON true
             WHERE c.enabled AND coalesce(f.due, $2) <= $1
               AND (f.due IS NULL OR coalesce(d.due, $3) >= f.due + $4)
             ORDER BY c.id LIMIT $5 FOR NO KEY UPDATE OF c SKIP LOCKED";
        let (first, last) = (Instant::MIN.ticks(), Instant::MAX.ticks());
        let until = self.until.ticks();
        let collections_max = rows_max(COLLECTIONS_MAX);
        let locked =
            query(transaction, lock, &[&until, &first, &last, &STEP_MIN, &collections_max]).await?;
        let locked = locked.iter().map(|row| get(row, "id")).collect::<Result<Vec<i64>, _>>()?;
        if locked.is_empty() {
            return Ok(());
        }
        let raise = "INSERT INTO due_floors (collection_id, due)
             SELECT n.id, coalesce((
                SELECT s.due FROM states s
                WHERE s.collection_id = n.id AND s.due >= coalesce(f.due, $2)
                  AND s.due IS NOT NULL AND s.lifecycle = 0 AND s.enabled
                ORDER BY s.due LIMIT 1), $3)
             FROM unnest($1::bigint[]) AS n (id)
             LEFT JOIN due_floors f ON f.collection_id = n.id
             ON CONFLICT (collection_id) DO UPDATE SET due = excluded.due";
        execute(transaction, raise, &[&locked, &first, &last]).await?;
        Ok(())
    }
}
