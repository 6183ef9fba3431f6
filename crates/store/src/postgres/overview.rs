//! Reads over all collections.

use std::ops::Bound;

use kalends_domain::{AccessScope, CollectionPath, JobName, JobPath, Switch};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::overview_store::{
    CollectionSummary, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary, SearchPosition,
    SearchedCollection, first_keys, scope_keys,
};
use crate::postgres::PostgresStore;
use crate::postgres::code::{rows_max, without_nul};
use crate::postgres::columns::{collection_columns, job_columns};
use crate::postgres::row::{self, get};
use crate::record::{CollectionKey, JobKey, JobRecord};

/// The columns of [`summary`].
macro_rules! summary_columns {
    () => {
        "s.job, s.collection_id, s.enabled, s.lifecycle, s.due, s.used, \
         s.last_execution, s.enabled_since, s.consecutive_failures"
    };
}

pub(super) use summary_columns;

impl PostgresStore {
    pub(super) async fn read_collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Result<Vec<CollectionSummary>, StoreError> {
        // At most `limit` collections of each group, by index.
        let sql = concat!(
            "SELECT c.id, c.jobs, ",
            collection_columns!(),
            " FROM groups g CROSS JOIN LATERAL (
                SELECT * FROM collections c
                WHERE c.group_id = g.id AND ($3::text IS NULL OR c.collection_key = $3)
                  AND c.collection_key >= CASE
                      WHEN g.subscription_key = $4 AND g.group_key = $5 THEN $6::text ELSE '' END
                ORDER BY c.collection_key LIMIT $7
              ) c
              WHERE ($1::text IS NULL OR g.subscription_key = $1)
                AND ($2::text IS NULL OR g.group_key = $2)
                AND (g.subscription_key, g.group_key) >= ($4, $5)
              ORDER BY g.subscription_key, g.group_key, c.collection_key LIMIT $7"
        );
        let ([subscription, group, name], first) = (scope_keys(&scope), first_keys(&from));
        let [first_subscription, first_group, first_name] = first;
        let limit = rows_max(limit);
        let rows = self
            .query(
                sql,
                &[
                    &subscription,
                    &group,
                    &name,
                    &first_subscription,
                    &first_group,
                    &first_name,
                    &limit,
                ],
            )
            .await?;
        let summary = |row: &Row| {
            let (key, jobs) = (CollectionKey(get(row, "id")?), row::unsigned(row, "jobs")?);
            Ok(CollectionSummary { key, record: row::collection(row)?, jobs })
        };
        rows.iter().map(summary).collect()
    }

    pub(super) async fn find_jobs(&self, search: JobSearch) -> Result<JobSearchPage, StoreError> {
        let scan_max = search.scan_max.max(1) as u64;
        let Some(first) = search.collections.first() else { return Ok(JobSearchPage::default()) };
        // The longest start of the list with at most `scan_max` jobs: one statement examines all of
        // them. A larger collection is examined in slices.
        let mut jobs = 0_u64;
        let whole = search.collections.iter().take_while(|collection| {
            jobs = jobs.saturating_add(collection.jobs.max(1));
            jobs <= scan_max
        });
        let whole = whole.count();
        if whole > 0 {
            let (examined, others) = search.collections.split_at(whole);
            let jobs = read_matches(&self.examine(examined, &search, None).await?)?;
            let rest =
                others.first().map(|next| SearchPosition { collection: next.key, after: None });
            return Ok(JobSearchPage { jobs, rest });
        }
        let (rows, end) = match search.words.is_empty() {
            // Jobs that are created or deleted between the statements do not move the end of the slice.
            false => {
                let end = self.end_of_slice(first.key, &search).await?;
                (self.examine(&[*first], &search, end.as_ref()).await?, end)
            }
            // Without a text every examined job is a match, so that the last one ends the slice.
            true => {
                let rows = self.examine(&[*first], &search, None).await?;
                let last = rows.last().filter(|_| rows.len() as u64 >= scan_max);
                let end = last.map(job_name).transpose()?;
                (rows, end)
            }
        };
        let jobs = read_matches(&rows)?;
        let next = search.collections.get(1).map(|next| (next.key, None));
        let rest = end.map(|end| (first.key, Some(end))).or(next);
        let rest = rest.map(|(collection, after)| SearchPosition { collection, after });
        Ok(JobSearchPage { jobs, rest })
    }

    /// The last of the next `scan_max` jobs of a collection; `None` if there are fewer.
    async fn end_of_slice(
        &self,
        collection: CollectionKey,
        search: &JobSearch,
    ) -> Result<Option<JobName>, StoreError> {
        let sql = "SELECT name FROM jobs WHERE collection_id = $1 AND job_key > $2
                   ORDER BY job_key OFFSET $3 LIMIT 1";
        let after = search.after.as_ref().map(JobName::key).unwrap_or_default();
        let offset = rows_max(search.scan_max.max(1) - 1);
        let found = self.query(sql, &[&collection.0, &after, &offset]).await?;
        found.first().map(job_name).transpose()
    }

    /// The matches among the first `scan_max` jobs of each of these collections, or among those of a
    /// single collection until the job `last`.
    async fn examine(
        &self,
        collections: &[SearchedCollection],
        search: &JobSearch,
        last: Option<&JobName>,
    ) -> Result<Vec<Row>, StoreError> {
        let examination = Examination::new(collections, search, last);
        self.query(&examination.sql, &examination.parameters()).await
    }

    /// The plan of a search in collections with at most `scan_max` jobs with its actual costs, as text of
    /// the database.
    pub async fn explain_search(&self, search: &JobSearch) -> Result<String, StoreError> {
        let examination = Examination::new(&search.collections, search, None);
        self.explain(&examination.sql, &examination.parameters()).await
    }

    pub(super) async fn read_jobs_of_set(
        &self,
        set: JobSet,
        limit: usize,
    ) -> Result<Option<Vec<JobMatch>>, StoreError> {
        macro_rules! jobs_where {
            ($condition:literal) => {
                concat!(
                    "SELECT ",
                    summary_columns!(),
                    ", j.name FROM (SELECT * FROM states WHERE ",
                    $condition,
                    " LIMIT $1) s JOIN jobs j ON j.key = s.job"
                )
            };
        }
        // The conditions are those of the indexes.
        let sql = match set {
            JobSet::Disabled => jobs_where!("NOT enabled"),
            JobSet::Failing => jobs_where!("consecutive_failures >= 3"),
            JobSet::Finished => jobs_where!("finished IS NOT NULL"),
        };
        let rows = self.query(sql, &[&rows_max(limit + 1)]).await?;
        if rows.len() > limit {
            return Ok(None);
        }
        read_matches(&rows).map(Some)
    }

    pub(super) async fn read_job_paths(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<(JobKey, JobPath)>, StoreError> {
        let sql = "SELECT j.key, j.name AS job_name, c.name AS collection_name,
                       g.name AS group_name, g.subscription
                   FROM jobs j JOIN collections c ON c.id = j.collection_id
                   JOIN groups g ON g.id = c.group_id WHERE j.key = ANY ($1)";
        let keys: Vec<_> = jobs.iter().map(|job| job.0).collect();
        let path = |row: &Row| Ok((JobKey(get(row, "key")?), row::job_path(row)?));
        self.query(sql, &[&keys]).await?.iter().map(path).collect()
    }

    pub(super) async fn read_states_by_key(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<JobSummary>, StoreError> {
        let sql = concat!("SELECT ", summary_columns!(), " FROM states s WHERE s.job = ANY ($1)");
        let keys: Vec<_> = jobs.iter().map(|job| job.0).collect();
        let mut found = Vec::with_capacity(keys.len());
        for row in &self.query(sql, &[&keys]).await? {
            match summary(row) {
                Err(StoreError::Damaged(_)) => {}
                state => found.push(state?),
            }
        }
        Ok(found)
    }

    pub(super) async fn read_jobs_by_key(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<JobRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs j JOIN states s ON s.job = j.key
              JOIN collections c ON c.id = j.collection_id JOIN groups g ON g.id = c.group_id
              WHERE j.key = ANY ($1)"
        );
        let keys: Vec<_> = jobs.iter().map(|job| job.0).collect();
        let mut found = Vec::with_capacity(keys.len());
        for row in &self.query(sql, &[&keys]).await? {
            match row::job(row, &self.codec) {
                Err(StoreError::Unreadable(_)) => {}
                job => found.push(job?),
            }
        }
        Ok(found)
    }
}

