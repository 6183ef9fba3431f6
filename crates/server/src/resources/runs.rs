//! `GET /api/runs`: the runs of all jobs that the caller may read, newest first. Open runs precede the
//! closed ones.

use http::StatusCode;
use kalends_domain::{AccessScope, JobName, JobPath, RunStatus};
use kalends_recurrence::Instant;
use kalends_store::record::{JobKey, RunId};
use kalends_store::{
    ClosedRunsPage, ClosedRunsQuery, ListedClosedRun, ListedOpenRun, OpenRunsPage, OpenRunsQuery,
    RunFilter, RunPosition, SCAN_MAX,
};
use kalends_wire::{
    JobOfRun, Json, OpenRunDescription, quoted, write_closed_run, write_list, write_open_run,
};

use super::all_jobs::{collection_label, read_collection};
use super::occurrences::open_run;
use super::{HandlerResult, RequestContext, jobs};
use crate::app::App;
use crate::paging::CursorRequest;
use crate::request::invalid;
use crate::response::{ApiError, ApiResponse};

/// Rows that one read of the store examines.
const READ_MAX: usize = 500;

const STATUSES: [(&str, RunStatus); 5] = [
    ("Running", RunStatus::Running),
    ("Succeeded", RunStatus::Succeeded),
    ("Failed", RunStatus::Failed),
    ("Skipped", RunStatus::Skipped),
    ("Missed", RunStatus::Missed),
];

/// Parameters that a cursor is valid for.
const PARAMETERS: [&str; 5] = ["status", "from", "to", "collection", "job"];

/// A position in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// After the open runs up to this one; `None` at the start.
    Open(Option<RunId>),
    /// After the closed runs up to this position; `None` before the first.
    Closed(Option<RunPosition>),
}

impl Position {
    fn parse(text: &str) -> Option<Position> {
        let (kind, rest) = text.split_at_checked(1)?;
        let numbers = rest.split_ascii_whitespace().map(str::parse);
        let numbers = numbers.collect::<Result<Vec<i64>, _>>().ok()?;
        match (kind, numbers.as_slice()) {
            ("o", [run]) => Some(Position::Open(Some(RunId(*run)))),
            ("c", []) => Some(Position::Closed(None)),
            ("c", [number, closed, from, to]) => Some(Position::Closed(Some(RunPosition {
                number: number.cast_unsigned(),
                closed: Instant::from_ticks(*closed)?,
                from: Instant::from_ticks(*from)?,
                to: Instant::from_ticks(*to)?,
            }))),
            _ => None,
        }
    }

    fn write(self) -> String {
        match self {
            Position::Open(run) => run.map_or(String::new(), |RunId(run)| format!("o{run}")),
            Position::Closed(None) => "c".to_owned(),
            Position::Closed(Some(RunPosition { number, closed, from, to })) => {
                format!("c{number} {} {} {}", closed.ticks(), from.ticks(), to.ticks())
            }
        }
    }
}

pub(super) async fn list(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let query = &request.query;
    let parameters: Vec<_> = PARAMETERS
        .into_iter()
        .filter_map(|name| Some((name, query.text(name).ok()??.to_owned())))
        .collect();
    let page = CursorRequest::read(&request, &parameters)?;
    let position = match page.position.as_deref() {
        None => Position::Open(None),
        Some(text) => {
            let message = "must come from a nextLink; request the first page again";
            Position::parse(text).ok_or_else(|| invalid("cursor", message))?
        }
    };
    let Some(selection) = Selection::read(&request).await? else {
        return Ok(ApiResponse::json(StatusCode::OK, &write_list(vec![], None)));
    };
    let (values, next) = selection.read_page(&request.app, position, page.size).await?;
    let next = next.map(|position| page.link_after(&position.write()));
    Ok(ApiResponse::json(StatusCode::OK, &write_list(values, next.as_deref())))
}

/// The runs that a request selects.
struct Selection {
    filter: RunFilter,
    has_open_runs: bool,
    has_closed_runs: bool,
}

