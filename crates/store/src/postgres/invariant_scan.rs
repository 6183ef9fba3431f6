//! Pages of jobs for the invariant scan.

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::invariant_scan::{HistorySums, Orphan, ScanPage, ScannedJob};
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::columns::{gate_columns, run_columns};
use crate::postgres::jobs_for_run::gate_state;
use crate::postgres::row::{self, get};
use crate::record::{CollectionKey, JobKey};

/// Jobs per page. The query counts the history of each, up to a thousand entries by default.
const JOBS_MAX: usize = 100;

impl PostgresStore {
    pub(super) async fn read_scan_page(
        &self,
        after: Option<JobKey>,
        scan_max: usize,
    ) -> Result<ScanPage, StoreError> {
        // One statement, hence one snapshot. `states.entries` limits the page before the history is
        // counted.
        let sql = concat!(
            "WITH found AS (
                SELECT j.key, j.created, j.collection_id,
                    sum(1 + coalesce(s.entries, 0)) OVER (ORDER BY j.key) AS scanned,
                    row_number() OVER (ORDER BY j.key) AS place
                FROM (SELECT j.* FROM jobs j JOIN collections c ON c.id = j.collection_id
                      WHERE j.key > $1 ORDER BY j.key LIMIT $3) j
                LEFT JOIN states s ON s.job = j.key
             )
             SELECT f.key, f.created, f.collection_id, s.job, h.entries, h.attempts, h.failed, ",
            gate_columns!(),
            " FROM found f JOIN collections c ON c.id = f.collection_id
             LEFT JOIN states s ON s.job = f.key LEFT JOIN pause p ON true
             LEFT JOIN LATERAL (
                SELECT count(*) AS entries,
                    count(*) FILTER (WHERE role = 0 AND status <> 2) AS attempts,
                    count(*) FILTER (WHERE role = 0 AND status = 1) AS failed
                FROM history WHERE job = f.key
             ) h ON true
             WHERE f.scanned <= $2::bigint OR f.place = 1 ORDER BY f.key"
        );
        let after = after.map_or(i64::MIN, |after| after.0);
        let limit = rows_max(scan_max.clamp(1, JOBS_MAX));
        let found = self.query(sql, &[&after, &rows_max(scan_max), &limit]).await?;
        let mut page = ScanPage::default();
        for row in &found {
            match get::<Option<i64>>(row, "job")? {
                Some(_) => match scanned_job(row) {
                    // A state that cannot be read is reported when it is due.
                    Err(StoreError::Damaged(_)) => {}
                    job => page.jobs.push(job?),
                },
                None => page.orphans.push(Orphan::Job(JobKey(get(row, "key")?))),
            }
        }
        let last = found.last().map(|row| get::<i64>(row, "key")).transpose()?;
        page.next = last.map(JobKey);
        if let Some(last) = last {
            self.add_runs(after, last, &mut page).await?;
        }
        Ok(page)
    }

    /// Reads the runs after the jobs. A run that finished in between is absent, and a run that began
    /// in between belongs to a job that has advanced; the scan reports neither.
    async fn add_runs(&self, after: i64, last: i64, page: &mut ScanPage) -> Result<(), StoreError> {
        let sql = concat!(
            "SELECT ",
            run_columns!(""),
            " FROM runs WHERE job > $1 AND job <= $2 ORDER BY job, id"
        );
        for row in &self.query(sql, &[&after, &last]).await? {
            let run = row::run(row)?;
            if let Some(job) = page.jobs.iter_mut().find(|job| job.job == run.job) {
                job.open.push(run);
            }
        }
        Ok(())
    }
}

fn scanned_job(row: &Row) -> Result<ScannedJob, StoreError> {
    Ok(ScannedJob {
        job: JobKey(get(row, "key")?),
        collection: CollectionKey(get(row, "collection_id")?),
        created: row::at(row, "created")?,
        gate_state: gate_state(row)?,
        open: vec![],
        history: HistorySums {
            entries: row::unsigned(row, "entries")?,
            attempts: row::unsigned(row, "attempts")?,
            failures: row::unsigned(row, "failed")?,
        },
    })
}
