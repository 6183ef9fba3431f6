//! Occurrences of a job and the explanation of a run or its absence. Newest API version only.

use kalends_domain::{
    ActionRole, Cause, Disposition, ExplainReason, Explanation, JobPath, LedgerRecord,
    OccurrenceState, PauseRecord, RunInFlight, TimelineRow,
};

use crate::id::{job_id, job_name};
use crate::json::Json;
use crate::object::{ObjectBuilder, list};
use crate::pause::pause_members;

/// Serialises one row of the occurrence list. `idempotency_key` is that of the main action, if the
/// occurrence is a run.
pub fn write_occurrence(row: &TimelineRow, idempotency_key: Option<String>) -> Json<'static> {
    let last_scheduled = (row.count != 1).then_some(row.to);
    let members = ObjectBuilder::new()
        .put("scheduledTime", row.from)
        .put_some("lastScheduledTime", last_scheduled)
        .put("count", row.count)
        .put("cause", cause_text(row.cause))
        .put("disposition", state_text(&row.state))
        .put_some("generation", row.generation)
        .put_some("idempotencyKey", idempotency_key);
    match &row.state {
        OccurrenceState::Closed(_, at) => members.put("decidedTime", *at),
        OccurrenceState::InFlight(run) => members
            .put("actionName", role_text(run.role))
            .put("retryCount", run.retry)
            .put(if run.is_claimed { "attemptTime" } else { "nextAttemptTime" }, run.attempt_at),
        _ => members,
    }
    .into()
}

/// Serialises an event that reports closed occurrences. `job_state` is the state of the job
/// afterwards.
pub fn write_closed_occurrence<'a>(
    path: &JobPath,
    row: &LedgerRecord,
    job_state: &'a str,
) -> Json<'a> {
    let last_scheduled = (row.count != 1).then_some(row.to);
    ObjectBuilder::new()
        .put("jobId", job_id(path))
        .put("jobName", job_name(path))
        .put("scheduledTime", row.from)
        .put_some("lastScheduledTime", last_scheduled)
        .put("count", row.count)
        .put("cause", cause_text(row.cause))
        .put("disposition", disposition_text(row.disposition))
        .put("generation", row.generation)
        .put("decidedTime", row.closed)
        .put("jobState", job_state)
        .into()
}

/// State of the job and its collection that an explanation reports.
#[derive(Clone, Copy, Debug)]
pub struct ExplainContext<'a> {
    /// `Enabled`, `Disabled`, `Completed` or `Faulted`.
    pub job_state: &'a str,
    /// `Enabled` or `Disabled`.
    pub collection_state: &'a str,
    /// When the job was created.
    pub created: kalends_recurrence::Instant,
    /// Number of edits, including the creation.
    pub generation: u64,
    /// The schedule as an English sentence.
    pub schedule: &'a str,
    /// The pause of all jobs, if one holds.
    pub pause: Option<&'a PauseRecord>,
}

/// Serialises the explanation why a job did or did not run, with the occurrences and the history
/// entries that support it.
pub fn write_explanation<'a>(
    explanation: &'a Explanation,
    context: ExplainContext<'a>,
    rows: Vec<Json<'a>>,
    history: Vec<Json<'a>>,
) -> Json<'a> {
    let job = ObjectBuilder::new()
        .put("state", context.job_state)
        .put("collectionState", context.collection_state)
        .put("createdTime", context.created)
        .put("generation", context.generation)
        .put("schedule", context.schedule);
    ObjectBuilder::new()
        .put("reason", reason_text(explanation.reason))
        .put("explanation", &explanation.sentence)
        .put_some("occurrence", explanation.occurrence)
        .put_some("blockedBy", explanation.blocked_by)
        .put_some("previousOccurrence", explanation.before)
        .put_some("nextOccurrence", explanation.after)
        .put("notes", list(explanation.notes.iter()))
        .put("job", job)
        .put_some("pause", context.pause.map(pause_members))
        .put("occurrences", Json::Array(rows))
        .put("history", Json::Array(history))
        .into()
}

pub(crate) fn cause_text(cause: Cause) -> &'static str {
    match cause {
        Cause::Scheduled => "Scheduled",
        Cause::Manual => "Manual",
    }
}

pub(crate) fn role_text(role: ActionRole) -> &'static str {
    match role {
        ActionRole::Main => "MainAction",
        ActionRole::Error => "ErrorAction",
    }
}

