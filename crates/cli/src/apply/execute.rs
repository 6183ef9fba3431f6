//! Executing a plan.

use http::Method;
use kalends_wire::Json;

use super::plan::{Change, ChangeKind, Plan};
use crate::api::{Api, Call};
use crate::error::CliError;
use crate::json::{JsonMembers as _, object};
use crate::output::{Output, Progress};

/// Jobs that one request deletes.
const DELETIONS_MAX: usize = 1_000;

/// Applies all changes of a plan. Reports each failure and continues; the jobs of a plan do not depend
/// on each other.
pub(crate) fn execute(api: &Api, output: &Output, plan: &Plan) -> Result<(), CliError> {
    let progress = Progress::bar(output, plan.changes.len(), "Applying");
    let (deletions, saves): (Vec<_>, Vec<_>) =
        plan.changes.iter().partition(|change| change.kind == ChangeKind::Delete);
    let mut failures = Failures::default();
    api.send_each(
        &saves,
        |change| save(api, change),
        |change, result| {
            if let Err(error) = result {
                let message = format!("{}: {error}", change.job);
                progress.suspend(|| crate::report(&message, error.hint().as_deref()));
                failures.add(&error);
            }
            progress.step();
        },
    )?;
    for chunk in deletions.chunks(DELETIONS_MAX) {
        for (collection, changes) in by_collection(chunk) {
            delete(api, collection, &changes, &mut failures)?;
            changes.iter().for_each(|_| progress.step());
        }
    }
    failures.into_result(plan.changes.len())
}

/// The request that saves a job, if it still is as the plan found it.
fn save(api: &Api, change: &Change) -> Call {
    let call = Call::new(Method::PUT, api.job(&change.job)).body(&change.body);
    match change.kind {
        ChangeKind::Create => call.if_absent(),
        _ => call.if_match(change.etag.as_deref()),
    }
}

#[derive(Default)]
struct Failures {
    number: usize,
    first: Option<crate::exit_status::ExitStatus>,
}

impl Failures {
    fn add(&mut self, error: &CliError) {
        self.number += 1;
        self.first.get_or_insert(error.exit_status());
    }

    fn into_result(self, total: usize) -> Result<(), CliError> {
        match self.first {
            None => Ok(()),
            Some(status) => Err(CliError::Several { failed: self.number, total, status }),
        }
    }
}

fn by_collection<'c>(changes: &[&'c Change]) -> Vec<(&'c str, Vec<&'c Change>)> {
    let mut groups: Vec<(&str, Vec<&Change>)> = Vec::new();
    for change in changes {
        match groups.last_mut() {
            Some((collection, group)) if *collection == change.job.collection => group.push(change),
            _ => groups.push((&change.job.collection, vec![change])),
        }
    }
    groups
}

fn delete(
    api: &Api,
    collection: &str,
    changes: &[&Change],
    failures: &mut Failures,
) -> Result<(), CliError> {
    let names = changes.iter().map(|change| change.job.job.clone().into()).collect();
    let body = object([("action", "Delete".into()), ("names", Json::Array(names))]);
    let path = format!("{}/jobs/bulk", api.collection(collection));
    let response = api.send(&Call::new(Method::POST, path).body(&body))?;
    for result in response.body.items("value") {
        if result.at("error").is_some() {
            let error = CliError::Failure(result.text("error.message").to_owned());
            crate::report(&format!("{}: {error}", result.text("name")), None);
            failures.add(&error);
        }
    }
    Ok(())
}
