//! Job search. The store scans a bounded number of jobs at a time, so that a search in a large
//! collection does not delay other requests.

use kalends_domain::{CollectionPath, JobName};
use kalends_store::{JobFilter, JobsPage, Page, SCAN_MAX};

use super::jobs::store_error;
use crate::app::App;
use crate::response::ApiError;

/// When a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchEnd {
    /// After one scan. The page may be short; its `rest` says where the next scan starts.
    OneScan,
    /// When the page is full or the collection exhausted.
    FullPage,
}

/// Finds a page of jobs.
pub(super) async fn search(
    app: &App,
    path: &CollectionPath,
    filter: &JobFilter,
    page: Page<JobName>,
    end: SearchEnd,
) -> Result<JobsPage, ApiError> {
    let scan = async |page| {
        let found = app.store.jobs(path.clone(), filter.clone(), page, SCAN_MAX).await;
        found.map_err(|error| store_error(error, path))
    };
    let mut found = scan(page).await?;
    // Each scan starts at a later name. A `nextLink` carries no `$skip`, so the entries to skip are
    // skipped here.
    while let Some(rest) = found.rest.take_if(|rest| end == SearchEnd::FullPage || rest.skip > 0) {
        let more = scan(rest).await?;
        found.jobs.extend(more.jobs);
        found.rest = more.rest;
    }
    Ok(found)
}
