//! `POST …/test-run`: one attempt of the main action of a definition, without saving it. It is in no
//! history, is not retried, and calls no error action.

use std::sync::Arc;

use http::StatusCode;
use kalends_actions::{AttemptRequest, SendFence};
use kalends_domain::{ActionRole, AttemptStatus, Cause, JobDefinition, JobPath, Outcome, Signing};
use kalends_store::JobContext;
use kalends_wire::{TestRun, write_test_run};

use super::preview::{PreparedPreview, PreviewAccess, created_collection};
use super::{HandlerResult, RequestContext};
use crate::edit::{Condition, JobEdit, check_not_paused};
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

pub(super) async fn test_run(mut request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.new_version()?;
    let body = read_json(&mut request).await?;
    let app = Arc::clone(&request.app);
    let (executor, _permit) = app.test_runs.start(request.source.client.into(), &request.caller)?;
    // The route requires the permission to save.
    let access = PreviewAccess::Save;
    let condition = Condition::of(&request.headers);
    let created = created_collection(&request, &path.collection, access).await?;
    let prepared = PreparedPreview::read(&app, &path, &body, condition, version, access).await?;
    let (definition, region) = prepared.decide(&app, created.as_deref(), checked).await?;
    check_not_paused(app.store.pause().await?.as_ref())?;
    app.access.count_run(&app, &path.collection)?;
    let timeout = app.test_runs.timeout(&definition);
    let started = app.now();
    let attempt = AttemptRequest {
        path: &path,
        // The idempotency key is derived from it: a receiver must not take the test for a run of the job.
        uid: app.new_uid()?.0,
        generation: 0,
        region: &region,
        action: &definition.action.action,
        role: ActionRole::Main,
        scheduled: started,
        cause: Cause::Manual,
        retry: 0,
        timeout,
        signing: definition.extensions.signing.unwrap_or(Signing::Off),
    };
    let report = executor.execute(attempt, SendFence::unlimited()).await;
    let report = report.map_err(|_| ApiError::internal("an open fence refused a test run"))?;
    let result = TestRun {
        started,
        ended: app.now(),
        status: match report.outcome {
            Outcome::Succeeded => AttemptStatus::Completed,
            _ => AttemptStatus::Failed,
        },
        message: &report.message,
        timing: report.timing,
    };
    Ok(ApiResponse::json(StatusCode::OK, &write_test_run(&result)))
}

/// A definition that could be saved, with its stored secrets, and the location of its collection.
fn checked(
    edit: &JobEdit,
    definition: JobDefinition,
    context: &JobContext<'_>,
) -> Result<(JobDefinition, String), ApiError> {
    edit.decide(definition.clone(), context)?;
    Ok((definition, context.collection.collection.location.as_str().to_owned()))
}
