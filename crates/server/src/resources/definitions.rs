//! `GET …/jobs/{job}/definitions/{generation}`: the definition that a run used, also after edits.

use http::StatusCode;
use kalends_domain::{
    Headers, JobDefinition, JobPath, SecretHeaders, Target, Uri, mask_secret_parameters,
};
use kalends_wire::{ErrorCode, ErrorDetails, STORED, write_job_generation};

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
    let definition = without_secrets(earlier.definition, &request.app.settings.secret_headers);
    let body = write_job_generation(generation, &definition, Some(earlier.replaced), version);
    Ok(ApiResponse::json(StatusCode::OK, &body))
}

/// Masks secrets in headers and in the query of a URI, which a GET of the present job returns: a user may
/// have replaced them because others had seen them.
fn without_secrets(mut job: JobDefinition, secret: &SecretHeaders) -> JobDefinition {
    let main = &mut job.action;
    let error = main.error_action.as_mut().map(|error| &mut error.action.target);
    for target in [Some(&mut main.action.target), error].into_iter().flatten() {
        let Target::Http(request) = target else { continue };
        request.uri = Uri::restore(mask_secret_parameters(request.uri.as_str(), STORED));
        let masked = |(name, value): (&str, &str)| {
            let value = if secret.contains(name) { STORED } else { value };
            (name.to_owned(), value.to_owned())
        };
        let headers = request.headers.take();
        request.headers =
            headers.map(|headers| Headers::restore(headers.iter().map(masked).collect()));
    }
    job
}
