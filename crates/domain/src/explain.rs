//! Why a job did or did not run at an instant, or why it is not running now: a reason for programs
//! and a sentence for people.

use std::time::Duration;

use kalends_recurrence::{Instant, Rule};

use crate::job::Switch;
use crate::ledger::{Disposition, LedgerRecord};
use crate::run::{AttemptStatus, HistoryEntry, Lifecycle};
use crate::timeline::{JobSnapshot, OccurrenceState, RunInFlight};

/// DST transitions within this distance are reported. No transition moves an occurrence further.
const DST_NOTE_RANGE: Duration = Duration::from_secs(3 * 3_600);

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct ExplainInput<'a> {
    /// The job's rule, without its count.
    pub rule: &'a Rule,
    /// How the job goes on.
    pub job: JobSnapshot,
    /// When it was created.
    pub created: Instant,
    /// The instant; absent means now, and what comes next.
    pub at: Option<Instant>,
    /// What the ledger has around it.
    pub ledger: &'a [LedgerRecord],
    /// The runs under way.
    pub runs: &'a [RunInFlight],
    /// The job's history, the newest first.
    pub history: &'a [HistoryEntry],
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Why, for programs.
    pub reason: ExplainReason,
    /// Why, for people.
    pub sentence: String,
    /// The occurrence it is about, where it is about one.
    pub occurrence: Option<Instant>,
    /// The last occurrence of the schedule before the instant.
    pub before: Option<Instant>,
    /// The first one after it.
    pub after: Option<Instant>,
    /// What changes of the clocks do nearby.
    pub notes: Vec<String>,
}

/// Why a job did or did not run, or will or will not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ExplainReason {
    Completed,
    Failed,
    SkippedOverlap,
    SkippedDisabled,
    SkippedQuota,
    Missed,
    Superseded,
    Running,
    Retrying,
    Waiting,
    Due,
    Upcoming,
    NotAnOccurrence,
    BeforeCreation,
    AfterEnd,
    CountUsedUp,
    JobDisabled,
    CollectionDisabled,
    Finished,
    NotRetained,
}

/// Why a job did or did not run.
pub fn explain(question: ExplainInput<'_>) -> Explanation {
    let near = question.at.unwrap_or(question.job.now);
    let (reason, occurrence, sentence) = match question.at {
        Some(at) => at_instant(&question, at),
        None => at_present(&question),
    };
    let from = near.saturating_sub(DST_NOTE_RANGE);
    let dst_notes = question.rule.dst_notes(from, near.saturating_add(DST_NOTE_RANGE));
    let rule = question.rule;
    Explanation {
        reason,
        sentence,
        occurrence,
        before: rule.last_at_or_before(occurrence.unwrap_or(near).previous_tick()),
        after: rule.next_after(occurrence.unwrap_or(near)).filter(|_| question.goes_on()),
        notes: dst_notes.into_iter().map(|note| note.text).collect(),
    }
}

type Why = (ExplainReason, Option<Instant>, String);

fn at_present(question: &ExplainInput<'_>) -> Why {
    let JobSnapshot { now, lifecycle, .. } = question.job;
    if let Some(run) = question.runs.iter().max_by_key(|run| run.scheduled) {
        return of_run(run, now);
    }
    if lifecycle != Lifecycle::Active {
        return (ExplainReason::Finished, None, finished(question));
    }
    let next = question.job.first_coming(question.rule);
    match (question.job.state_of_upcoming(), next) {
        (OccurrenceState::JobDisabled, next) => {
            let would = next.map_or_else(String::new, |next| {
                format!(" If it were enabled, it would run next at {next}.")
            });
            (ExplainReason::JobDisabled, next, format!("The job is disabled.{would}"))
        }
        (OccurrenceState::CollectionDisabled, next) => {
            (ExplainReason::CollectionDisabled, next, "The job's collection is disabled.".into())
        }
        (_, Some(next)) if next <= now => (ExplainReason::Due, Some(next), due(next)),
        (_, Some(next)) => {
            let sentence = format!("No occurrence is due now; the next is that of {next}.");
            (ExplainReason::Upcoming, Some(next), sentence)
        }
        (_, None) => (ExplainReason::Finished, None, finished(question)),
    }
}

