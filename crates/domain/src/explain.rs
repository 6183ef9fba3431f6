//! Explains why a job did or did not run at a given time, or why it is not running now: a
//! machine-readable reason and an English sentence.

use std::time::Duration;

use kalends_recurrence::{Instant, Rule};

use crate::job::Switch;
use crate::ledger::{Cause, Disposition, LedgerRecord};
use crate::pause::PauseRecord;
use crate::run::{ActionRole, AttemptStatus, HistoryEntry, Lifecycle};
use crate::timeline::{
    COLLECTION_ATTEMPTS_MAX, HOST_ATTEMPTS_MAX, JobSnapshot, OccurrenceState, RunInFlight,
    SlotLimit,
};

/// DST transitions within this distance are reported. No transition moves an occurrence further.
const DST_NOTE_RANGE: Duration = Duration::from_secs(3 * 3_600);
/// An explanation of the current state reports the DST transitions of the coming year.
const DST_NOTES_AHEAD: Duration = Duration::from_secs(366 * 86_400);

/// Input of [`explain`].
#[derive(Clone, Copy, Debug)]
pub struct ExplainInput<'a> {
    /// The job's rule, without its count.
    pub rule: &'a Rule,
    /// State of the job.
    pub job: JobSnapshot,
    /// Creation time of the job.
    pub created: Instant,
    /// The time to explain; absent means the current state and the next occurrence.
    pub at: Option<Instant>,
    /// Ledger records around `at`.
    pub ledger: &'a [LedgerRecord],
    /// Runs of the job that have not finished.
    pub runs: &'a [RunInFlight],
    /// History of the job, newest first.
    pub history: &'a [HistoryEntry],
    /// Why due jobs do not start at present, such as a full disk; `None` if they do.
    pub obstacle: Option<&'a str>,
    /// The pause of all jobs, if it has not ended.
    pub pause: Option<&'a PauseRecord>,
}

/// Output of [`explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Machine-readable reason.
    pub reason: ExplainReason,
    /// The reason as an English sentence.
    pub sentence: String,
    /// Scheduled time of the occurrence that the explanation refers to, if any.
    pub occurrence: Option<Instant>,
    /// Scheduled time of the run because of which the occurrence was skipped, if it is known.
    pub blocked_by: Option<Instant>,
    /// The last occurrence of the schedule before that time.
    pub before: Option<Instant>,
    /// The first occurrence after that time; absent if the job is finished.
    pub after: Option<Instant>,
    /// Effects of DST transitions: within three hours of `at`, or in the coming year.
    pub notes: Vec<String>,
}

/// The reason why a job did or did not run, or will or will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum ExplainReason {
    Completed,
    Failed,
    SkippedOverlap,
    SkippedDisabled,
    SkippedQuota,
    SkippedPaused,
    SkippedByRequest,
    Missed,
    Superseded,
    Running,
    Retrying,
    Waiting,
    Due,
    Blocked,
    Upcoming,
    NotAnOccurrence,
    BeforeCreation,
    AfterEnd,
    CountUsedUp,
    JobDisabled,
    CollectionDisabled,
    Paused,
    WillBeSkipped,
    Finished,
    NotRetained,
}

/// Explains why a job did or did not run.
pub fn explain(input: ExplainInput<'_>) -> Explanation {
    let near = input.at.unwrap_or(input.job.now);
    let (reason, occurrence, sentence) = match input.at {
        Some(at) => explain_time(&input, at),
        None => explain_now(&input),
    };
    let (behind, ahead) = match input.at {
        Some(_) => (DST_NOTE_RANGE, DST_NOTE_RANGE),
        None => (Duration::ZERO, DST_NOTES_AHEAD),
    };
    let is_skipped = reason == ExplainReason::SkippedOverlap;
    let dst_notes = input.rule.dst_notes(near.saturating_sub(behind), near.saturating_add(ahead));
    let rule = input.rule;
    Explanation {
        reason,
        sentence,
        occurrence,
        blocked_by: occurrence.filter(|_| is_skipped).and_then(|at| input.run_during(at)),
        before: rule.last_at_or_before(occurrence.unwrap_or(near).previous_tick()),
        after: rule.next_after(occurrence.unwrap_or(near)).filter(|_| input.is_active()),
        notes: dst_notes.into_iter().map(|note| note.text).collect(),
    }
}

type Finding = (ExplainReason, Option<Instant>, String);

