//! Entries of the execution history.

use std::time::Duration;

use kalends_domain::{AttemptStatus, HistoryEntry, JobPath, Micros, Timing, status_of_message};
use kalends_recurrence::Instant;

use crate::duration::write_duration;
use crate::enum_text::{EnumText, OldCasing, enum_text};
use crate::id::{HISTORY_TYPE, job_id, job_name};
use crate::json::Json;
use crate::object::ObjectBuilder;
use crate::timeline::role_text;
use crate::version::Version;

const STATUSES: &EnumText<AttemptStatus> = &[
    ("Completed", AttemptStatus::Completed),
    ("Failed", AttemptStatus::Failed),
    ("Postponed", AttemptStatus::Postponed),
];

/// Serialises an entry. `number` distinguishes entries that started at the same time.
pub fn write_history_entry<'a>(
    path: &JobPath,
    entry: &'a HistoryEntry,
    number: u64,
    version: Version,
) -> Json<'a> {
    let id = history_id(entry.started, number);
    // The old versions omit the status of a success, and their clients rely on that.
    let has_status = !version.is_old() || entry.status != AttemptStatus::Completed;
    let status = has_status.then(|| enum_text(STATUSES, &entry.status, OldCasing::Lower, version));
    let role = role_text(entry.role);
    let properties = ObjectBuilder::new()
        .put("startTime", entry.started)
        .put("endTime", entry.ended)
        .put("expectedExecutionTime", entry.expected)
        .put_some("status", status)
        .put("message", &entry.message)
        .put_some("statusCode", status_code(&entry.message).filter(|_| !version.is_old()))
        .put("retryCount", entry.retry)
        .put("repeatCount", entry.repeat)
        .put("actionName", role)
        .put_some("generation", entry.generation.filter(|_| !version.is_old()))
        .put_some("timing", if version.is_old() { None } else { timing(entry.timing) });
    ObjectBuilder::new()
        .put("id", format!("{}/history/{id}", job_id(path)))
        .put("type", HISTORY_TYPE)
        .put("name", format!("{}/{id}", job_name(path)))
        .put("properties", properties)
        .into()
}

/// The result of an attempt of a definition that is not saved.
#[derive(Clone, Copy, Debug)]
pub struct TestRun<'a> {
    /// When the attempt started.
    pub started: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Whether it succeeded.
    pub status: AttemptStatus,
    /// The message that the history would have.
    pub message: &'a str,
    /// Durations of its phases.
    pub timing: Timing,
}

/// Serialises the result of a test run, with the members of a history entry. Newest API version only.
pub fn write_test_run<'a>(run: &TestRun<'a>) -> Json<'a> {
    ObjectBuilder::new()
        .put("startTime", run.started)
        .put("endTime", run.ended)
        .put("status", enum_text(STATUSES, &run.status, OldCasing::Lower, Version::NEWEST))
        .put("message", run.message)
        .put_some("statusCode", status_code(run.message))
        .put_some("timing", timing(run.timing))
        .into()
}

/// The HTTP status of the response that a message describes.
pub(crate) fn status_code(message: &str) -> Option<u32> {
    status_of_message(message).map(u32::from)
}

/// Serialises the measured phases; `None` if there are none.
fn timing(timing: Timing) -> Option<ObjectBuilder<'static>> {
    let written = |time: Micros| write_duration(Duration::from_micros(time.get().into()));
    let Timing { dns, connect, tls, first_byte, total } = timing;
    (timing != Timing::default()).then(|| {
        ObjectBuilder::new()
            .put_some("dns", dns.map(written))
            .put_some("connect", connect.map(written))
            .put_some("tls", tls.map(written))
            .put_some("firstByte", first_byte.map(written))
            .put_some("total", total.map(written))
    })
}

/// Both parts count down from their maximum, so that ids sort newest first.
fn history_id(started: Instant, sequence: u64) -> String {
    let until_end = Instant::MAX.ticks() - started.ticks();
    let before_last = (i64::MAX as u64).saturating_sub(sequence);
    format!("{until_end:020}:{before_last:020}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_newest_first() {
        // Taken from a response of the retired service.
        let id = |started: &str, sequence| history_id(started.parse().unwrap(), sequence);
        assert_eq!(
            id("2015-06-14T06:28:54.1459279Z", 32_060),
            "02519680374658540720:09223372036854743747"
        );
        assert!(id("2026-01-01T00:00:01Z", 1) < id("2026-01-01T00:00:00Z", 2));
        assert!(id("2026-01-01T00:00:00Z", 2) < id("2026-01-01T00:00:00Z", 1));
    }
}