impl Selection {
    /// `None` if the request names a job that does not exist.
    async fn read(request: &RequestContext) -> Result<Option<Selection>, ApiError> {
        let (query, caller) = (&request.query, &request.caller);
        let status = query.word("status", &STATUSES)?;
        let from = query.time("from")?.unwrap_or(Instant::MIN);
        let to = query.time("to")?.unwrap_or(Instant::MAX);
        let collection = query.text("collection")?;
        let collection = collection.map(|text| read_collection(request, text)).transpose()?;
        let (scopes, job) = match (collection, query.text("job")?) {
            (None, Some(_)) => {
                let message = "requires the parameter collection; job names are unique within one";
                return Err(invalid("job", message).into());
            }
            (None, None) => (caller.readable_scopes(), None),
            (Some(path), None) => (vec![AccessScope::Collection(path)], None),
            (Some(collection), Some(name)) => {
                let job = JobName::new(name)
                    .map_err(|error| invalid("job", format!("{error} (found {})", quoted(name))))?;
                let path = JobPath { collection, job };
                let Some(job) = find(&request.app, &path).await? else { return Ok(None) };
                (vec![AccessScope::Collection(path.collection)], Some(job))
            }
        };
        let is_past = to <= request.app.now();
        Ok(Some(Selection {
            has_open_runs: status.is_none_or(|status| status == RunStatus::Running) && !is_past,
            has_closed_runs: status != Some(RunStatus::Running),
            filter: RunFilter { scopes, job, status, from, to },
        }))
    }

    /// Reads a page from a position; returns the position after it if there may be more.
    async fn read_page(
        &self,
        app: &App,
        position: Position,
        size: usize,
    ) -> Result<(Vec<Json<'static>>, Option<Position>), ApiError> {
        let mut values = Vec::new();
        let (mut position, mut examined) = (position, 0);
        loop {
            let (limit, filter) = (size.saturating_sub(values.len()), self.filter.clone());
            if limit == 0 || examined >= SCAN_MAX {
                return Ok((values, Some(position)));
            }
            position = match position {
                Position::Open(_) if !self.has_open_runs => Position::Closed(None),
                Position::Open(before) => {
                    let query = OpenRunsQuery { filter, before, scan_max: READ_MAX, limit };
                    let OpenRunsPage { runs, end } = app.store.listed_open_runs(query).await?;
                    values.extend(runs.iter().map(|run| write_open(app, run)));
                    examined += READ_MAX;
                    end.map_or(Position::Closed(None), |end| Position::Open(Some(end)))
                }
                Position::Closed(_) if !self.has_closed_runs => return Ok((values, None)),
                Position::Closed(after) => {
                    let query = ClosedRunsQuery { filter, after, scan_max: READ_MAX, limit };
                    let ClosedRunsPage { runs, end } = app.store.listed_closed_runs(query).await?;
                    values.extend(runs.into_iter().map(|run| write_closed(app, run)));
                    examined += READ_MAX;
                    match end {
                        Some(end) => Position::Closed(Some(end)),
                        None => return Ok((values, None)),
                    }
                }
            };
        }
    }
}

/// The key of a job; `None` if it does not exist.
async fn find(app: &App, path: &JobPath) -> Result<Option<JobKey>, ApiError> {
    match jobs::find(app, path).await {
        Ok((job, _)) => Ok(Some(job.key)),
        Err(error) if error.code().status() == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_closed(app: &App, listed: ListedClosedRun) -> Json<'static> {
    let ListedClosedRun { path, run, last, .. } = listed;
    let collection = collection_label(app, &path.collection);
    write_closed_run(JobOfRun { path: &path, collection: &collection }, &run, last)
}

pub(super) fn write_open(app: &App, listed: &ListedOpenRun) -> Json<'static> {
    let ListedOpenRun { path, run, attempts } = listed;
    let (own_attempts, error_attempts) = listed.attempts_by_role();
    let collection = collection_label(app, &path.collection);
    let described = OpenRunDescription {
        state: open_run(run),
        // The first attempt is in flight, and starts when it is due.
        started: attempts.first_started.or(run.claim.map(|_| run.progress.next_at)),
        attempts: own_attempts,
        error_attempts,
    };
    write_open_run(JobOfRun { path, collection: &collection }, &described)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written() {
        let at = |ticks| Instant::from_ticks(ticks).unwrap();
        let closed = RunPosition { number: 7, closed: at(-1), from: at(5), to: at(6) };
        for position in
            [Position::Open(Some(RunId(9))), Position::Closed(None), Position::Closed(Some(closed))]
        {
            assert_eq!(Position::parse(&position.write()), Some(position));
        }
        for text in ["", "x", "o", "o1 2", "c1", "c1 2 3", "c1 2 3 x"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }
}
