//! Lists and single records. Each is one statement, so that it shows one moment.

use kalends_domain::{CollectionPath, CollectionState, GroupPath, JobPath, SubscriptionId};
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::clock::{CLOCK, clock_of};
use crate::postgres::code::{Code, rows_max};
use crate::postgres::columns::{
    collection_columns, entry_columns, job_columns, ledger_columns, run_columns,
};
use crate::postgres::row::{self, get};
use crate::record::{
    CollectionKey, CollectionRecord, GroupRecord, HistoryRecord, JobKey, JobRecord, LedgerRecord,
    OpenRun,
};
use crate::store::{Due, DueJob, HistoryFilter, Page, Scope};

impl PostgresStore {
    pub(super) async fn read_group(
        &self,
        path: GroupPath,
    ) -> Result<Option<GroupRecord>, StoreError> {
        let sql = "SELECT subscription, name AS group_name, definition AS group_definition
             FROM groups WHERE subscription_key = $1 AND group_key = $2";
        let rows = self.ask(sql, &[&path.subscription.key(), &path.group.key()]).await?;
        rows.first().map(row::group).transpose()
    }

    pub(super) async fn read_groups(
        &self,
        subscription: SubscriptionId,
    ) -> Result<Vec<GroupRecord>, StoreError> {
        let sql = "SELECT subscription, name AS group_name, definition AS group_definition
             FROM groups WHERE subscription_key = $1 ORDER BY group_key";
        self.ask(sql, &[&subscription.key()]).await?.iter().map(row::group).collect()
    }

