//! Runs that keep later occurrences of their job from running.

use std::collections::HashMap;
use std::time::Duration;

use kalends_domain::{AccessScope, Disposition, RunOutcome};
use kalends_environment::Stopwatch;
use kalends_recurrence::Instant;
use kalends_store::record::JobKey;
use kalends_store::{OpenRunsPage, OpenRunsQuery, RunFilter, StoreError};

use super::PAGE;
use super::attention::{Attention, SKIPPED_READ_MAX};
use super::states::rest_after;
use crate::app::App;

/// Age of an open run from which on its job is examined: no schedule has more than an occurrence per
/// minute.
const AGE_MIN: Duration = Duration::from_secs(120);

/// The jobs whose last occurrences were skipped because of an open run, and the work to find them. Reads
/// all open runs, and the newest occurrences of the jobs of old ones.
pub(super) async fn find(
    app: &App,
    now: Instant,
) -> Result<(HashMap<JobKey, Attention>, Duration), StoreError> {
    let (mut found, mut work, mut before) = (HashMap::new(), Duration::ZERO, None);
    loop {
        let watch = Stopwatch::start();
        let query = OpenRunsQuery { filter: all(), before, scan_max: PAGE, limit: PAGE };
        let OpenRunsPage { runs, end } = app.store.listed_open_runs(query).await?;
        let runs = runs.iter().map(|listed| (listed.run.job, listed.run.scheduled));
        let old: Vec<_> =
            runs.filter(|(_, scheduled)| scheduled.saturating_add(AGE_MIN) <= now).collect();
        if !old.is_empty() {
            let jobs = old.iter().map(|(job, _)| *job).collect();
            let newest = app.store.newest_runs(jobs, SKIPPED_READ_MAX).await?;
            // Older runs come later, and replace newer ones of their job.
            let stuck = old.iter().zip(&newest).filter_map(|((job, scheduled), newest)| {
                Some((
                    *job,
                    Attention::stuck(*job, *scheduled, skipped(&newest.closed, *scheduled))?,
                ))
            });
            found.extend(stuck);
        }
        let page = watch.elapsed();
        work += page;
        match end {
            None => return Ok((found, work)),
            Some(_) => before = end,
        }
        rest_after(app, page).await;
    }
}

fn all() -> RunFilter {
    RunFilter {
        scopes: vec![AccessScope::Everything],
        job: None,
        status: None,
        from: Instant::MIN,
        to: Instant::MAX,
    }
}

/// The newest occurrences in a row that were skipped because of an earlier run, after the scheduled time
/// of that run.
fn skipped(newest: &[RunOutcome], run: Instant) -> u64 {
    let is_skipped = |occurrence: &&RunOutcome| {
        occurrence.disposition == Disposition::SkippedOverlap && occurrence.scheduled > run
    };
    newest.iter().take_while(is_skipped).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_in_a_row_after_the_run_are_counted() {
        let at = |minute: u32| format!("2026-11-16T12:{minute:02}:00Z").parse().unwrap();
        let closed =
            |minute, disposition| RunOutcome { scheduled: at(minute), disposition, duration: None };
        let (skip, failed) = (Disposition::SkippedOverlap, Disposition::Failed);
        let newest = [closed(9, skip), closed(8, skip), closed(7, failed), closed(6, skip)];
        assert_eq!(skipped(&newest, at(5)), 2);
        assert_eq!(skipped(&newest, at(8)), 1);
        assert_eq!(skipped(&[], at(5)), 0);
    }
}