/// The statement that examines the first `scan_max` jobs of each of some collections.
struct Examination {
    sql: String,
    collections: Vec<i64>,
    /// Words of the search that every job of the collection matches, as bits.
    matched: Vec<i32>,
    after: String,
    last: String,
    limit: i64,
    words: Vec<String>,
}

/// Greater than every key of a job.
const AFTER_ALL_KEYS: &str = "\u{10ffff}";

impl Examination {
    fn new(
        collections: &[SearchedCollection],
        search: &JobSearch,
        last: Option<&JobName>,
    ) -> Examination {
        // Jobs may be created before `last` in the meantime.
        let jobs_max = search.scan_max.max(1) * if last.is_some() { 2 } else { 1 };
        // The limit inside makes it a range of the index. The other one, which the planner knows, tells
        // it how few rows there are; a power of two, so that there are few different statements.
        let sql = format!(
            "SELECT {columns}, j.name
             FROM unnest($1::bigint[], $2::integer[]) WITH ORDINALITY w (id, matched, place)
             CROSS JOIN LATERAL (
                SELECT * FROM (
                    SELECT j.key, j.job_key, j.name, j.search FROM jobs j
                    WHERE j.collection_id = w.id
                      AND j.job_key > CASE WHEN w.place = 1 THEN $3::text ELSE '' END
                      AND j.job_key <= $5::text
                    ORDER BY j.job_key LIMIT $4
                ) j LIMIT {rows}
             ) j
             JOIN states s ON s.job = j.key
             WHERE true{words}
             ORDER BY w.place, j.job_key",
            columns = summary_columns!(),
            rows = jobs_max.next_power_of_two(),
            words = (0..search.words.len()).map(has_word).collect::<String>(),
        );
        Examination {
            sql,
            collections: collections.iter().map(|collection| collection.key.0).collect(),
            matched: collections.iter().map(|one| i32::from(one.matched)).collect(),
            after: search.after.as_ref().map(JobName::key).unwrap_or_default(),
            last: last.map_or_else(|| AFTER_ALL_KEYS.into(), JobName::key),
            limit: rows_max(jobs_max),
            words: search.words.iter().map(|word| without_nul(&word.to_lowercase())).collect(),
        }
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&self.collections, &self.matched, &self.after, &self.limit, &self.last];
        parameters.extend(self.words.iter().map(|word| word as &(dyn ToSql + Sync)));
        parameters
    }
}

