//! Previews of many definitions.

use http::Method;
use kalends_domain::CollectionName;
use kalends_wire::Json;

use crate::api::{Api, Call};
use crate::error::CliError;
use crate::json::{JsonMembers as _, object};
use crate::output::{Output, Progress};

/// Definitions in one request.
const JOBS_MAX: usize = 1_000;
/// Size of one request; the server accepts 4 MiB.
const BYTES_MAX: usize = 3 * 1024 * 1024;
/// Members in one request; the server accepts 100,000.
const MEMBERS_MAX: usize = 80_000;

/// The effect of saving a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preview {
    /// `Create`, `Replace` or `Nothing`.
    pub(crate) effect: String,
    /// Whether saving it starts a run.
    pub(crate) runs_at_once: bool,
    /// The schedule in words.
    pub(crate) description: String,
    /// The next runs, in UTC.
    pub(crate) runs: Vec<String>,
    pub(crate) state: String,
    /// The version of the existing job.
    pub(crate) etag: Option<String>,
}

/// The paths and the messages of the problems of a definition.
pub(super) type Problems = Vec<(String, String)>;

/// Previews of one collection.
pub(super) struct Previews<'p> {
    api: &'p Api,
    output: &'p Output,
    path: String,
}

impl<'p> Previews<'p> {
    pub(super) fn new(
        api: &'p Api,
        output: &'p Output,
        collection: &CollectionName,
    ) -> Previews<'p> {
        let path = format!("{}/jobs/preview", api.collection(collection.as_str()));
        Previews { api, output, path }
    }

    /// The effect of each definition, in the same order.
    pub(super) fn read(
        &self,
        definitions: Vec<(&str, &Json<'static>)>,
    ) -> Result<Vec<Result<Preview, Problems>>, CliError> {
        let progress = Progress::bar(self.output, definitions.len(), "Comparing");
        let mut found = Vec::with_capacity(definitions.len());
        let mut request = Request::default();
        for (name, body) in definitions {
            let job = object([("name", name.to_owned().into()), ("definition", body.clone())]);
            if !request.has_room(&job) {
                found.extend(self.send(std::mem::take(&mut request), &progress)?);
            }
            request.add(job);
        }
        if !request.jobs.is_empty() {
            found.extend(self.send(request, &progress)?);
        }
        Ok(found)
    }

    fn send(
        &self,
        request: Request,
        progress: &Progress,
    ) -> Result<Vec<Result<Preview, Problems>>, CliError> {
        let jobs = request.jobs.len();
        let body = object([("jobs", Json::Array(request.jobs))]);
        let response = self.api.send(&Call::new(Method::POST, self.path.as_str()).body(&body))?;
        let found: Vec<_> = response.body.items("value").iter().map(read_preview).collect();
        if found.len() != jobs {
            return Err(CliError::Failure("the server returned an incomplete preview".to_owned()));
        }
        found.iter().for_each(|_| progress.step());
        Ok(found)
    }
}

/// The effect of each definition; empty for one that the server refuses.
pub(crate) fn preview_effects(
    api: &Api,
    output: &Output,
    collection: &str,
    definitions: Vec<(&str, &Json<'static>)>,
) -> Result<Vec<String>, CliError> {
    if definitions.is_empty() {
        return Ok(vec![]);
    }
    let path = format!("{}/jobs/preview", api.collection(collection));
    let found = Previews { api, output, path }.read(definitions)?;
    Ok(found
        .into_iter()
        .map(|found| found.map_or(String::new(), |preview| preview.effect))
        .collect())
}

/// The definitions of one request.
#[derive(Default)]
struct Request {
    jobs: Vec<Json<'static>>,
    bytes: usize,
    members: usize,
}

impl Request {
    fn has_room(&self, job: &Json<'static>) -> bool {
        self.jobs.is_empty()
            || self.jobs.len() < JOBS_MAX
                && self.bytes + job.compact_bytes() < BYTES_MAX
                && self.members + members(job) < MEMBERS_MAX
    }

    fn add(&mut self, job: Json<'static>) {
        self.bytes += job.compact_bytes() + 1;
        self.members += members(&job);
        self.jobs.push(job);
    }
}

fn members(value: &Json<'static>) -> usize {
    match value {
        Json::Array(entries) => entries.iter().map(members).sum(),
        Json::Object(entries) => {
            entries.len() + entries.iter().map(|(_, value)| members(value)).sum::<usize>()
        }
        _ => 0,
    }
}

fn read_preview(entry: &Json<'static>) -> Result<Preview, Problems> {
    let Some(preview) = entry.at("preview") else {
        let problem = |error: &Json<'static>| {
            (error.text("target").to_owned(), error.text("message").to_owned())
        };
        let details: Vec<_> = entry.items("error.details").iter().map(problem).collect();
        return Err(match (details.is_empty(), entry.at("error")) {
            (true, Some(error)) => vec![problem(error)],
            _ => details,
        });
    };
    let runs = preview.items("occurrences").iter();
    let runs = runs.filter_map(|run| match run {
        Json::String(time) => Some(time.to_string()),
        _ => None,
    });
    Ok(Preview {
        effect: preview.text("effect").to_owned(),
        runs_at_once: preview.at("runsAtOnce") == Some(&Json::Bool(true)),
        description: preview.text("description").to_owned(),
        runs: runs.collect(),
        state: preview.text("state").to_owned(),
        etag: Some(preview.text("etag").to_owned()).filter(|etag| !etag.is_empty()),
    })
}
