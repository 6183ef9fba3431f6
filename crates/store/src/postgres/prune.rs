//! Retention: deletes expired history, ledger rows, notes, finished jobs and sessions in short transactions.

use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::engine_store::Retention;
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::earlier_definitions::PruneDefinitions;
use crate::postgres::error::PostgresError;
use crate::postgres::notes::PruneNotes;
use crate::postgres::removal::{delete_jobs, lock_states};
use crate::postgres::row::get;
use crate::postgres::sessions::PruneSessions;
use crate::postgres::transaction::{Operation, Transaction, execute, query};
use crate::run_reports::{RUN_COUNTS_RETENTION, bucket_of};

/// Rows per transaction: their jobs stay locked for a few milliseconds.
const BATCH_MAX: usize = 500;
/// Jobs per transaction; each is deleted with its history.
const JOBS_MAX: usize = 20;

impl PostgresStore {
    pub(super) async fn prune_all(
        &self,
        retention: Retention,
        now: Instant,
        limit: usize,
    ) -> Result<usize, StoreError> {
        // First, because the rows of deleted jobs do not count.
        let is_removed = self.remove_deleted(limit).await?;
        let before = |age| now.saturating_sub(age).ticks();
        let oldest = before(retention.history_age);
        let mut left = limit;
        // Excess entries first: the count of a job includes its entries that are too old.
        let excess = Expired::Excess { keep: rows_max(retention.history_count) };
        for expired in [excess, Expired::Old { oldest }] {
            while left > 0 {
                let batch_max = left.min(BATCH_MAX);
                let deleted = self.transact(PruneHistory { expired, batch_max }).await?;
                left -= deleted.min(left);
                if deleted == 0 {
                    break;
                }
            }
        }
        while left > 0 {
            let deleted =
                self.transact(PruneLedger { oldest, batch_max: left.min(BATCH_MAX) }).await?;
            left -= deleted.min(left);
            if deleted == 0 {
                break;
            }
        }
        while left > 0 {
            let deleted =
                self.transact(PruneNotes { oldest, batch_max: left.min(BATCH_MAX) }).await?;
            left -= deleted.min(left);
            if deleted == 0 {
                break;
            }
        }
        // Like the counts below, they are not rows that the caller counts.
        while self.transact(PruneDefinitions { oldest, batch_max: BATCH_MAX }).await? == BATCH_MAX {
        }
        let oldest_bucket = bucket_of(now.saturating_sub(RUN_COUNTS_RETENTION));
        // Counts are not rows of jobs: the caller does not count them.
        while self.transact(PruneRunCounts { oldest_bucket }).await? == BATCH_MAX {}
        let finished_before = before(retention.finished_jobs);
        while left > 0 {
            let batch_max = left.min(JOBS_MAX);
            let deleted = self.transact(PruneJobs { finished_before, batch_max }).await?;
            left -= deleted.min(left);
            if deleted == 0 {
                break;
            }
        }
        while left > 0 {
            let cutoff = now.ticks();
            let deleted =
                self.transact(PruneSessions { cutoff, batch_max: left.min(BATCH_MAX) }).await?;
            left -= deleted.min(left);
            if deleted == 0 {
                break;
            }
        }
        // If more rows of deleted jobs are left, the caller continues at once.
        Ok(if is_removed { limit - left } else { limit })
    }
}

/// Why history entries are deleted.
#[derive(Clone, Copy)]
enum Expired {
    /// The job has more than `keep` entries; the oldest are deleted.
    Excess { keep: i64 },
    /// The attempt started before `oldest`, in ticks.
    Old { oldest: i64 },
}

/// Deletes history entries and updates the counts of their jobs.
struct PruneHistory {
    expired: Expired,
    batch_max: usize,
}

impl Operation for PruneHistory {
    type Output = usize;

