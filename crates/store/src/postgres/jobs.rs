//! Single jobs: reads. Lists are in `search`.

use kalends_domain::JobPath;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::row;
use crate::record::{CollectionStatus, JobRecord};

impl PostgresStore {
    pub(super) async fn read_job(
        &self,
        path: JobPath,
    ) -> Result<Option<(JobRecord, CollectionStatus)>, StoreError> {
        let Some(row) = self.reads.read(path).await? else { return Ok(None) };
        Ok(Some((row::job(&row, &self.codec)?, row::collection_status(&row)?)))
    }
}
