//! What retention no longer keeps, removed in short transactions.

use deadpool_postgres::Transaction;
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::call::{Work, change, rows};
use crate::postgres::code::{rows_max, ticks};
use crate::postgres::fault::Fault;
use crate::postgres::removal::{delete_jobs, lock_states};
use crate::postgres::row::get;
use crate::store::Retention;

/// Rows that go in one transaction: the locks of their jobs are held for a few milliseconds.
const BATCH_MAX: usize = 500;
/// Jobs that go in one transaction; each takes its history with it.
const JOBS_MAX: usize = 20;

impl PostgresStore {
    pub(super) async fn prune_all(
        &self,
        retention: Retention,
        now: Instant,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let before = |age| now.ticks().saturating_sub(ticks(age));
        let oldest = before(retention.history_age);
        let mut left = limit;
        // Those that are too many first: which are the newest is counted with the old ones in.
        let surplus = Goes::Surplus { keep: rows_max(retention.history_count) };
        for goes in [surplus, Goes::Old { oldest }] {
            while left > 0 {
                let batch_max = left.min(BATCH_MAX);
                let gone = self.transact(PruneHistory { goes, batch_max }).await?;
                left -= gone.min(left);
                if gone == 0 {
                    break;
                }
            }
        }
        while left > 0 {
            let gone =
                self.transact(PruneLedger { oldest, batch_max: left.min(BATCH_MAX) }).await?;
            left -= gone.min(left);
            if gone == 0 {
                break;
            }
        }
        let finished_before = before(retention.finished_jobs);
        while left > 0 {
            let batch_max = left.min(JOBS_MAX);
            let gone = self.transact(PruneJobs { finished_before, batch_max }).await?;
            left -= gone.min(left);
            if gone == 0 {
                break;
            }
        }
        Ok(limit - left)
    }
}

/// Which entries go.
#[derive(Clone, Copy)]
enum Goes {
    /// The oldest ones of jobs that have more than they keep.
    Surplus { keep: i64 },
    /// Those that started before this.
    Old { oldest: i64 },
}

/// Entries of history, and the count of what is left of them.
struct PruneHistory {
    goes: Goes,
    batch_max: usize,
}

impl Work for PruneHistory {
    type Answer = usize;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<usize, Fault> {
        let old = "SELECT job, sequence FROM history WHERE started < $1 ORDER BY started LIMIT $2";
        let surplus = "SELECT h.job, h.sequence
             FROM (SELECT job, entries FROM states WHERE entries > $1 LIMIT $2) s
             CROSS JOIN LATERAL (SELECT job, sequence FROM history WHERE history.job = s.job
                                 ORDER BY sequence LIMIT least(s.entries - $1, $2)) h
             LIMIT $2";
        let (find, limit) = match self.goes {
            Goes::Surplus { keep } => (surplus, keep),
            Goes::Old { oldest } => (old, oldest),
        };
        let found = rows(transaction, find, &[&limit, &rows_max(self.batch_max)]).await?;
        let pair = |row: &Row| Ok((get(row, "job")?, get(row, "sequence")?));
        let found = found.iter().map(pair).collect::<Result<Vec<(i64, i64)>, StoreError>>()?;
        let (jobs, sequences): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        lock_states(transaction, &jobs).await?;
        let remove = "WITH gone AS (
                DELETE FROM history h USING unnest($1::bigint[], $2::bigint[]) AS n (job, sequence)
                WHERE h.job = n.job AND h.sequence = n.sequence RETURNING h.job
             ), counted AS (
                SELECT job, count(*) AS number FROM gone GROUP BY job
             ), noted AS (
                UPDATE states s SET entries = s.entries - c.number FROM counted c
                WHERE s.job = c.job
             )
             SELECT job FROM gone";
        Ok(rows(transaction, remove, &[&jobs, &sequences]).await?.len())
    }
}

/// Rows of the ledger that are too old.
struct PruneLedger {
    oldest: i64,
    batch_max: usize,
}

impl Work for PruneLedger {
    type Answer = usize;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<usize, Fault> {
        let remove = "DELETE FROM ledger WHERE (job, first_at, last_at, number) IN (
                SELECT job, first_at, last_at, number FROM ledger
                WHERE closed < $1 ORDER BY closed LIMIT $2)";
        let gone = change(transaction, remove, &[&self.oldest, &rows_max(self.batch_max)]).await?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }
}

/// Jobs that were finished too long ago.
struct PruneJobs {
    finished_before: i64,
    batch_max: usize,
}

impl Work for PruneJobs {
    type Answer = usize;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<usize, Fault> {
        let find = "SELECT j.key, j.collection_id FROM states s JOIN jobs j ON j.key = s.job
             WHERE s.finished < $1 ORDER BY s.finished LIMIT $2";
        let batch_max = rows_max(self.batch_max);
        let found = rows(transaction, find, &[&self.finished_before, &batch_max]).await?;
        let pair = |row: &Row| Ok((get(row, "key")?, get(row, "collection_id")?));
        let found = found.iter().map(pair).collect::<Result<Vec<(i64, i64)>, StoreError>>()?;
        let (jobs, collections): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let lock = "SELECT id FROM collections WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
        rows(transaction, lock, &[&collections]).await?;
        lock_states(transaction, &jobs).await?;
        // Those that an edit has revived in the meantime stay.
        let over = "SELECT job FROM states WHERE job = ANY ($1) AND finished < $2";
        let over = rows(transaction, over, &[&jobs, &self.finished_before]).await?;
        let over = over.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?;
        let fewer = "UPDATE collections c SET jobs = c.jobs - n.number
             FROM (SELECT collection_id, count(*) AS number FROM jobs WHERE key = ANY ($1)
                   GROUP BY collection_id) n
             WHERE c.id = n.collection_id";
        change(transaction, fewer, &[&over]).await?;
        delete_jobs(transaction, &over).await?;
        Ok(over.len())
    }
}
