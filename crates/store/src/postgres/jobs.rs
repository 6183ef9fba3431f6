//! Single jobs: reads. Lists are in `search`.

use kalends_domain::JobPath;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::columns::{collection_status_columns, job_columns};
use crate::postgres::row::{self, matched, path_keys};
use crate::record::{CollectionStatus, JobRecord};

impl PostgresStore {
    pub(super) async fn read_job(
        &self,
        path: JobPath,
    ) -> Result<Option<(JobRecord, CollectionStatus)>, StoreError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            ", ",
            collection_status_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              LEFT JOIN (jobs j JOIN states s ON s.job = j.key)
                ON j.collection_id = c.id AND j.job_key = $4
              LEFT JOIN pause p ON true
              WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3"
        );
        let [subscription, group, collection] = path_keys(&path.collection);
        let rows = self.query(sql, &[&subscription, &group, &collection, &path.job.key()]).await?;
        let status = row::collection_status(rows.first().ok_or(StoreError::NoCollection)?)?;
        let job = matched(&rows, "key")?.into_iter().next();
        job.map(|row| Ok((row::job(row, &self.codec)?, status))).transpose()
    }
}
