//! A lower bound of the leases of claimed runs, where the search for expired ones starts. Without it
//! the search reads the entries of all past runs while an old snapshot is open; see `due_floor`.
//!
//! The process of an engine keeps the bound in memory and raises it in two steps:
//!
//! 1. A candidate is the earliest lease of all claimed runs, and at most the clock of the database
//!    minus [`AGE_MIN`]. It is noted with the id that the next transaction will get.
//! 2. When all transactions with smaller ids have ended, and still no lease ends earlier, the
//!    candidate becomes the bound.
//!
//! Step 2 sees the leases of transactions with smaller ids. The others got their id after step 1, and
//! read the clock at most the time limit of a call before; a lease ends after that reading, and so
//! after the candidate, which is [`AGE_MIN`] older.
//!
//! If the clock of the database is set back, the bound is dropped. The invariant scan finds a run
//! whose lease was missed in between.

use std::sync::{Mutex, PoisonError};

use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::row::get;

/// The candidates are observed with one in this many searches.
const SEARCHES_PER_OBSERVATION: u32 = 4;
/// The bound lies this far in the past, in ticks: ten minutes.
const AGE_MIN: i64 = 600 * 10_000_000;

/// The bound of one process. Times are in ticks.
#[derive(Debug)]
pub(super) struct LeaseFloor(Mutex<Bound>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    floor: i64,
    candidate: Option<Candidate>,
    searches: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    floor: i64,
    next_transaction: i64,
}

/// The rows, clock and transactions that one statement sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Observation {
    /// The earliest lease of a claimed run at or after the bound.
    earliest: Option<i64>,
    /// The clock of the database.
    now: i64,
    /// All transactions with smaller ids have ended.
    oldest_transaction: i64,
    /// No transaction has this id or a larger one.
    next_transaction: i64,
}

impl Bound {
    fn observe(&mut self, seen: Observation) {
        if seen.now < self.floor.saturating_add(AGE_MIN) {
            *self = Bound { searches: self.searches, ..Bound::default() };
            return;
        }
        if let Some(Candidate { floor, next_transaction }) = self.candidate {
            if seen.oldest_transaction < next_transaction {
                return;
            }
            if seen.earliest.is_none_or(|earliest| earliest >= floor) {
                self.floor = floor.max(self.floor);
            }
        }
        let past = seen.now.saturating_sub(AGE_MIN);
        let floor = seen.earliest.map_or(past, |earliest| earliest.min(past));
        let next_transaction = seen.next_transaction;
        self.candidate = Some(Candidate { floor, next_transaction });
    }
}

impl Default for Bound {
    fn default() -> Bound {
        Bound { floor: Instant::MIN.ticks(), candidate: None, searches: 0 }
    }
}

impl LeaseFloor {
    pub(super) fn new() -> LeaseFloor {
        LeaseFloor(Mutex::new(Bound::default()))
    }

    fn with<T>(&self, access: impl FnOnce(&mut Bound) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PostgresStore {
    /// The lower bound of leases in ticks, for one search.
    pub(super) async fn lease_floor(&self) -> Result<i64, StoreError> {
        let Some(lease_floor) = &self.lease_floor else { return Ok(Instant::MIN.ticks()) };
        let (floor, searches) = lease_floor.with(|bound| {
            bound.searches = bound.searches.wrapping_add(1);
            (bound.floor, bound.searches)
        });
        if !searches.is_multiple_of(SEARCHES_PER_OBSERVATION) {
            return Ok(floor);
        }
        // One statement, hence one snapshot.
        let observe = "SELECT (SELECT lease_until FROM runs
                    WHERE owner IS NOT NULL AND lease_until >= $1
                    ORDER BY lease_until LIMIT 1) AS earliest,
                (extract(epoch FROM clock_timestamp()) * 10000000)::bigint AS now,
                txid_snapshot_xmin(txid_current_snapshot()) AS oldest_transaction,
                txid_snapshot_xmax(txid_current_snapshot()) AS next_transaction";
        let found = self.query(observe, &[&floor]).await?;
        let seen = found.first().map(observation).transpose()?;
        Ok(lease_floor.with(|bound| {
            seen.into_iter().for_each(|seen| bound.observe(seen));
            bound.floor
        }))
    }
}

fn observation(row: &Row) -> Result<Observation, StoreError> {
    Ok(Observation {
        earliest: get(row, "earliest")?,
        now: get(row, "now")?,
        oldest_transaction: get(row, "oldest_transaction")?,
        next_transaction: get(row, "next_transaction")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * 10_000_000;

    fn seen(earliest: Option<i64>, now: i64, transactions: (i64, i64)) -> Observation {
        let (oldest_transaction, next_transaction) = transactions;
        Observation { earliest, now, oldest_transaction, next_transaction }
    }

    #[test]
    fn the_bound_rises_when_the_transactions_of_its_candidate_have_ended() {
        let mut bound = Bound::default();
        bound.observe(seen(None, HOUR, (7, 9)));
        assert_eq!(bound.floor, Instant::MIN.ticks(), "a candidate");
        bound.observe(seen(None, 2 * HOUR, (8, 20)));
        assert_eq!(bound.floor, Instant::MIN.ticks(), "transaction 8 has not ended");
        bound.observe(seen(None, 3 * HOUR, (9, 30)));
        assert_eq!(bound.floor, HOUR - AGE_MIN);
    }

    #[test]
    fn a_lease_that_was_committed_late_keeps_the_bound_down() {
        let mut bound = Bound::default();
        bound.observe(seen(None, HOUR, (7, 9)));
        // Transaction 8 read the clock long before it was committed.
        bound.observe(seen(Some(HOUR / 2), 2 * HOUR, (9, 20)));
        assert_eq!(bound.floor, Instant::MIN.ticks());
        bound.observe(seen(Some(HOUR / 2), 3 * HOUR, (20, 30)));
        assert_eq!(bound.floor, HOUR / 2, "it is the earliest one");
    }

    #[test]
    fn a_clock_that_is_set_back_drops_the_bound() {
        let mut bound = Bound::default();
        bound.observe(seen(None, 9 * HOUR, (9, 9)));
        bound.observe(seen(None, 9 * HOUR, (9, 9)));
        assert_eq!(bound.floor, 9 * HOUR - AGE_MIN);
        bound.observe(seen(None, 8 * HOUR, (10, 10)));
        assert_eq!((bound.floor, bound.candidate), (Instant::MIN.ticks(), None));
    }
}