    pub(super) async fn read_collection(
        &self,
        path: CollectionPath,
    ) -> Result<Option<CollectionRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            collection_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3"
        );
        let [subscription, group, collection] = keys(&path);
        let rows = self.ask(sql, &[&subscription, &group, &collection]).await?;
        rows.first().map(row::collection).transpose()
    }

    pub(super) async fn read_collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Result<Vec<CollectionRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            collection_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              WHERE g.subscription_key = $1 AND ($2::text IS NULL OR g.group_key = $2)
                AND (g.subscription_key, g.group_key, c.collection_key) > ($3, $4, $5)
              ORDER BY g.group_key, c.collection_key OFFSET $6 LIMIT $7"
        );
        let (subscription, group) = match scope {
            Scope::Subscription(subscription) => (subscription.key(), None),
            Scope::Group(path) => (path.subscription.key(), Some(path.group.key())),
        };
        // No name is empty, so all come after that.
        let [after_subscription, after_group, after_collection] =
            page.after.as_ref().map(keys).unwrap_or_default();
        let (skip, limit) = (rows_max(page.skip), rows_max(page.limit));
        let rows = self
            .ask(
                sql,
                &[
                    &subscription,
                    &group,
                    &after_subscription,
                    &after_group,
                    &after_collection,
                    &skip,
                    &limit,
                ],
            )
            .await?;
        rows.iter().map(row::collection).collect()
    }

    pub(super) async fn read_job(
        &self,
        path: JobPath,
    ) -> Result<Option<(JobRecord, CollectionState)>, StoreError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            ", c.definition AS collection_definition
              FROM collections c JOIN groups g ON g.id = c.group_id
              LEFT JOIN (jobs j JOIN states s ON s.job = j.key)
                ON j.collection_id = c.id AND j.job_key = $4
              WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3"
        );
        let [subscription, group, collection] = keys(&path.collection);
        let rows = self.ask(sql, &[&subscription, &group, &collection, &path.job.key()]).await?;
        let state = row::collection_state(rows.first().ok_or(StoreError::NoCollection)?)?;
        let job = present(&rows, "key")?.into_iter().next();
        job.map(|row| Ok((row::job(row, &self.codec)?, state))).transpose()
    }

    pub(super) async fn read_job_by_key(
        &self,
        key: JobKey,
    ) -> Result<Option<JobRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
              JOIN groups g ON g.id = c.group_id WHERE j.key = $1"
        );
        let rows = self.ask(sql, &[&key.0]).await?;
        rows.first().map(|row| row::job(row, &self.codec)).transpose()
    }

    pub(super) async fn read_due(
        &self,
        until: Instant,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let sql = "SELECT job, generation, due, collection_id FROM states
             WHERE due <= $1 AND due IS NOT NULL AND lifecycle = 0 AND enabled
               AND collection_enabled
             ORDER BY due, job LIMIT $2";
        let due = |row: &Row| {
            let on = DueJob {
                job: JobKey(get(row, "job")?),
                generation: row::unsigned(row, "generation")?,
                due: row::at(row, "due")?,
            };
            Ok(Due { on, collection: CollectionKey(get(row, "collection_id")?) })
        };
        self.ask(sql, &[&until.ticks(), &rows_max(limit)]).await?.iter().map(due).collect()
    }

    /// Two searches, each along its own index: runs that wait, and claims that have expired.
    pub(super) async fn read_claimable(
        &self,
        until: Instant,
        limit: usize,
    ) -> Result<Vec<OpenRun>, StoreError> {
        let sql = concat!(
            "WITH clock AS (
                SELECT extract(epoch FROM date_trunc('second', now()))::bigint * 10000000
                    + extract(microseconds FROM now())::bigint % 1000000 * 10 AS ticks
             ), found AS (
                (SELECT r.* FROM runs r JOIN states s ON s.job = r.job
                 WHERE r.owner IS NULL AND r.next_at <= $1 AND s.collection_enabled
                 ORDER BY r.next_at, r.id LIMIT $2)
                UNION ALL
                (SELECT r.* FROM runs r JOIN states s ON s.job = r.job
                 WHERE r.owner IS NOT NULL AND r.lease_until < (SELECT ticks FROM clock)
                   AND s.collection_enabled
                 ORDER BY r.next_at, r.id LIMIT $2)
             ) SELECT ",
            run_columns!("r."),
            " FROM found r ORDER BY r.next_at, r.id LIMIT $2"
        );
        let rows = self.ask(sql, &[&until.ticks(), &rows_max(limit)]).await?;
        rows.iter().map(row::run).collect()
    }

    pub(super) async fn read_open_runs(&self, job: JobKey) -> Result<Vec<OpenRun>, StoreError> {
        let sql = concat!("SELECT ", run_columns!(""), " FROM runs WHERE job = $1 ORDER BY id");
        self.ask(sql, &[&job.0]).await?.iter().map(row::run).collect()
    }

    pub(super) async fn read_history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Result<Option<Vec<HistoryRecord>>, StoreError> {
        let sql = concat!(
            "SELECT j.key, h.sequence, ",
            entry_columns!("h."),
            " FROM collections c JOIN groups g ON g.id = c.group_id
             LEFT JOIN jobs j ON j.collection_id = c.id AND j.job_key = $4
             LEFT JOIN LATERAL (
               SELECT * FROM history h WHERE h.job = j.key
                 AND h.sequence < $5
                 AND ($6::smallint IS NULL OR h.status = $6)
               ORDER BY h.sequence DESC OFFSET $7 LIMIT $8
             ) h ON true
             WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
             ORDER BY h.sequence DESC"
        );
        let [subscription, group, collection] = keys(&path.collection);
        let after = page.after.map_or(i64::MAX, rows_max);
        let status = filter.status.map(Code::code);
        let (job, skip, limit) = (path.job.key(), rows_max(page.skip), rows_max(page.limit));
        let rows = self
            .ask(sql, &[&subscription, &group, &collection, &job, &after, &status, &skip, &limit])
            .await?;
        if rows.is_empty() {
            return Err(StoreError::NoCollection);
        }
        if present(&rows, "key")?.is_empty() {
            return Ok(None);
        }
        let entries = present(&rows, "sequence")?.into_iter().map(row::history);
        entries.collect::<Result<_, _>>().map(Some)
    }

    pub(super) async fn read_ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Result<Vec<LedgerRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            ledger_columns!(""),
            " FROM ledger WHERE job = $1 AND last_at >= $2 AND first_at <= $3
              ORDER BY first_at, last_at, number LIMIT $4"
        );
        let rows = self.ask(sql, &[&job.0, &from.ticks(), &to.ticks(), &rows_max(limit)]).await?;
        rows.iter().map(row::ledger).collect()
    }

    pub(super) async fn read_clock(&self) -> Result<Instant, StoreError> {
        clock_of(&self.ask(CLOCK, &[]).await?)
    }
}

pub(super) fn keys(path: &CollectionPath) -> [String; 3] {
    [path.group.subscription.key(), path.group.group.key(), path.collection.key()]
}

/// The rows that an outer join found a partner for.
pub(super) fn present<'a>(rows: &'a [Row], column: &str) -> Result<Vec<&'a Row>, StoreError> {
    let partner = |row: &'a Row| Ok(get::<Option<i64>>(row, column)?.map(|_| row));
    rows.iter().filter_map(|row| partner(row).transpose()).collect()
}