fn explain_now(input: &ExplainInput<'_>) -> Finding {
    let JobSnapshot { now, lifecycle, .. } = input.job;
    if let Some(run) = input.runs.iter().max_by_key(|run| run.scheduled) {
        return explain_run(input, run);
    }
    if lifecycle != Lifecycle::Active {
        return (ExplainReason::Finished, None, finished(input));
    }
    let next = input.job.first_upcoming(input.rule);
    match (input.job.state_of_upcoming(now), next) {
        (OccurrenceState::JobDisabled, next) => {
            let would = next.map_or_else(String::new, |next| {
                format!(" If it were enabled, it would run next at {next}.")
            });
            let would = match input.pause.filter(|record| record.pause.is_active(now)) {
                None => would,
                Some(_) => format!(" {}", paused(input)),
            };
            (ExplainReason::JobDisabled, next, format!("The job is disabled.{would}"))
        }
        (OccurrenceState::CollectionDisabled, next) => {
            (ExplainReason::CollectionDisabled, next, "The job's collection is disabled.".into())
        }
        (OccurrenceState::Paused, next) => (ExplainReason::Paused, next, paused(input)),
        (_, Some(next)) if input.job.state_of_upcoming(next) == OccurrenceState::WillBeSkipped => {
            (ExplainReason::WillBeSkipped, Some(next), will_be_skipped(input, next))
        }
        (_, Some(next)) if next <= now => {
            let (reason, sentence) = due(input, next);
            (reason, Some(next), sentence)
        }
        (_, Some(next)) => {
            let sentence = format!("No occurrence is due now. The next run is at {next}.");
            (ExplainReason::Upcoming, Some(next), sentence)
        }
        (_, None) => (ExplainReason::Finished, None, finished(input)),
    }
}

fn explain_time(input: &ExplainInput<'_>, at: Instant) -> Finding {
    let same = |other: Instant| matches(at, other);
    if let Some(run) = input.runs.iter().rev().find(|run| same(run.scheduled)) {
        return explain_run(input, run);
    }
    let occurrence = input.occurrence_at(at);
    let covers = |row: &&LedgerRecord| {
        let within = occurrence.is_some_and(|at| row.from <= at && at <= row.to);
        within || same(row.from) || same(row.to)
    };
    // The record of the newest generation is the current one.
    if let Some(row) = input.ledger.iter().filter(covers).max_by_key(|row| row.generation) {
        return explain_record(
            input,
            row,
            occurrence.filter(|_| row.count > 1).unwrap_or(row.from),
        );
    }
    match occurrence {
        Some(occurrence) => explain_occurrence(input, occurrence),
        None => explain_no_occurrence(input, at),
    }
}

