//! Lists and filtered searches of the jobs of a collection.

use kalends_domain::{CollectionPath, JobName, Lifecycle};

use crate::api_store::{JobFilter, JobFilterState, JobsPage, Page};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::{Code, rows_max, without_nul};
use crate::postgres::columns::{collection_status_columns, job_columns};
use crate::postgres::edit_jobs::tag_key;
use crate::postgres::row;
use crate::postgres::row::get;
use crate::postgres::row::{matched, path_keys};

impl PostgresStore {
    /// One statement, hence one snapshot. A filtered search examines `scan_max` jobs in name order: `e`
    /// is the last of them, and `~` sorts after every name.
    pub(super) async fn read_jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Result<JobsPage, StoreError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            ", e.job_key AS search_end, ",
            collection_status_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              LEFT JOIN LATERAL (
                SELECT b.job_key FROM jobs b
                WHERE $11::bigint IS NOT NULL AND b.collection_id = c.id AND b.job_key > $4
                ORDER BY b.job_key OFFSET $11 LIMIT 1
              ) e ON true
              LEFT JOIN LATERAL (
                SELECT j.* FROM jobs j JOIN states s ON s.job = j.key
                WHERE j.collection_id = c.id AND j.job_key > $4
                  AND j.job_key <= coalesce(e.job_key, '~')
                  AND ($5::smallint IS NULL OR s.lifecycle = $5)
                  AND ($6::boolean IS NULL OR s.enabled = $6)
                  AND ($7::text IS NULL OR strpos(lower(j.job_key), $7) > 0
                       OR strpos(j.search, $7) > 0)
                  AND ($8::text IS NULL OR $8 = ANY (j.tags))
                ORDER BY j.job_key OFFSET $9 LIMIT $10
              ) j ON true
              LEFT JOIN states s ON s.job = j.key LEFT JOIN pause p ON true
              WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
              ORDER BY j.job_key"
        );
        let [subscription, group, collection] = path_keys(&path);
        // Every name sorts after the empty string.
        let after = page.after.as_ref().map(JobName::key).unwrap_or_default();
        let (lifecycle, enabled) = filter.state.map_or((None, None), state_filter);
        let contains = filter.contains.as_ref().map(|text| without_nul(&text.to_lowercase()));
        let tag = filter.tag.as_ref().map(|(name, value)| tag_key(name, value.as_deref()));
        let tag = tag.transpose()?;
        // A filtered search skips here and not in SQL, because matches to skip may lie beyond `e`.
        let (skip, skip_here, scan_offset) = match filter == JobFilter::default() {
            true => (page.skip, 0, None),
            false => (0, page.skip, Some(rows_max(scan_max.max(1) - 1))),
        };
        let limit = rows_max(skip_here.saturating_add(page.limit as u64));
        let skip = rows_max(skip);
        let rows = self
            .query(
                sql,
                &[
                    &subscription,
                    &group,
                    &collection,
                    &after,
                    &lifecycle,
                    &enabled,
                    &contains,
                    &tag,
                    &skip,
                    &limit,
                    &scan_offset,
                ],
            )
            .await?;
        let first = rows.first().ok_or(StoreError::NoCollection)?;
        let end = get::<Option<&str>>(first, "search_end")?.map(JobName::new).transpose();
        let end =
            end.map_err(|error| StoreError::Damaged(format!("invalid name of a job: {error}")))?;
        let collection = row::collection_status(first)?;
        let rows = matched(&rows, "key")?;
        let skipped = skip_here.min(rows.len() as u64);
        let is_full = rows.len() as u64 >= skip_here.saturating_add(page.limit as u64);
        let last = rows.last().map(|row| get::<&str>(row, "job_name")).transpose()?;
        let rows = rows.into_iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let mut jobs = Vec::new();
        for row in rows {
            match row::job(row, &self.codec) {
                // The list shows the others.
                Err(StoreError::Unreadable(_)) => {}
                job => jobs.push(job?),
            }
        }
        // Jobs that cannot be read leave room for others after them.
        let end = if is_full { last.and_then(|name| JobName::new(name).ok()) } else { end };
        Ok(JobsPage::new((jobs, collection), &page, skip_here - skipped, end))
    }
}

/// The lifecycle and switch of jobs in a state; `None` matches any.
fn state_filter(state: JobFilterState) -> (Option<i16>, Option<bool>) {
    match state {
        JobFilterState::Enabled => (Some(Lifecycle::Active.code()), Some(true)),
        JobFilterState::Disabled => (Some(Lifecycle::Active.code()), Some(false)),
        JobFilterState::Completed => (Some(Lifecycle::Completed.code()), None),
        JobFilterState::Faulted => (Some(Lifecycle::Faulted.code()), None),
    }
}
