//! `GET …/jobs/{job}/statistics`: outcomes and durations of the newest runs of a job.

use http::StatusCode;
use kalends_domain::{JobPath, RunStatistics};
use kalends_store::NewestRuns;
use kalends_wire::{Json, NewestRunsOfJob, write_statistics};

use super::{HandlerResult, RequestContext, jobs};
use crate::response::ApiResponse;

pub(super) async fn get(request: RequestContext, path: JobPath) -> HandlerResult {
    request.new_version()?;
    let (job, _) = jobs::find(&request.app, &path).await?;
    let newest = request.app.store.newest_runs(vec![job.key], RunStatistics::RUNS_MAX).await?;
    let newest = newest.into_iter().next().unwrap_or_default();
    Ok(ApiResponse::json(StatusCode::OK, &write(&newest, job.state.consecutive_failures)))
}

/// The statistics of a job. `newest` are its newest runs, at most [`RunStatistics::RUNS_MAX`].
pub(super) fn write(newest: &NewestRuns, consecutive_failures: u64) -> Json<'static> {
    write_statistics(&NewestRunsOfJob {
        closed: &newest.closed,
        is_running: newest.is_running,
        consecutive_failures,
    })
}