    // No index has the number of entries; see `ENGINE_PLANS`.
    const BEGIN: &'static str = "BEGIN; SET LOCAL enable_seqscan = on";

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let old = "SELECT job, sequence FROM history WHERE started < $1 ORDER BY started LIMIT $2";
        let excess = "SELECT h.job, h.sequence
             FROM (SELECT job, entries FROM states WHERE entries > $1 LIMIT $2) s
             CROSS JOIN LATERAL (SELECT job, sequence FROM history WHERE history.job = s.job
                                 ORDER BY sequence LIMIT least(s.entries - $1, $2)) h
             LIMIT $2";
        let (find, limit) = match self.expired {
            Expired::Excess { keep } => (excess, keep),
            Expired::Old { oldest } => (old, oldest),
        };
        let found = query(transaction, find, &[&limit, &rows_max(self.batch_max)]).await?;
        let pair = |row: &Row| Ok((get(row, "job")?, get(row, "sequence")?));
        let found = found.iter().map(pair).collect::<Result<Vec<(i64, i64)>, StoreError>>()?;
        let (jobs, sequences): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        lock_states(transaction, &jobs).await?;
        let delete = "WITH deleted AS (
                DELETE FROM history h USING unnest($1::bigint[], $2::bigint[]) AS n (job, sequence)
                WHERE h.job = n.job AND h.sequence = n.sequence RETURNING h.job
             ), counted AS (
                SELECT job, count(*) AS number FROM deleted GROUP BY job
             ), updated AS (
                UPDATE states s SET entries = s.entries - c.number FROM counted c
                WHERE s.job = c.job
             )
             SELECT job FROM deleted";
        Ok(query(transaction, delete, &[&jobs, &sequences]).await?.len())
    }
}

/// Deletes ledger rows of occurrences that were closed before `oldest`, in ticks.
struct PruneLedger {
    oldest: i64,
    batch_max: usize,
}

impl Operation for PruneLedger {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let delete = "DELETE FROM ledger WHERE (job, first_at, last_at, number) IN (
                SELECT job, first_at, last_at, number FROM ledger
                WHERE closed < $1 ORDER BY closed LIMIT $2)";
        let deleted =
            execute(transaction, delete, &[&self.oldest, &rows_max(self.batch_max)]).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}

/// Deletes counts of runs of buckets before `oldest_bucket`.
struct PruneRunCounts {
    oldest_bucket: i64,
}

impl Operation for PruneRunCounts {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let delete = "DELETE FROM run_counts WHERE (bucket, collection_id, session) IN (
                SELECT bucket, collection_id, session FROM run_counts WHERE bucket < $1
                ORDER BY bucket, collection_id, session LIMIT $2)";
        let batch_max = rows_max(BATCH_MAX);
        let deleted = execute(transaction, delete, &[&self.oldest_bucket, &batch_max]).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}

/// Deletes jobs that finished before `finished_before`, in ticks.
struct PruneJobs {
    finished_before: i64,
    batch_max: usize,
}

impl Operation for PruneJobs {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let find = "SELECT j.key, j.collection_id FROM states s JOIN jobs j ON j.key = s.job
             WHERE s.finished < $1 ORDER BY s.finished LIMIT $2";
        let batch_max = rows_max(self.batch_max);
        let found = query(transaction, find, &[&self.finished_before, &batch_max]).await?;
        let pair = |row: &Row| Ok((get(row, "key")?, get(row, "collection_id")?));
        let found = found.iter().map(pair).collect::<Result<Vec<(i64, i64)>, StoreError>>()?;
        let (jobs, collections): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let lock = "SELECT id FROM collections WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE";
        query(transaction, lock, &[&collections]).await?;
        lock_states(transaction, &jobs).await?;
        // Re-read under the lock: an edit may have reactivated a job in the meantime.
        let finished = "SELECT job FROM states WHERE job = ANY ($1) AND finished < $2";
        let finished = query(transaction, finished, &[&jobs, &self.finished_before]).await?;
        let finished =
            finished.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?;
        let update_counts = "UPDATE collections c SET jobs = c.jobs - n.number
             FROM (SELECT collection_id, count(*) AS number FROM jobs WHERE key = ANY ($1)
                   GROUP BY collection_id) n
             WHERE c.id = n.collection_id";
        execute(transaction, update_counts, &[&finished]).await?;
        delete_jobs(transaction, &finished).await?;
        Ok(finished.len())
    }
}
