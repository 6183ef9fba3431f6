//! `POST …/jobs/preview`: the effects of saving many definitions, each decided like a preview of its
//! own.
//!
//! The body is `{"jobs": [{"name": …, "definition": …}, …]}`. The response has a preview or an error
//! for each job, in the same order. The request counts once against the rate limit of its caller.

use std::sync::Arc;

use http::StatusCode;
use kalends_domain::{CollectionPath, JobPath};
use kalends_wire::{BulkEdit, Json, job_id, read_bulk_preview};

use super::preview::{PreparedPreview, PreviewAccess, created_collection, effect};
use super::{HandlerResult, RequestContext};
use crate::edit::Condition;
use crate::request::{BodyLimit, read_json_up_to};
use crate::response::{ApiError, ApiResponse};

/// Previews that are decided concurrently.
const CONCURRENT_MAX: usize = 32;
/// Size of the body: 1,000 definitions of 4 KiB, or 250 of the largest ones.
const BODY_LIMIT: BodyLimit =
    BodyLimit { bytes_max: 4 * 1024 * 1024, members_max: 100 * BulkEdit::JOBS_MAX };

pub(super) async fn preview(mut request: RequestContext, path: CollectionPath) -> HandlerResult {
    let version = request.new_version()?;
    let _permit = request.slot.acquire_large_body()?;
    let body = read_json_up_to(&mut request, BODY_LIMIT).await?;
    let jobs = read_bulk_preview(&body)?;
    let access = PreviewAccess::of(&request.caller, &path);
    let created = created_collection(&request, &path, access).await?;
    let app = &request.app;
    let mut values = Vec::with_capacity(jobs.len());
    for chunk in jobs.chunks(CONCURRENT_MAX) {
        let mut tasks = Vec::with_capacity(chunk.len());
        for (name, definition) in chunk {
            let job = JobPath { collection: path.clone(), job: name.clone() };
            // One after the other: reading a certificate takes a core of its own.
            let condition = Condition::default();
            let prepared =
                PreparedPreview::read(app, &job, definition, condition, version, access).await;
            let (app, created) = (Arc::clone(app), created.clone());
            let decided = async move { prepared?.decide(&app, created.as_deref(), effect).await };
            tasks.push((job, tokio::spawn(decided)));
        }
        for (job, task) in tasks {
            let result = task.await.map_err(|error| ApiError::internal(error.to_string()))?;
            values.push(write_result(&job, result));
        }
    }
    let members = vec![("value".into(), Json::Array(values))];
    Ok(ApiResponse::json(StatusCode::OK, &Json::Object(members)))
}

fn write_result(job: &JobPath, result: Result<Json<'static>, ApiError>) -> Json<'static> {
    let result = match result {
        Ok(preview) => ("preview".into(), preview),
        Err(error) => ("error".into(), error.errors.to_json().into_owned()),
    };
    let name = format!("{}/{}", job.collection.collection, job.job);
    Json::Object(vec![("id".into(), job_id(job).into()), ("name".into(), name.into()), result])
}
