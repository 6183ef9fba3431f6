//! Runs over all jobs, and their counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use kalends_domain::{AccessScope, AttemptStatus, LastAttempts};
use kalends_recurrence::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::{Code as _, rows_max};
use crate::postgres::columns::{closed_run_columns, entry_columns, run_columns};
use crate::postgres::row::{self, get, unsigned};
use crate::record::{HistoryRecord, JobKey, RunId};
use crate::run_reports::{
    ALL_COLLECTIONS, ATTEMPT_SCAN_MAX, ClosedRunsPage, ClosedRunsQuery, ListedClosedRun,
    ListedOpenRun, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery, RunCounts, RunPosition,
    buckets_between, start_of_bucket,
};

/// The path of a job, for `row::job_path`, from tables `g`, `c` and `j`.
macro_rules! path_columns {
    () => {
        "j.name AS job_name, c.name AS collection_name, g.subscription, g.name AS group_name"
    };
}

impl PostgresStore {
    pub(super) async fn read_newest_runs(
        &self,
        jobs: Vec<JobKey>,
        limit: usize,
    ) -> Result<Vec<NewestRuns>, StoreError> {
        // By scheduled time, which an index has for each job. A row per job with an array of each
        // column is cheaper to send and to read than a row per run.
        let sql = "SELECT n.job, r.is_running, l.* FROM unnest($1::bigint[]) AS n (job)
              CROSS JOIN LATERAL (
                SELECT EXISTS (SELECT FROM runs WHERE runs.job = n.job AND owner IS NOT NULL)
                    AS is_running) r
              CROSS JOIN LATERAL (
                SELECT array_agg(first_at) AS first_at, array_agg(disposition) AS disposition,
                    array_agg(ended - started) AS duration
                FROM (SELECT * FROM ledger WHERE ledger.job = n.job
                      ORDER BY first_at DESC, last_at DESC, number DESC LIMIT $2) l
              ) l WHERE r.is_running OR l.first_at IS NOT NULL";
        let keys: Vec<i64> = jobs.iter().map(|job| job.0).collect();
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let mut found: HashMap<i64, NewestRuns> = HashMap::new();
        for row in self.query(sql, &[&distinct, &rows_max(limit)]).await? {
            let has_closed = get::<Option<Vec<i64>>>(&row, "first_at")?.is_some();
            let closed = if has_closed { row::outcomes(&row)? } else { vec![] };
            let newest = NewestRuns { closed, is_running: get(&row, "is_running")? };
            found.insert(get(&row, "job")?, newest);
        }
        Ok(keys.iter().map(|job| found.get(job).cloned().unwrap_or_default()).collect())
    }

    pub(super) async fn read_listed_open_runs(
        &self,
        query: OpenRunsQuery,
    ) -> Result<OpenRunsPage, StoreError> {
        let sql = concat!(
            "SELECT r.attempts, r.started, ",
            run_columns!("r."),
            ", ",
            path_columns!(),
            " FROM runs r JOIN jobs j ON j.key = r.job
              JOIN collections c ON c.id = j.collection_id JOIN groups g ON g.id = c.group_id
              WHERE r.id < $1 AND ($2::bigint IS NULL OR r.job = $2)
              ORDER BY r.id DESC LIMIT $3"
        );
        let OpenRunsQuery { filter, before, scan_max, limit } = query;
        let before = before.map_or(i64::MAX, |RunId(id)| id);
        let job = filter.job.map(|job| job.0);
        let mut page = OpenRunsPage::default();
        let rows = self.query(sql, &[&before, &job, &rows_max(scan_max)]).await?;
        for (index, row) in rows.iter().enumerate() {
            let (path, run, attempts) = (row::job_path(row)?, row::run(row)?, row::attempts(row)?);
            if filter.has_collection(&path.collection) {
                page.runs.push(ListedOpenRun { path, run, attempts });
            }
            if page.runs.len() >= limit || index + 1 >= scan_max {
                page.end = Some(run.id);
                break;
            }
        }
        Ok(page)
    }

    pub(super) async fn read_open_run_count(
        &self,
        scopes: Vec<AccessScope>,
        scan_max: usize,
    ) -> Result<OpenRunCount, StoreError> {
        let collections = match scopes.contains(&AccessScope::Everything) {
            true => None,
            false => Some(self.collections_in(&scopes).await?),
        };
        let sql = "WITH newest AS MATERIALIZED (SELECT job FROM runs ORDER BY id DESC LIMIT $1)
             SELECT (SELECT count(*) FROM newest) AS examined,
                (SELECT count(*) FROM newest n JOIN jobs j ON j.key = n.job
                    JOIN collections c ON c.id = j.collection_id
                 WHERE $2::bigint[] IS NULL OR c.id = ANY ($2)) AS counted";
        let rows = self.query(sql, &[&rows_max(scan_max), &collections]).await?;
        let Some(row) = rows.first() else { return Ok(OpenRunCount::default()) };
        let more = unsigned(row, "examined")? >= scan_max as u64;
        Ok(OpenRunCount { count: unsigned(row, "counted")?, more })
    }