fn explain_run(input: &ExplainInput<'_>, run: &RunInFlight) -> Finding {
    let (RunInFlight { scheduled, retry, attempt_at, .. }, now) = (*run, input.job.now);
    let occurrence = match run.role {
        ActionRole::Main => format!("The occurrence of {scheduled}"),
        ActionRole::Error => {
            format!("{} The error action", failure_of_main_action(input, scheduled))
        }
    };
    let number = retry + 1;
    if input.job.holds(run) {
        return explain_held_run(input, run);
    }
    if let Some(obstacle) = input.obstacle.filter(|_| !run.is_claimed && attempt_at <= now) {
        let sentence = format!(
            "{occurrence} waits since {attempt_at}: attempt {number} does not start because {obstacle}."
        );
        return (ExplainReason::Blocked, Some(scheduled), sentence);
    }
    if let Some(limit) = run.waits_for {
        let (who, most) = match limit {
            SlotLimit::Host => ("its target host", HOST_ATTEMPTS_MAX),
            SlotLimit::Collection => ("its collection", COLLECTION_ATTEMPTS_MAX),
        };
        let sentence = format!(
            "{occurrence} waits for a free slot since {attempt_at}: {who} has {most} attempts in flight, the maximum."
        );
        return (ExplainReason::Waiting, Some(scheduled), sentence);
    }
    let (reason, sentence) = match (run.is_claimed, retry) {
        (true, _) => (
            ExplainReason::Running,
            format!("{occurrence} has been running since {attempt_at}: attempt {number}."),
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

/// Says that the main action of a run failed, with the number of its attempts if that is known.
fn failure_of_main_action(input: &ExplainInput<'_>, scheduled: Instant) -> String {
    let is_attempt = |entry: &&HistoryEntry| {
        entry.expected == scheduled
            && entry.role == ActionRole::Main
            && entry.status != AttemptStatus::Postponed
    };
    let after = after_attempts(input.history.iter().filter(is_attempt).count());
    format!("The main action of the occurrence of {scheduled} failed{after}.")
}

/// `" after 3 attempts"`; empty if none is known.
fn after_attempts(attempts: usize) -> String {
    match attempts {
        0 => String::new(),
        1 => " after one attempt".into(),
        more => format!(" after {more} attempts"),
    }
}

/// Explains a run that waits until its job or collection is enabled.
fn explain_held_run(input: &ExplainInput<'_>, run: &RunInFlight) -> Finding {
    let RunInFlight { scheduled, retry, attempt_at, .. } = *run;
    let attempt = match run.role {
        ActionRole::Main => format!("attempt {}", retry + 1),
        ActionRole::Error => format!("attempt {} of its error action", retry + 1),
    };
    let is_skipped = run.is_unattempted
        && run.cause == Cause::Scheduled
        && input.rule.definition().recurrence.is_some()
        && attempt_at <= input.job.now;
    let is_job_off = run.cause == Cause::Scheduled && input.job.switch == Switch::Disabled;
    let (reason, what) = match input.job.collection {
        Switch::Disabled => (ExplainReason::CollectionDisabled, "collection"),
        Switch::Enabled if is_job_off => (ExplainReason::JobDisabled, "job"),
        Switch::Enabled => {
            let sentence = match is_skipped {
                true => format!(
                    "The occurrence of {scheduled} did not run: all jobs were paused before its first attempt."
                ),
                false => format!(
                    "The occurrence of {scheduled} is held; {attempt} starts when the pause ends, not before {attempt_at}."
                ),
            };
            let sentence = format!("{sentence} {}", paused(input));
            return (ExplainReason::Paused, Some(scheduled), sentence);
        }
    };
    let sentence = match is_skipped {
        true => format!(
            "The occurrence of {scheduled} did not run: the {what} was disabled before its first attempt."
        ),
        false => format!(
            "The occurrence of {scheduled} is held because the {what} is disabled; {attempt} starts when the {what} is enabled, not before {attempt_at}."
        ),
    };
    (reason, Some(scheduled), sentence)
}

fn explain_record(input: &ExplainInput<'_>, row: &LedgerRecord, at: Instant) -> Finding {
    let is_of_run =
        |entry: &&HistoryEntry| entry.expected == row.from && entry.role == ActionRole::Main;
    let entries = || input.history.iter().filter(is_of_run);
    let attempts = entries().filter(|entry| entry.status != AttemptStatus::Postponed).count();
    let after = after_attempts(attempts);
    let closed = row.closed;
    let range = match row.count {
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
            format!("failed at {closed}{after}; all attempts are used up.{said}"),
        ),
        Disposition::SkippedOverlap => (
            ExplainReason::SkippedOverlap,
            "did not run because the previous one was still running or retrying.".into(),
        ),
        Disposition::SkippedDisabled => (
            ExplainReason::SkippedDisabled,
            "did not run because the job or its collection was disabled.".into(),
        ),
        Disposition::SkippedQuota => (
            ExplainReason::SkippedQuota,
            "did not run because too many runs of the job were open.".into(),
        ),
        Disposition::SkippedPaused => {
            (ExplainReason::SkippedPaused, "did not run because all jobs were paused.".into())
        }
        Disposition::SkippedByRequest => (
            ExplainReason::SkippedByRequest,
            "did not run because a user requested to skip it.".into(),
        ),
        Disposition::Missed => (
            ExplainReason::Missed,
            format!(
                "was missed: no node could run it at its scheduled time (recorded at {closed}); it does not run later."
            ),
        ),
        Disposition::Superseded => (
            ExplainReason::Superseded,
            format!("was superseded at {closed}{after}, because an edit changed the schedule."),
        ),
    };
    (reason, Some(at), format!("The occurrence of {at} {what}{range}"))
}

/// Explains an occurrence of the schedule without a record or a run.
fn explain_occurrence(input: &ExplainInput<'_>, at: Instant) -> Finding {
    let JobSnapshot { now, lifecycle, left, .. } = input.job;
    if input.job.is_upcoming(input.rule, at) {
        let (reason, sentence) = match input.job.state_of_upcoming(at) {
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
            OccurrenceState::Paused => (
                ExplainReason::Paused,
                format!("{} If the pause ended before, the job would run at {at}.", paused(input)),
            ),
            OccurrenceState::WillBeSkipped => {
                (ExplainReason::WillBeSkipped, will_be_skipped(input, at))
            }
            _ if at <= now => due(input, at),
            _ => (ExplainReason::Upcoming, format!("The occurrence of {at} is still to come.")),
        };
        return (reason, Some(at), sentence);
    }
    if input.job.due_while_disabled(input.rule, at, at).is_some() {
        let (reason, why) = match (input.job.switch, input.job.collection) {
            (Switch::Disabled, _) => (ExplainReason::JobDisabled, ": the job is disabled.".into()),
            (_, Switch::Disabled) => {
                (ExplainReason::CollectionDisabled, ": the job's collection is disabled.".into())
            }
            _ => (ExplainReason::Paused, format!(". {}", paused(input))),
        };
        let sentence = format!("The occurrence of {at} did not run{why}");
        return (reason, Some(at), sentence);
    }
    if lifecycle != Lifecycle::Active && input.job.finished.is_some_and(|end| at > end) {
        return (ExplainReason::Finished, Some(at), finished(input));
    }
    if at > now && left.is_some() {
        let sentence = format!("At {at} the count of the schedule is used up.");
        return (ExplainReason::CountUsedUp, Some(at), sentence);
    }
    let sentence = format!(
        "No record of {at} exists: the job had another definition then, or retention deleted the record."
    );
    (ExplainReason::NotRetained, Some(at), sentence)
}

fn explain_no_occurrence(input: &ExplainInput<'_>, at: Instant) -> Finding {
    if at < input.created {
        let sentence = format!("The job was created later, at {}.", input.created);
        return (ExplainReason::BeforeCreation, None, sentence);
    }
    let recurrence = input.rule.definition().recurrence.as_ref();
    if let Some(end) = recurrence.and_then(|recurrence| recurrence.end).filter(|&end| end < at) {
        return (ExplainReason::AfterEnd, None, format!("The schedule ended at {end}."));
    }
    if input.job.finished.is_some_and(|end| end < at) {
        return (ExplainReason::Finished, None, finished(input));
    }
    let nearest = match (input.rule.last_at_or_before(at), input.rule.next_after(at)) {
        (Some(last), Some(next)) => format!(": the one before is {last}, the one after {next}"),
        (Some(last), None) => format!(": the last is {last}"),
        (None, Some(next)) => format!(": the first is {next}"),
        (None, None) => String::new(),
    };
    let sentence = format!("{at} is no occurrence of the schedule{nearest}.");
    (ExplainReason::NotAnOccurrence, None, sentence)
}

impl ExplainInput<'_> {
    /// The occurrence at `at`, or within the second that starts at `at`.
    fn occurrence_at(&self, at: Instant) -> Option<Instant> {
        let found = self.rule.next_after(at.previous_tick()).filter(|&next| matches(at, next));
        found.or(self.job.due.filter(|&due| matches(at, due)))
    }

    /// The scheduled time of the run that was in flight or retrying at the time of an occurrence.
    fn run_during(&self, at: Instant) -> Option<Instant> {
        let open = self.runs.iter().map(|run| run.scheduled).filter(|scheduled| *scheduled < at);
        let lasted = |entry: &&HistoryEntry| {
            entry.status != AttemptStatus::Postponed && entry.expected < at && at <= entry.ended
        };
        let closed = self.history.iter().filter(lasted).map(|entry| entry.expected);
        open.max().or_else(|| closed.max())
    }

    fn is_active(&self) -> bool {
        self.job.lifecycle == Lifecycle::Active
    }
}

/// Whether a request for `at` refers to `other`: a whole second matches every time within it.
fn matches(at: Instant, other: Instant) -> bool {
    at == other || at == other.whole_second()
}

/// Explains an occurrence to come that a user requested to skip.
fn will_be_skipped(input: &ExplainInput<'_>, at: Instant) -> String {
    let next = match input.job.first_not_skipped(input.rule) {
        Some(next) => format!(" The next run is at {next}."),
        None => " No further occurrence follows.".into(),
    };
    format!("The occurrence of {at} will be skipped, as a user requested.{next}")
}

/// Explains the pause of all jobs.
fn paused(input: &ExplainInput<'_>) -> String {
    let Some(PauseRecord { pause, reason, by }) = input.pause else {
        return "All jobs are paused.".into();
    };
    let end = pause.until().map_or_else(String::new, |until| format!(" until {until}"));
    let reason = reason.trim_end_matches('.');
    format!("All jobs are paused since {}{end} by {by}: {reason}.", pause.since)
}

/// Explains an occurrence that is due and has not begun.
fn due(input: &ExplainInput<'_>, at: Instant) -> (ExplainReason, String) {
    match input.obstacle {
        None => (ExplainReason::Due, format!("The occurrence of {at} is due and is about to run.")),
        Some(obstacle) => (
            ExplainReason::Blocked,
            format!("The occurrence of {at} is due and does not start because {obstacle}."),
        ),
    }
}

fn finished(input: &ExplainInput<'_>) -> String {
    let JobSnapshot { lifecycle, finished, .. } = input.job;
    let at = finished.map_or_else(String::new, |at| format!(" since {at}"));
    match lifecycle {
        Lifecycle::Faulted => format!(
            "The job is faulted{at}: all attempts of its last run failed. It does not run again."
        ),
        Lifecycle::Completed => format!("The job is completed{at} and does not run again."),
        Lifecycle::Active => "The schedule of the job has no more occurrences.".into(),
    }
}

#[cfg(test)]
mod tests;
