//! History messages of occurrences that did not run.

use kalends_domain::{
    ActionRole, AttemptStatus, CloseReason, ClosedOccurrences, HistoryEntry, Timing,
};
use kalends_recurrence::Instant;

/// The history entry of occurrences that were closed without a run.
pub(crate) fn postponed(
    closed: &ClosedOccurrences,
    generation: u64,
    repeat: u64,
    now: Instant,
) -> HistoryEntry {
    let which = match closed.count {
        1 => format!("The occurrence of {}", closed.from),
        count => format!("{count} occurrences from {} to {}", closed.from, closed.to),
    };
    let why = match closed.reason {
        CloseReason::Missed => "could not run at their time and do not run later",
        CloseReason::Overlap => {
            "did not run because the previous one was still running or retrying"
        }
        CloseReason::Edited => "did not run before the job was edited",
        CloseReason::Quota => "did not run because too many runs of the job were open",
        CloseReason::Paused => "did not run because all jobs were paused",
        CloseReason::Requested => "did not run because a user requested to skip them",
        CloseReason::Disabled => "did not run because the job or its collection was disabled",
    };
    let why = if closed.count == 1 {
        why.replace("their", "its").replace("skip them", "skip it").replace(" do not", " does not")
    } else {
        why.to_owned()
    };
    HistoryEntry {
        started: now,
        ended: now,
        expected: closed.from,
        status: AttemptStatus::Postponed,
        message: format!("{which} {why}."),
        retry: 0,
        repeat,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(generation),
    }
}