fn at_instant(question: &ExplainInput<'_>, at: Instant) -> Why {
    let same = |other: Instant| matches(at, other);
    if let Some(run) = question.runs.iter().rev().find(|run| same(run.scheduled)) {
        return of_run(run, question.job.now);
    }
    let occurrence = question.occurrence_at(at);
    let covers = |row: &&LedgerRecord| {
        let within = occurrence.is_some_and(|at| row.from <= at && at <= row.to);
        within || same(row.from) || same(row.to)
    };
    // Of several generations the newest tells most.
    if let Some(row) = question.ledger.iter().filter(covers).max_by_key(|row| row.generation) {
        return of_row(question, row, occurrence.filter(|_| row.count > 1).unwrap_or(row.from));
    }
    match occurrence {
        Some(occurrence) => of_occurrence(question, occurrence),
        None => of_no_occurrence(question, at),
    }
}

fn of_run(run: &RunInFlight, now: Instant) -> Why {
    let RunInFlight { scheduled, retry, attempt_at, .. } = *run;
    let occurrence = format!("The occurrence of {scheduled}");
    let number = retry + 1;
    let (reason, sentence) = match (run.is_claimed, retry) {
        (true, _) => (
            ExplainReason::Running,
            format!(
                "{occurrence} is running: attempt {number}, begun at {attempt_at} or a little later."
            ),
        ),
        (false, 0) if attempt_at <= now => {
            (ExplainReason::Waiting, format!("{occurrence} waits for its turn since {attempt_at}."))
        }
        (false, 0) => (ExplainReason::Waiting, format!("{occurrence} begins at {attempt_at}.")),
        (false, _) => (
            ExplainReason::Retrying,
            format!(
                "{occurrence} is being retried: {retry} of its attempts failed, attempt {number} is made at {attempt_at}."
            ),
        ),
    };
    (reason, Some(scheduled), sentence)
}

fn of_row(question: &ExplainInput<'_>, row: &LedgerRecord, at: Instant) -> Why {
    let entries = || question.history.iter().filter(|entry| entry.expected == row.from);
    let attempts = entries().filter(|entry| entry.status != AttemptStatus::Postponed).count();
    let after = match attempts {
        0 => String::new(),
        1 => " after one attempt".into(),
        more => format!(" after {more} attempts"),
    };
    let closed = row.closed;
    let stretch = match row.count {
        1 => String::new(),
        count => format!(" It is one of {count} from {} to {}.", row.from, row.to),
    };
    let failed = entries().find(|entry| entry.status == AttemptStatus::Failed);
    let said =
        failed.map_or_else(String::new, |entry| format!(" The last said: {}", entry.message));
    let (reason, what) = match row.disposition {
        Disposition::Completed => {
            (ExplainReason::Completed, format!("ran and was completed at {closed}{after}."))
        }
        Disposition::Failed => (
            ExplainReason::Failed,
            format!("failed at {closed}{after}; all tries are used up.{said}"),
        ),
        Disposition::SkippedOverlap => (
            ExplainReason::SkippedOverlap,
            "did not run because the one before was still running or retrying.".into(),
        ),
        Disposition::SkippedDisabled => (
            ExplainReason::SkippedDisabled,
            "did not run because the job or its collection was disabled.".into(),
        ),
        Disposition::SkippedQuota => {
            (ExplainReason::SkippedQuota, "did not run because a quota held it.".into())
        }
        Disposition::Missed => (
            ExplainReason::Missed,
            format!(
                "was missed: nothing could run at its time, as was found at {closed}, and it does not run later."
            ),
        ),
        Disposition::Superseded => (
            ExplainReason::Superseded,
            format!("was given up at {closed}{after}, because the job was edited meanwhile."),
        ),
    };
    (reason, Some(at), format!("The occurrence of {at} {what}{stretch}"))
}

