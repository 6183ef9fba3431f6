//! The present failures of jobs that fail repeatedly: since when, and the last message.

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kalends_domain::{AccessScope, Disposition, RunOutcome, RunStatus};
use kalends_recurrence::Instant;
use kalends_store::record::JobKey;
use kalends_store::{ClosedRunsQuery, RunFilter, StoreError};

use crate::app::App;

/// Closed runs of a job among which the first failure is searched.
const RUNS_READ_MAX: usize = 100;
/// Closed runs among which the newest failure is searched first: of a failing job, most are failures.
const RUNS_READ_FIRST: usize = 4;
/// Reads of the store at the same time.
const READS_MAX: usize = 8;

/// The failures of a job since its last success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LastFailures {
    /// Scheduled time of the first one; `None` if it is not among the newest runs.
    pub(super) since: Option<Instant>,
    /// Message of the last attempt of the newest one; `None` if history does not have it any more.
    pub(super) message: Option<String>,
}

/// Reads the failures of jobs, each given with the number of its failed runs in a row.
pub(super) async fn read(
    app: &App,
    jobs: Vec<(JobKey, u64)>,
) -> Result<HashMap<JobKey, LastFailures>, StoreError> {
    let keys: Vec<_> = jobs.iter().map(|(job, _)| *job).collect();
    let newest = app.store.newest_runs(keys.clone(), RUNS_READ_MAX).await?;
    let since =
        jobs.iter().zip(&newest).map(|((_, count), runs)| first_failure(&runs.closed, *count));
    let messages = stream::iter(keys.clone()).map(|job| last_message(app, job));
    let messages: Vec<_> = messages.buffered(READS_MAX).try_collect().await?;
    let failures = since.zip(messages).map(|(since, message)| LastFailures { since, message });
    Ok(keys.into_iter().zip(failures).collect())
}

/// The scheduled time of the first of the last `count` failures.
fn first_failure(newest: &[RunOutcome], count: u64) -> Option<Instant> {
    let failed = newest.iter().filter(|run| run.disposition == Disposition::Failed);
    failed.map(|run| run.scheduled).nth(usize::try_from(count).ok()?.checked_sub(1)?)
}

async fn last_message(app: &App, job: JobKey) -> Result<Option<String>, StoreError> {
    let filter = RunFilter {
        scopes: vec![AccessScope::Everything],
        job: Some(job),
        status: Some(RunStatus::Failed),
        from: Instant::MIN,
        to: Instant::MAX,
    };
    for scan_max in [RUNS_READ_FIRST, RUNS_READ_MAX] {
        let query = ClosedRunsQuery { filter: filter.clone(), after: None, scan_max, limit: 1 };
        let page = app.store.listed_closed_runs(query).await?;
        let newest = page.runs.into_iter().next();
        if newest.is_some() || page.end.is_none() {
            return Ok(newest.and_then(|run| run.last.main).map(|attempt| attempt.message));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_began_with_the_first_after_the_last_success() {
        let run = |minute: u32, disposition| RunOutcome {
            scheduled: format!("2026-11-16T12:{minute:02}:00Z").parse().unwrap(),
            disposition,
            duration: None,
        };
        let (failed, skipped) = (Disposition::Failed, Disposition::SkippedOverlap);
        let newest = [
            run(9, failed),
            run(8, skipped),
            run(7, failed),
            run(6, failed),
            run(5, Disposition::Completed),
        ];
        let since = |count| first_failure(&newest, count).map(|at| at.to_string());
        assert_eq!(since(3).as_deref(), Some("2026-11-16T12:06:00Z"));
        assert_eq!(since(4), None, "it is older than the runs that were read");
        assert_eq!(since(0), None);
    }
}
