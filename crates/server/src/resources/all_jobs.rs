//! `GET /api/jobs`: the jobs of all collections that the caller may read.

use std::collections::HashMap;

use http::StatusCode;
use kalends_domain::{AccessScope, CollectionName, CollectionPath, Permission, stored_rule_of};
use kalends_recurrence::ImmediateRun;
use kalends_store::record::{CollectionStatus, JobKey, JobRecord};
use kalends_store::{NewestRuns, SEARCH_WORDS_MAX};
use kalends_wire::{
    ErrorDetail, Json, ListedJob, OUTCOMES_MAX, collection_id, quoted, write_job_list,
    write_listed_job,
};

use super::job_search::{self, Conditions, FoundJob, FoundJobs, Position, StateFilter};
use super::search_words::search_words;
use super::{HandlerResult, RequestContext, jobs, overview, statistics};
use crate::app::App;
use crate::overview::Overview;
use crate::paging::CursorRequest;
use crate::request::invalid;
use crate::response::{ApiError, ApiResponse};

/// Values of the parameter `statistics`.
const FLAGS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// Characters of a search.
const SEARCH_CHARS_MAX: usize = 256;

pub(super) async fn list(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let conditions = with_collection_of_word(read_conditions(&request)?, &request).await?;
    let parameters: Vec<_> = ["search", "state", "collection", "statistics"]
        .into_iter()
        .filter_map(|name| Some((name, request.query.text(name).ok()??.to_owned())))
        .collect();
    let page = CursorRequest::read(&request, &parameters)?;
    let from = match &page.position {
        None => None,
        Some(text) => {
            let message = "must come from a nextLink; request the first page again";
            Some(Position::parse(text).ok_or_else(|| invalid("cursor", message))?)
        }
    };
    let app = &request.app;
    if let Some(path) = &conditions.collection
        && app.store.collection(path.clone()).await?.is_none()
    {
        return Err(ErrorDetail::collection_not_found(path).into());
    }
    let FoundJobs { jobs, counts, next } =
        job_search::search(app, &request.caller, &conditions, from, page.size).await?;
    let next = next.map(|position| page.link_after(&position.to_string()));
    let keys: Vec<_> = jobs.iter().map(|job| job.key).collect();
    let with_statistics = request.query.word("statistics", &FLAGS)?.unwrap_or(false);
    if with_statistics {
        // Only the console asks for statistics. Its users search next.
        Overview::prepare_search(app).await;
    }
    let newest = async {
        match with_statistics {
            // A list reads the runs of many jobs: only those whose outcomes it shows.
            true => app.store.newest_runs(keys.clone(), OUTCOMES_MAX).await,
            false => Ok(vec![]),
        }
    };
    let (newest, records, pause) =
        tokio::try_join!(newest, app.store.jobs_by_key(keys.clone()), app.store.pause())?;
    let mut newest: HashMap<JobKey, NewestRuns> = keys.into_iter().zip(newest).collect();
    let records: HashMap<JobKey, JobRecord> =
        records.into_iter().map(|record| (record.key, record)).collect();
    // A job that was deleted meanwhile, or cannot be read, is left out.
    let found = jobs.iter().filter_map(|job| Some((job, records.get(&job.key)?)));
    let is_paused = pause.is_some();
    let values = found.map(|(job, record)| {
        let newest = newest.remove(&job.key);
        write(app, job, record, newest, is_paused)
    });
    let values = values.collect();
    let mut job_counts = counts.into();
    // The numbers of all jobs are known if a client asked for them before.
    if conditions.words.is_empty()
        && counts.is_incomplete()
        && let Some(states) = Overview::states_if_known(app).await
    {
        job_counts = overview::counts_of(&states, &request, conditions.collection.as_ref());
    }
    let body = write_job_list(values, next.as_deref(), job_counts);
    Ok(ApiResponse::json(StatusCode::OK, &body))
}

