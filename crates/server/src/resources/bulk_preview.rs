//! `POST …/jobs/preview`: the effects of saving many definitions, each decided like a preview of its
//! own.
//!
//! The body is `{"jobs": [{"name": …, "definition": …}, …]}`. The response has a preview or an error
//! for each job, in the same order. The request counts once against the rate limit of its caller.

use std::sync::Arc;

use http::StatusCode;
use kalends_domain::{CollectionPath, JobName, JobPath};
use kalends_wire::{ErrorCode, ErrorDetail, ErrorDetails, Json, job_id, quoted};

use super::preview::{PreparedPreview, PreviewAccess};
use super::{HandlerResult, RequestContext};
use crate::edit::Condition;
use crate::request::{BodyLimit, read_json_up_to};
use crate::response::{ApiError, ApiResponse};

/// Definitions of one request; no plan allows more jobs in a collection.
const JOBS_MAX: usize = 1_000;
/// Previews that are decided concurrently.
const CONCURRENT_MAX: usize = 32;
/// Size of the body: 1,000 definitions of 4 KiB, or 250 of the largest ones.
const BODY_LIMIT: BodyLimit = BodyLimit { bytes_max: 4 * 1024 * 1024, members_max: 100 * JOBS_MAX };

pub(super) async fn preview(mut request: RequestContext, path: CollectionPath) -> HandlerResult {
    let version = request.new_version()?;
    let _permit = request.slot.acquire_large_body()?;
    let body = read_json_up_to(&mut request, BODY_LIMIT).await?;
    let jobs = read_body(body)?;
    let access = PreviewAccess::of(&request.caller, &path);
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
            let app = Arc::clone(app);
            let decided = async move { prepared?.decide(&app).await };
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
        Err(error) => ("error".into(), write_errors(&error.errors)),
    };
    let name = format!("{}/{}", job.collection.collection, job.job);
    Json::Object(vec![("id".into(), job_id(job).into()), ("name".into(), name.into()), result])
}

/// The errors of one definition, in the form of an error response.
fn write_errors(errors: &ErrorDetails) -> Json<'static> {
    let members = |error: &ErrorDetail| {
        let mut members = vec![
            ("code".into(), error.code.as_str().into()),
            ("message".into(), error.to_string().into()),
        ];
        if !error.path.is_empty() {
            members.push(("target".into(), error.path.clone().into()));
        }
        members
    };
    let mut first = errors.iter().next().map(members).unwrap_or_default();
    let all = errors.iter().map(|error| Json::Object(members(error)));
    let details = if errors.iter().nth(1).is_some() { all.collect() } else { vec![] };
    first.push(("details".into(), Json::Array(details)));
    Json::Object(first)
}

fn read_body(mut body: Json<'static>) -> Result<Vec<(JobName, Json<'static>)>, ErrorDetails> {
    let expected = "must be a list of at most 1000 objects with name and definition";
    let Some(Json::Array(jobs)) = take(&mut body, "jobs") else { return wrong("jobs", expected) };
    if jobs.len() > JOBS_MAX {
        return wrong("jobs", expected);
    }
    reject_rest(&body, "", "jobs")?;
    let mut read = Vec::with_capacity(jobs.len());
    for (index, mut job) in jobs.into_iter().enumerate() {
        let path = |member: &str| format!("jobs[{index}].{member}");
        let Some(Json::String(name)) = take(&mut job, "name") else {
            return wrong(&path("name"), "must be the name of a job");
        };
        let name = JobName::new(&name).map_err(|error| {
            let message = format!("{error} (found {})", quoted(&name));
            ErrorDetails::one(error.into(), path("name"), message)
        })?;
        let Some(definition @ Json::Object(_)) = take(&mut job, "definition") else {
            return wrong(&path("definition"), "must be the definition of a job, an object");
        };
        reject_rest(&job, &path(""), "name and definition")?;
        read.push((name, definition));
    }
    Ok(read)
}

fn take(object: &mut Json<'static>, name: &str) -> Option<Json<'static>> {
    let Json::Object(members) = object else { return None };
    let position = members.iter().position(|(other, _)| other.eq_ignore_ascii_case(name))?;
    Some(members.swap_remove(position).1)
}

/// Rejects the members of an object that are left after the known ones were taken.
fn reject_rest(object: &Json<'_>, above: &str, known: &str) -> Result<(), ErrorDetails> {
    let Json::Object(members) = object else { return Ok(()) };
    let Some((name, _)) = members.first() else { return Ok(()) };
    let name: String = name.chars().take(64).collect();
    let message = format!("is unknown; the members are {known}");
    Err(ErrorDetails::one(ErrorCode::UnknownProperty, format!("{above}{name}"), message))
}

fn wrong<T>(path: &str, message: &str) -> Result<T, ErrorDetails> {
    Err(ErrorDetails::one(ErrorCode::InvalidRequestContent, path, message))
}
