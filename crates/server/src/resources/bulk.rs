//! `POST …/jobs/bulk`: many jobs at once, each for itself.
//!
//! `{"action": "Enable" | "Disable" | "Delete" | "Run", "names": […]}`, or `"filter"` in the place of the
//! names. Every job is edited in a transaction of its own, and the answer tells of each.

use std::sync::Arc;

use axum::http::StatusCode;
use kalends_domain::{AccessScope, CollectionPath, JobName, JobPath, Permission, Switch};
use kalends_store::Page;
use kalends_wire::{ErrorCode, ErrorDetails, Json, job_id};

use super::search::{Until, search};
use super::{Asked, Done, jobs};
use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::audit::{Entry, Wait};
use crate::edit::Condition;
use crate::filter;
use crate::request::read_json;

/// Jobs of one request; no plan has more in a collection.
const JOBS_MAX: usize = 1_000;
/// Jobs that are edited at the same time; the store gathers them into few transactions.
const AT_ONCE: usize = 32;

#[derive(Clone, Copy)]
enum Action {
    Switch(Switch),
    Delete,
    Run,
}

pub(super) async fn edit(mut asked: Asked, path: CollectionPath) -> Done {
    asked.new_version()?;
    let body = read_json(&mut asked).await?;
    let (action, names) = read(&body)?;
    if matches!(action, Action::Delete) {
        asked.require(Permission::Write, AccessScope::Collection(path.clone()))?;
    }
    let app = &asked.app;
    let (names, more) = match names {
        Names::Given(names) => (names, false),
        Names::Filter(text) => matching(app, &path, &text).await?,
    };
    let mut values = Vec::with_capacity(names.len());
    for some in names.chunks(AT_ONCE) {
        let under_way: Vec<_> = some
            .iter()
            .map(|name| JobPath { collection: path.clone(), job: name.clone() })
            .map(|job| (job.clone(), tokio::spawn(edit_one(Arc::clone(app), job, action))))
            .collect();
        for (job, task) in under_way {
            let done = task.await.map_err(|error| Refused::internal(error.to_string()))?;
            // Each job is an edit of its own. They are written before the line of the request, for
            // which the answer waits.
            let entry = audited(&asked.entry, &job, action, &done);
            app.gate.audit.write(&entry, Wait::UntilQueued).await;
            values.push(result(&job, done));
        }
    }
    let members = vec![("value".into(), Json::Array(values)), ("more".into(), Json::Bool(more))];
    Ok(Answer::json(StatusCode::OK, &Json::Object(members)))
}

async fn edit_one(app: Arc<App>, job: JobPath, action: Action) -> Result<bool, Refused> {
    match action {
        Action::Switch(switch) => jobs::switch(&app, job, switch).await,
        Action::Delete => jobs::delete(&app, job, Condition::default()).await.map(|()| true),
        Action::Run => jobs::run_one(&app, job).await.map(|()| true),
    }
}

fn audited(request: &Entry, job: &JobPath, action: Action, done: &Result<bool, Refused>) -> Entry {
    let operation = match action {
        Action::Switch(Switch::Enabled) => "Microsoft.Scheduler/jobCollections/jobs/enable/action",
        Action::Switch(Switch::Disabled) => {
            "Microsoft.Scheduler/jobCollections/jobs/disable/action"
        }
        Action::Delete => "Microsoft.Scheduler/jobCollections/jobs/delete",
        Action::Run => "Microsoft.Scheduler/jobCollections/jobs/run/action",
    };
    let status = done.as_ref().map_or_else(|refused| refused.errors.code().status(), |_| 200);
    Entry { operation: Some(operation), path: job_id(job).into(), status, ..request.clone() }
}

fn result(job: &JobPath, done: Result<bool, Refused>) -> Json<'static> {
    let mut members = vec![
        ("id".into(), job_id(job).into()),
        ("name".into(), format!("{}/{}", job.collection.collection, job.job).into()),
    ];
    let word = match &done {
        Ok(true) => "Done",
        Ok(false) => "Unchanged",
        Err(_) => "Refused",
    };
    members.push(("result".into(), word.into()));
    if let Err(refused) = done {
        let error = vec![
            ("code".into(), refused.errors.code().as_str().into()),
            ("message".into(), refused.errors.to_string().into()),
        ];
        members.push(("error".into(), Json::Object(error)));
    }
    Json::Object(members)
}

/// The jobs that pass a filter, and whether there are more than can be edited at once.
async fn matching(
    app: &App,
    path: &CollectionPath,
    text: &str,
) -> Result<(Vec<JobName>, bool), Refused> {
    let filter = filter::jobs(text)?;
    let page = Page::first(JOBS_MAX + 1);
    let jobs = search(app, path, &filter, page, Until::Full).await?.jobs;
    let more = jobs.len() > JOBS_MAX;
    Ok((jobs.into_iter().take(JOBS_MAX).map(|job| job.path.job).collect(), more))
}

enum Names {
    Given(Vec<JobName>),
    Filter(String),
}

fn read(body: &Json<'_>) -> Result<(Action, Names), ErrorDetails> {
    let wrong = |member: &str, message: &str| {
        Err(ErrorDetails::one(ErrorCode::InvalidRequestContent, member, message))
    };
    let Json::Object(members) = body else { return wrong("", "expected an object") };
    let member = |name: &str| {
        let found = members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value).filter(|value| **value != Json::Null)
    };
    let actions = [
        ("Enable", Action::Switch(Switch::Enabled)),
        ("Disable", Action::Switch(Switch::Disabled)),
        ("Delete", Action::Delete),
        ("Run", Action::Run),
    ];
    let action = match member("action") {
        Some(Json::String(text)) => {
            actions.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(text))
        }
        _ => None,
    };
    let Some((_, action)) = action else {
        return wrong("action", "allowed are Enable, Disable, Delete and Run");
    };
    match (member("names"), member("filter")) {
        (Some(Json::Array(names)), None) if names.len() <= JOBS_MAX => {
            let name = |(index, name): (usize, &Json<'_>)| {
                let text = match name {
                    Json::String(text) => text,
                    _ => "",
                };
                let path = format!("names[{index}]");
                JobName::new(text)
                    .map_err(|error| ErrorDetails::one(error.into(), path, error.to_string()))
            };
            let names = names.iter().enumerate().map(name).collect::<Result<_, _>>()?;
            Ok((action, Names::Given(names)))
        }
        (Some(_), None) => wrong("names", "expected a list of at most 1000 names"),
        (None, Some(Json::String(text))) => Ok((action, Names::Filter(text.to_string()))),
        (None, Some(_)) => wrong("filter", "expected a string"),
        _ => wrong("", "expected names or filter, and not both"),
    }
}
