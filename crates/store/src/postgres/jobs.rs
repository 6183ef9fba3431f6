//! Single jobs: reads. Lists are in `search`.

use kalends_domain::{CollectionState, JobPath};

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::columns::job_columns;
use crate::postgres::row::{self, matched, path_keys};
use crate::record::JobRecord;

impl PostgresStore {
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
        let [subscription, group, collection] = path_keys(&path.collection);
        let rows = self.query(sql, &[&subscription, &group, &collection, &path.job.key()]).await?;
        let state = row::collection_state(rows.first().ok_or(StoreError::NoCollection)?)?;
        let job = matched(&rows, "key")?.into_iter().next();
        job.map(|row| Ok((row::job(row, &self.codec)?, state))).transpose()
    }
}
