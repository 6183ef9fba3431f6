//! Looking for jobs: the store looks at a bounded number at a time, so that a search in a large
//! collection keeps nobody waiting.

use kalends_domain::{CollectionPath, JobName};
use kalends_store::{JobFilter, JobsPage, Page, SCAN_MAX};

use super::jobs::missing;
use crate::answer::Refused;
use crate::app::App;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Until as many jobs were looked at as the store looks at in one go; the caller says where it
    /// goes on.
    Looked,
    /// Until the page is full or the collection at its end.
    Full,
}

/// Finds a page of jobs.
pub(super) async fn search(
    app: &App,
    path: &CollectionPath,
    filter: &JobFilter,
    page: Page<JobName>,
    until: Until,
) -> Result<JobsPage, Refused> {
    let look = async |page| {
        let found = app.store.jobs(path.clone(), filter.clone(), page, SCAN_MAX).await;
        found.map_err(|error| missing(error, path))
    };
    let mut found = look(page).await?;
    // Each turn begins at a later name. What is still to be passed over is in no link to a next
    // page, so that it is passed over here.
    while let Some(rest) = found.rest.take_if(|rest| until == Until::Full || rest.skip > 0) {
        let more = look(rest).await?;
        found.jobs.extend(more.jobs);
        found.rest = more.rest;
    }
    Ok(found)
}
