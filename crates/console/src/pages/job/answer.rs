//! The answer to "why is it (not) running?".
use serde_json::Value;

use super::Job;
use crate::address::encode;
use crate::api::Json as _;
use crate::format::count;
use crate::mark::Mark;
use crate::message::summary;
use crate::note::Note;
use crate::sentence::{Part, sentence};
use crate::view::{Time, View};

/// The answer, with its evidence.
pub(super) struct Answer {
    /// Class of the edge: its colour.
    pub(super) edge: &'static str,
    pub(super) heading: String,
    pub(super) sentence: Vec<Part>,
    /// The reason that a user gave for disabling or skipping it.
    pub(super) note: Option<Note>,
    pub(super) last: Option<LastAttempt>,
}

/// The last attempt of the job.
pub(super) struct LastAttempt {
    pub(super) mark: Mark,
    pub(super) status: &'static str,
    pub(super) ended: Time,
    pub(super) message: String,
    pub(super) href: String,
}

impl Answer {
    pub(super) fn new(job: &Job<'_>, note: Option<Note>, view: &View) -> Answer {
        let explanation = &job.explanation;
        let last = LastAttempt::new(job.last(), job, view);
        let failures = match job.consecutive_failures() {
            0 if job.last().text("properties.status") == "Failed" => 1,
            failures => failures,
        };
        let (edge, heading) = heading(&explanation.text("reason"), failures, job);
        let sentence = sentence(&explanation.text("explanation"), view);
        Answer { edge, heading, sentence, note, last }
    }
}

fn heading(reason: &str, failures: u64, job: &Job<'_>) -> (&'static str, String) {
    let state = job.job.text("properties.state");
    let (edge, heading) = match (reason, failures) {
        ("Running", _) => ("run-edge", "It is running"),
        ("Retrying", _) => ("fail-edge", "Its last attempt failed, and it retries"),
        ("Waiting", _) => ("run-edge", "It waits to start"),
        ("Due", _) => ("run-edge", "It is about to start"),
        ("Blocked", _) => ("fail-edge", "It is due, and the server cannot start it"),
        ("JobDisabled", _) => ("off-edge", "It does not run: the job is disabled"),
        ("CollectionDisabled", _) => ("off-edge", "It does not run: its collection is disabled"),
        ("Paused", _) => ("warn-edge", "It does not run: everything is paused"),
        ("WillBeSkipped", _) => ("warn-edge", "Its next occurrence will be skipped"),
        ("Finished", _) if state == "Faulted" => {
            ("fail-edge", "It has finished: its last run failed")
        }
        ("Finished", _) => ("ok-edge", "It has finished"),
        ("Scheduled", 0) if !job.last().has("properties") => ("", "It has not run yet"),
        ("Scheduled", failures) => {
            let start = match job.ran_only_by_hand() {
                true => "It has only run by hand so far",
                false => "It runs as scheduled",
            };
            return match failures {
                0 => ("ok-edge", start.to_owned()),
                1 => ("fail-edge", format!("{start}, and its last run failed")),
                more => ("fail-edge", format!("{start}, and its last {} runs failed", count(more))),
            };
        }
        _ => ("", "State of the job"),
    };
    (edge, heading.to_owned())
}

impl LastAttempt {
    fn new(entry: &Value, job: &Job<'_>, view: &View) -> Option<LastAttempt> {
        let properties = entry.member("properties");
        let scheduled = properties.text("expectedExecutionTime");
        let status = properties.text("status");
        Some(LastAttempt {
            mark: Mark::of_run(&status),
            status: match status.as_str() {
                "Completed" => "succeeded",
                "Failed" => "failed",
                _ => "did not run",
            },
            ended: view.time(properties.time("endTime")?),
            message: summary(&properties.text("message")),
            href: format!(
                "{}jobs/{}/runs/{}",
                view.root,
                job.address.in_console(),
                encode(&scheduled)
            ),
        })
    }
}