/// The condition that a job has a word, or its collection does.
fn has_word(place: usize) -> String {
    let (bit, word) = (1 << place, place + 6);
    format!(
        " AND (w.matched & {bit} <> 0 OR strpos(lower(j.job_key), ${word}::text) > 0
              OR strpos(E'\n' || j.search || E'\n', ${word}) > 0)"
    )
}

fn read_matches(rows: &[Row]) -> Result<Vec<JobMatch>, StoreError> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        match summary(row).and_then(|state| Ok(JobMatch { name: job_name(row)?, state })) {
            // A state that cannot be read: the list shows the others.
            Err(StoreError::Damaged(_)) => {}
            job => found.push(job?),
        }
    }
    Ok(found)
}

pub(super) fn summary(row: &Row) -> Result<JobSummary, StoreError> {
    Ok(JobSummary {
        job: JobKey(get(row, "job")?),
        collection: CollectionKey(get(row, "collection_id")?),
        switch: if get(row, "enabled")? { Switch::Enabled } else { Switch::Disabled },
        lifecycle: row::coded(row, "lifecycle")?,
        due: row::optional_at(row, "due")?,
        used: row::unsigned(row, "used")?,
        last_execution: row::optional_at(row, "last_execution")?,
        enabled_since: row::optional_at(row, "enabled_since")?,
        consecutive_failures: row::unsigned(row, "consecutive_failures")?,
    })
}

pub(super) fn job_name(row: &Row) -> Result<JobName, StoreError> {
    JobName::new(get(row, "name")?).map_err(|error| StoreError::Damaged(error.to_string()))
}