fn write<'a>(
    app: &App,
    found: &FoundJob,
    record: &'a JobRecord,
    newest: Option<NewestRuns>,
    is_paused: bool,
) -> Json<'a> {
    let definition = &record.job.definition;
    let rule = stored_rule_of(definition, record.job.created, &app.settings.schedules).ok();
    let collection = collection_label(app, &record.path.collection);
    let listed = ListedJob {
        collection: &collection,
        collection_state: found.collection_state,
        schedule_text: rule.map(|rule| rule.describe_with(ImmediateRun::Past)),
        consecutive_failures: found.consecutive_failures,
        statistics: newest.map(|newest| statistics::write(&newest, found.consecutive_failures)),
    };
    let collection_status = CollectionStatus { state: found.collection_state, is_paused };
    let runtime = jobs::runtime_state(record, collection_status, app);
    write_listed_job(&record.path, definition, &runtime, listed)
}

/// A word such as `billing/export`, as a job is shown, selects the jobs of this collection that match the
/// rest, if there is such a collection.
async fn with_collection_of_word(
    mut conditions: Conditions,
    request: &RequestContext,
) -> Result<Conditions, ApiError> {
    if conditions.collection.is_some() {
        return Ok(conditions);
    }
    for place in 0..conditions.words.len() {
        let parts = conditions.words.get(place).and_then(|word| word.split_once('/'));
        let Some((Ok(name), rest)) = parts.map(|(name, rest)| (CollectionName::new(name), rest))
        else {
            continue;
        };
        let (path, rest) = (default_collection(request, name), rest.to_owned());
        let scope = AccessScope::Collection(path.clone());
        let may_read = request.require(Permission::Read, scope).is_ok();
        if may_read && request.app.store.collection(path.clone()).await?.is_some() {
            conditions.words.remove(place);
            conditions.words.extend(Some(rest).filter(|rest| !rest.is_empty()));
            return Ok(Conditions { collection: Some(path), ..conditions });
        }
    }
    Ok(conditions)
}

/// A collection of the default group.
fn default_collection(request: &RequestContext, collection: CollectionName) -> CollectionPath {
    CollectionPath { group: request.app.settings.default_group.clone(), collection }
}

fn read_conditions(request: &RequestContext) -> Result<Conditions, ApiError> {
    let query = &request.query;
    let text = query.text("search")?.map(str::trim).filter(|text| !text.is_empty());
    if let Some(text) = text.filter(|text| text.chars().count() > SEARCH_CHARS_MAX) {
        let found = quoted(text);
        let message = format!("must have at most {SEARCH_CHARS_MAX} characters (found {found})");
        return Err(invalid("search", message).into());
    }
    let words = text.map(search_words).unwrap_or_default();
    if words.len() > SEARCH_WORDS_MAX {
        let found = words.len();
        let message = format!("must have at most {SEARCH_WORDS_MAX} words (found {found})");
        return Err(invalid("search", message).into());
    }
    let collection = query.text("collection")?;
    let collection = collection.map(|text| read_collection(request, text)).transpose()?;
    Ok(Conditions { words, state: query.word("state", &StateFilter::WORDS)?, collection })
}

/// A collection in a parameter: its name in the default group, or its id. The caller must be allowed
/// to read it.
pub(super) fn read_collection(
    request: &RequestContext,
    text: &str,
) -> Result<CollectionPath, ApiError> {
    let by_id = || match AccessScope::parse(text) {
        Ok(AccessScope::Collection(path)) => Some(path),
        _ => None,
    };
    let by_name = |collection| default_collection(request, collection);
    let path = CollectionName::new(text).ok().map(by_name).or_else(by_id).ok_or_else(|| {
        let message = "must be the name or the id of a collection";
        invalid("collection", format!("{message} (found {})", quoted(text)))
    })?;
    request.require(Permission::Read, AccessScope::Collection(path.clone()))?;
    Ok(path)
}

/// A collection in a response: its name if it is in the default group, otherwise its id.
pub(super) fn collection_label(app: &App, path: &CollectionPath) -> String {
    match path.group == app.settings.default_group {
        true => path.collection.to_string(),
        false => collection_id(path),
    }
}