pub(crate) fn disposition_text(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::Completed => "Completed",
        Disposition::Failed => "Failed",
        Disposition::SkippedOverlap => "SkippedOverlap",
        Disposition::SkippedDisabled => "SkippedDisabled",
        Disposition::SkippedQuota => "SkippedQuota",
        Disposition::SkippedPaused => "SkippedPaused",
        Disposition::SkippedByRequest => "SkippedByRequest",
        Disposition::Missed => "Missed",
        Disposition::Superseded => "Superseded",
    }
}

pub(crate) fn state_text(state: &OccurrenceState) -> &'static str {
    match state {
        OccurrenceState::Closed(disposition, _) => disposition_text(*disposition),
        OccurrenceState::InFlight(RunInFlight { is_claimed: true, .. }) => "Running",
        OccurrenceState::InFlight(RunInFlight { retry: 0, .. }) => "Waiting",
        OccurrenceState::InFlight(_) => "Retrying",
        OccurrenceState::Upcoming => "Scheduled",
        OccurrenceState::JobDisabled => "JobDisabled",
        OccurrenceState::CollectionDisabled => "CollectionDisabled",
        OccurrenceState::Paused => "Paused",
        OccurrenceState::WillBeSkipped => "WillBeSkipped",
        OccurrenceState::NotRetained => "NotKept",
    }
}

fn reason_text(reason: ExplainReason) -> &'static str {
    match reason {
        ExplainReason::Completed => "Completed",
        ExplainReason::Failed => "Failed",
        ExplainReason::SkippedOverlap => "SkippedOverlap",
        ExplainReason::SkippedDisabled => "SkippedDisabled",
        ExplainReason::SkippedQuota => "SkippedQuota",
        ExplainReason::SkippedPaused => "SkippedPaused",
        ExplainReason::SkippedByRequest => "SkippedByRequest",
        ExplainReason::Missed => "Missed",
        ExplainReason::Superseded => "Superseded",
        ExplainReason::Running => "Running",
        ExplainReason::Retrying => "Retrying",
        ExplainReason::Waiting => "Waiting",
        ExplainReason::Due => "Due",
        ExplainReason::Blocked => "Blocked",
        ExplainReason::Upcoming => "Scheduled",
        ExplainReason::NotAnOccurrence => "NotAnOccurrence",
        ExplainReason::BeforeCreation => "BeforeCreation",
        ExplainReason::AfterEnd => "AfterEnd",
        ExplainReason::CountUsedUp => "CountUsedUp",
        ExplainReason::JobDisabled => "JobDisabled",
        ExplainReason::CollectionDisabled => "CollectionDisabled",
        ExplainReason::Paused => "Paused",
        ExplainReason::WillBeSkipped => "WillBeSkipped",
        ExplainReason::Finished => "Finished",
        ExplainReason::NotRetained => "NotKept",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u64, state: OccurrenceState, expected: &str) {
        let from = "2026-01-01T00:00:00Z".parse().unwrap();
        let to = "2026-01-01T05:00:00Z".parse().unwrap();
        let cause = Cause::Scheduled;
        let row = TimelineRow { from, to, count, cause, generation: Some(2), state };
        let text = write_occurrence(&row, None).to_string();
        let start = r#"{"scheduledTime":"2026-01-01T00:00:00Z","#;
        assert_eq!(text, format!("{start}{expected}}}"));
    }

    #[test]
    fn rows_are_serialised_as_documented() {
        let at = "2026-01-01T00:00:09Z".parse().unwrap();
        check(
            1,
            OccurrenceState::Closed(Disposition::Completed, at),
            r#""count":1,"cause":"Scheduled","disposition":"Completed","generation":2,"decidedTime":"2026-01-01T00:00:09Z""#,
        );
        check(
            6,
            OccurrenceState::Closed(Disposition::Missed, at),
            r#""lastScheduledTime":"2026-01-01T05:00:00Z","count":6,"cause":"Scheduled","disposition":"Missed","generation":2,"decidedTime":"2026-01-01T00:00:09Z""#,
        );
        let run = RunInFlight {
            scheduled: at,
            cause: Cause::Scheduled,
            generation: 2,
            role: ActionRole::Main,
            retry: 1,
            is_unattempted: false,
            attempt_at: at,
            is_claimed: false,
            waits_for: None,
        };
        check(
            1,
            OccurrenceState::InFlight(run),
            r#""count":1,"cause":"Scheduled","disposition":"Retrying","generation":2,"actionName":"MainAction","retryCount":1,"nextAttemptTime":"2026-01-01T00:00:09Z""#,
        );
        check(
            1,
            OccurrenceState::InFlight(RunInFlight { is_claimed: true, ..run }),
            r#""count":1,"cause":"Scheduled","disposition":"Running","generation":2,"actionName":"MainAction","retryCount":1,"attemptTime":"2026-01-01T00:00:09Z""#,
        );
    }
}