/// An instant of the schedule of which nothing is recorded.
fn of_occurrence(question: &ExplainInput<'_>, at: Instant) -> Why {
    let JobSnapshot { now, lifecycle, left, .. } = question.job;
    if question.job.is_coming(question.rule, at) {
        let (reason, sentence) = match question.job.state_of_upcoming() {
            OccurrenceState::JobDisabled => (
                ExplainReason::JobDisabled,
                format!("The job is disabled; if it were enabled, it would run at {at}."),
            ),
            OccurrenceState::CollectionDisabled => (
                ExplainReason::CollectionDisabled,
                format!(
                    "The job's collection is disabled; if it were enabled, the job would run at {at}."
                ),
            ),
            _ if at <= now => (ExplainReason::Due, due(at)),
            _ => (ExplainReason::Upcoming, format!("The occurrence of {at} is still to come.")),
        };
        return (reason, Some(at), sentence);
    }
    if question.job.held(question.rule, at, at).is_some() {
        let (reason, what) = match question.job.switch {
            Switch::Disabled => (ExplainReason::JobDisabled, "the job"),
            Switch::Enabled => (ExplainReason::CollectionDisabled, "the job's collection"),
        };
        let sentence = format!("The occurrence of {at} did not run: {what} is disabled.");
        return (reason, Some(at), sentence);
    }
    if lifecycle != Lifecycle::Active && question.job.finished.is_some_and(|over| at > over) {
        return (ExplainReason::Finished, Some(at), finished(question));
    }
    if at > now && left.is_some() {
        let sentence = format!("At {at} the count of the schedule is used up.");
        return (ExplainReason::CountUsedUp, Some(at), sentence);
    }
    let sentence = format!(
        "Nothing is kept of {at}: the job was defined otherwise then, or the record has been removed in time."
    );
    (ExplainReason::NotRetained, Some(at), sentence)
}

fn of_no_occurrence(question: &ExplainInput<'_>, at: Instant) -> Why {
    if at < question.created {
        let sentence = format!("The job was created later, at {}.", question.created);
        return (ExplainReason::BeforeCreation, None, sentence);
    }
    let recurrence = question.rule.definition().recurrence.as_ref();
    if let Some(end) = recurrence.and_then(|recurrence| recurrence.end).filter(|&end| end < at) {
        return (ExplainReason::AfterEnd, None, format!("The schedule ended at {end}."));
    }
    if question.job.finished.is_some_and(|over| over < at) {
        return (ExplainReason::Finished, None, finished(question));
    }
    let nearest = match (question.rule.last_at_or_before(at), question.rule.next_after(at)) {
        (Some(last), Some(next)) => format!(": the one before is {last}, the one after {next}"),
        (Some(last), None) => format!(": the last is {last}"),
        (None, Some(next)) => format!(": the first is {next}"),
        (None, None) => String::new(),
    };
    let sentence = format!("{at} is no occurrence of the schedule{nearest}.");
    (ExplainReason::NotAnOccurrence, None, sentence)
}

impl ExplainInput<'_> {
    /// The occurrence that is meant: a whole second stands for what happens in it.
    fn occurrence_at(&self, at: Instant) -> Option<Instant> {
        let found = self.rule.next_after(at.previous_tick()).filter(|&next| matches(at, next));
        found.or(self.job.due.filter(|&due| matches(at, due)))
    }

    fn goes_on(&self) -> bool {
        self.job.lifecycle == Lifecycle::Active
    }
}

/// Whether a request for `at` refers to `other`: a whole second matches every time within it.
fn matches(at: Instant, other: Instant) -> bool {
    at == other || at == other.whole_second()
}

fn due(at: Instant) -> String {
    format!("The occurrence of {at} is due and is about to run.")
}

fn finished(question: &ExplainInput<'_>) -> String {
    let JobSnapshot { lifecycle, finished, .. } = question.job;
    let at = finished.map_or_else(String::new, |at| format!(" since {at}"));
    match lifecycle {
        Lifecycle::Faulted => format!(
            "The job is faulted{at}: all tries of its last run failed. It does not run again."
        ),
        Lifecycle::Completed => format!("The job is completed{at} and does not run again."),
        Lifecycle::Active => "The schedule of the job has no more occurrences.".into(),
    }
}

#[cfg(test)]
mod tests;