    pub(super) async fn read_listed_closed_runs(
        &self,
        query: ClosedRunsQuery,
    ) -> Result<ClosedRunsPage, StoreError> {
        // Where every row is listed, no more than the page are read, unless they are of deleted jobs.
        if query.filter.selects_all() && query.limit < query.scan_max {
            let page = self.read_closed_runs(&query, query.limit.max(1)).await?;
            if page.runs.len() >= query.limit || page.end.is_none() {
                return Ok(page);
            }
        }
        self.read_closed_runs(&query, query.scan_max).await
    }

    async fn read_closed_runs(
        &self,
        query: &ClosedRunsQuery,
        scan_max: usize,
    ) -> Result<ClosedRunsPage, StoreError> {
        let (filter, after, limit) = (&query.filter, &query.after, query.limit);
        let scan = rows_max(scan_max);
        let (from, to) = (filter.from.ticks(), filter.to.ticks());
        let rows = match filter.job {
            // The rows of a job are ordered by their scheduled times.
            Some(JobKey(job)) => {
                let after = after.map_or((i64::MAX, i64::MAX, i64::MAX), |after| {
                    (after.from.ticks(), after.to.ticks(), after.number.cast_signed())
                });
                let sql = concat!(
                    "SELECT l.number, l.job, ",
                    closed_run_columns!("l."),
                    ", ",
                    path_columns!(),
                    " FROM (SELECT * FROM ledger
                            WHERE job = $1 AND (first_at, last_at, number) < ($2, $3, $4)
                              AND closed >= $5 AND closed < $6
                            ORDER BY first_at DESC, last_at DESC, number DESC LIMIT $7) l
                      JOIN jobs j ON j.key = l.job JOIN collections c ON c.id = j.collection_id
                      JOIN groups g ON g.id = c.group_id
                      ORDER BY l.first_at DESC, l.last_at DESC, l.number DESC"
                );
                self.query(sql, &[&job, &after.0, &after.1, &after.2, &from, &to, &scan]).await?
            }
            None => {
                let after = after.map_or((i64::MAX, i64::MAX), |after| {
                    (after.closed.ticks(), after.number.cast_signed())
                });
                let sql = concat!(
                    "SELECT l.number, l.job, ",
                    closed_run_columns!("l."),
                    ", ",
                    path_columns!(),
                    " FROM (SELECT * FROM ledger
                            WHERE (closed, number) < ($1, $2) AND closed >= $3 AND closed < $4
                            ORDER BY closed DESC, number DESC LIMIT $5) l
                      LEFT JOIN jobs j ON j.key = l.job
                      LEFT JOIN collections c ON c.id = j.collection_id
                      LEFT JOIN groups g ON g.id = c.group_id
                      ORDER BY l.closed DESC, l.number DESC"
                );
                self.query(sql, &[&after.0, &after.1, &from, &to, &scan]).await?
            }
        };
        let mut page = ClosedRunsPage::default();
        let mut jobs = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let run = row::closed_run(row)?;
            let position = RunPosition::of(unsigned(row, "number")?, &run.record);
            // The rows of deleted jobs are removed later.
            let exists = get::<Option<&str>>(row, "group_name")?.is_some();
            if exists && filter.has_record(&run.record) {
                let path = row::job_path(row)?;
                if filter.has_collection(&path.collection) {
                    jobs.push(get::<i64>(row, "job")?);
                    let last = LastAttempts::default();
                    page.runs.push(ListedClosedRun { path, run, last, position });
                }
            }
            if page.runs.len() >= limit || index + 1 >= scan_max {
                page.end = Some(position);
                break;
            }
        }
        self.add_last_attempts(&jobs, &mut page.runs).await?;
        Ok(page)
    }

    /// Adds the last attempts, which are among the newest history entries of their jobs. Reads the
    /// entries by the primary key, first the few that have those of most runs.
    async fn add_last_attempts(
        &self,
        jobs: &[i64],
        runs: &mut [ListedClosedRun],
    ) -> Result<(), StoreError> {
        for scan_max in [8, 64, ATTEMPT_SCAN_MAX] {
            self.add_last_attempts_among(scan_max, jobs, runs).await?;
        }
        Ok(())
    }

    /// Adds the last attempts that are among the newest `scan_max` entries of their jobs.
    async fn add_last_attempts_among(
        &self,
        scan_max: usize,
        jobs: &[i64],
        runs: &mut [ListedClosedRun],
    ) -> Result<(), StoreError> {
        let (mut places, mut keys) = (Vec::new(), Vec::new());
        let [mut scheduled, mut started, mut ended] = [const { Vec::new() }; 3];
        for ((index, run), job) in runs.iter().enumerate().zip(jobs) {
            if let Some(execution) = run.run.execution
                && !run.last.is_complete()
            {
                places.push(i32::try_from(index).unwrap_or(i32::MAX));
                keys.push(*job);
                scheduled.push(run.run.record.from.ticks());
                started.push(execution.started.ticks());
                ended.push(execution.ended.ticks());
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        // The newest entry of each run and action; `ClosedRun::has_attempt` has the same conditions.
        let sql = concat!(
            "WITH wanted AS (
               SELECT * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[],
                 $5::bigint[]) AS n (place, job, scheduled, first_started, last_ended))
             SELECT DISTINCT ON (n.place, h.role) n.place, h.sequence, ",
            entry_columns!("h."),
            " FROM (SELECT DISTINCT job FROM wanted) j
              CROSS JOIN LATERAL (
                SELECT * FROM history WHERE history.job = j.job ORDER BY sequence DESC LIMIT $6) h
              JOIN wanted n ON n.job = h.job AND n.scheduled = h.expected
                AND h.started >= n.first_started AND h.ended <= n.last_ended
              WHERE h.status <> $7
              ORDER BY n.place, h.role, h.sequence DESC"
        );
        let postponed = AttemptStatus::Postponed.code();
        let limit = rows_max(scan_max);
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&places, &keys, &scheduled, &started, &ended, &limit, &postponed];
        let mut entries = Vec::new();
        for row in self.query(sql, &parameters).await? {
            entries.push((get::<i32>(&row, "place")?, row::history(&row)?));
        }
        // Those of the error action first.
        entries.sort_by_key(|(_, record)| Reverse(record.sequence));
        for (place, HistoryRecord { entry, .. }) in entries {
            let run = usize::try_from(place).ok().and_then(|place| runs.get_mut(place));
            if let Some(ListedClosedRun { run, last, .. }) = run {
                last.add(run, &entry);
            }
        }
        Ok(())
    }

    pub(super) async fn read_run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Result<Vec<(Instant, RunCounts)>, StoreError> {
        let collections = match scopes.contains(&AccessScope::Everything) {
            true => vec![ALL_COLLECTIONS],
            false => self.collections_in(&scopes).await?,
        };
        let sql =
            "SELECT bucket, sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed,
                sum(skipped)::bigint AS skipped, sum(missed)::bigint AS missed
             FROM run_counts WHERE bucket >= $1 AND bucket < $2 AND collection_id = ANY ($3)
             GROUP BY bucket ORDER BY bucket";
        let buckets = buckets_between(from, to);
        let rows = self.query(sql, &[&buckets.start, &buckets.end, &collections]).await?;
        let counts = |row: &Row| {
            let counts = RunCounts {
                succeeded: unsigned(row, "succeeded")?,
                failed: unsigned(row, "failed")?,
                skipped: unsigned(row, "skipped")?,
                missed: unsigned(row, "missed")?,
            };
            Ok((start_of_bucket(get(row, "bucket")?), counts))
        };
        let by_bucket: BTreeMap<Instant, RunCounts> =
            rows.iter().map(counts).collect::<Result<_, StoreError>>()?;
        Ok(by_bucket.into_iter().collect())
    }

    /// The numbers of the collections in any of the scopes.
    async fn collections_in(&self, scopes: &[AccessScope]) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT c.id FROM groups g JOIN collections c ON c.group_id = g.id
             WHERE ($1::text IS NULL OR g.subscription_key = $1)
               AND ($2::text IS NULL OR g.group_key = $2)
               AND ($3::text IS NULL OR c.collection_key = $3)";
        let mut ids = Vec::new();
        for scope in scopes {
            let [subscription, group, collection] = scope_keys(scope);
            for row in self.query(sql, &[&subscription, &group, &collection]).await? {
                ids.push(get(&row, "id")?);
            }
        }
        // Scopes may overlap.
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

/// The keys of subscription, group and collection of a scope, as far as it has them.
fn scope_keys(scope: &AccessScope) -> [Option<String>; 3] {
    match scope {
        AccessScope::Everything => [None, None, None],
        AccessScope::Subscription(subscription) => [Some(subscription.key()), None, None],
        AccessScope::Group(path) => [Some(path.subscription.key()), Some(path.group.key()), None],
        AccessScope::Collection(path) => row::path_keys(path).map(Some),
    }
}
