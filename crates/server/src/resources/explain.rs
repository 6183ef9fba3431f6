//! `GET …/explain?at=`: why a job did or did not run at an instant, or why it is not running now.

use std::time::Duration;

use axum::http::StatusCode;
use kalends_domain::{CollectionState, ExplainInput, JobPath};
use kalends_store::record::HistoryRecord;
use kalends_store::{HistoryFilter, JobFilterState, Page};
use kalends_wire::{
    ErrorDetail, ExplainContext, write_explanation, write_history_entry, write_occurrence,
};

use super::{Asked, Done, jobs};
use crate::answer::{Answer, Refused};
use crate::resources::occurrences::Known;

/// As much of the history is looked through; by default no more is kept.
const HISTORY_READ_MAX: usize = 1_000;
/// As many rows of one instant are looked at: of manual runs and of edits.
const LEDGER_READ_MAX: usize = 100;
/// As many entries are shown, the newest.
const HISTORY_SHOWN_MAX: usize = 20;
/// Who names a second means what happens in it.
const SECOND: Duration = Duration::from_secs(1);

pub(super) async fn explain(asked: Asked, path: JobPath) -> Done {
    let version = asked.new_version()?;
    let at = asked.query.instant("at")?;
    let (app, now) = (&asked.app, asked.app.now());
    let (job, collection) = jobs::find(app, &path).await?;
    let known = Known::of(app, job, collection, now).await?;
    let (mut ledger, mut history) = (vec![], vec![]);
    if let Some(at) = at {
        let until = at.saturating_add(SECOND);
        ledger = app.store.ledger(known.job.key, at, until, LEDGER_READ_MAX).await?;
        let page = Page::first(HISTORY_READ_MAX);
        let read = app.store.history(path.clone(), HistoryFilter::default(), page).await;
        history =
            read.map_err(Refused::from)?.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?;
    }
    let entries: Vec<_> = history.iter().map(|record| record.entry.clone()).collect();
    let explanation = kalends_domain::explain(ExplainInput {
        rule: &known.rule,
        job: known.snapshot,
        created: known.job.job.created,
        at,
        ledger: &ledger,
        runs: &known.runs,
        history: &entries,
    });
    let occurrence = explanation.occurrence;
    let rows = occurrence.map_or_else(Vec::new, |at| known.shown(&ledger, at));
    let from = rows.iter().map(|row| row.from).min().or(occurrence);
    let is_of_it = |record: &&HistoryRecord| from.is_some_and(|from| record.entry.expected == from);
    let own = history.iter().filter(is_of_it).take(HISTORY_SHOWN_MAX);
    let own = own.map(|one| write_history_entry(&path, &one.entry, one.sequence, version));
    let state = JobFilterState::of(known.job.job.definition.switch, known.snapshot.lifecycle);
    let facts = ExplainContext {
        job_state: state_word(state),
        collection_state: match collection {
            CollectionState::Enabled => "Enabled",
            _ => "Disabled",
        },
        created: known.job.job.created,
        generation: known.job.job.generation,
    };
    let rows = rows.iter().map(write_occurrence).collect();
    Ok(Answer::json(StatusCode::OK, &write_explanation(&explanation, facts, rows, own.collect())))
}

/// The state of a job, in the newest version.
pub(super) fn state_word(state: JobFilterState) -> &'static str {
    match state {
        JobFilterState::Enabled => "Enabled",
        JobFilterState::Disabled => "Disabled",
        JobFilterState::Completed => "Completed",
        JobFilterState::Faulted => "Faulted",
    }
}
