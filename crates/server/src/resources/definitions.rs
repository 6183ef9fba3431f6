//! `GET …/jobs/{job}/definitions/{generation}`: the definition that a run used, also after edits.

use http::StatusCode;
use kalends_domain::JobPath;
use kalends_wire::{ErrorCode, ErrorDetails, write_job_generation};

use super::{HandlerResult, RequestContext, jobs};
use crate::response::ApiResponse;

pub(super) async fn get(request: RequestContext, path: JobPath, generation: u64) -> HandlerResult {
    let version = request.new_version()?;
    let (job, _) = jobs::find(&request.app, &path).await?;
    if generation == job.job.generation {
        let body = write_job_generation(generation, &job.job.definition, None, version);
        return Ok(ApiResponse::json(StatusCode::OK, &body));
    }
    let earlier = request.app.store.earlier_definition(job.key, generation).await?;
    let earlier = earlier.ok_or_else(|| {
        let message = format!(
            "Generation {generation} of job '{}' cannot be found; the newest 20 definitions that \
             runs may have used are retained, as long as history",
            path.job
        );
        ErrorDetails::one(ErrorCode::NotFound, "", message)
    })?;
    let body =
        write_job_generation(generation, &earlier.definition, Some(earlier.replaced), version);
    Ok(ApiResponse::json(StatusCode::OK, &body))
}
