//! One attempt of a run, from its history entry.

use std::time::Duration;

use kalends_recurrence::Instant;
use serde_json::Value;

use crate::api::Json as _;
use crate::chart::{Attempt, Phase};
use crate::format::{count, fine_duration};
use crate::json_text::indented;
use crate::mark::Mark;
use crate::message::{BODY_CHARS_MAX, Response, summary};
use crate::sentence::{Part, sentence};
use crate::view::{Time, View};

pub(super) struct AttemptEntry {
    pub(super) label: String,
    pub(super) is_main: bool,
    /// Not an attempt: the entry says that the occurrence did not run at its time.
    pub(super) is_postponed: bool,
    /// Whether the page shows it without a click.
    pub(super) is_open: bool,
    pub(super) mark: Mark,
    pub(super) started: Option<Instant>,
    pub(super) ended: Option<Instant>,
    pub(super) time: Option<Time>,
    pub(super) generation: String,
    /// Status and host, or the error; times in it are in the zone of the page.
    pub(super) summary: Vec<Part>,
    /// Phases with their durations.
    pub(super) timing: String,
    /// Headers of the response, one in each line.
    pub(super) headers: String,
    /// Body of the response, or the whole message if it has another form.
    pub(super) body: String,
    /// Size of the body as history keeps it.
    pub(super) size: String,
    phases: Vec<(Phase, Duration)>,
    took: Duration,
    status: String,
}

/// `Attempt 1`, `Retry 1`, `Error action`.
pub(super) fn label(is_main: bool, retry: u64) -> String {
    match (is_main, retry) {
        (true, 0) => "Attempt 1".to_owned(),
        (true, retry) => format!("Retry {retry}"),
        (false, 0) => "Error action".to_owned(),
        (false, retry) => format!("Error action {}", retry + 1),
    }
}

impl AttemptEntry {
    pub(super) fn new(entry: &Value, view: &View) -> AttemptEntry {
        let message = entry.text("message");
        let status = entry.text("status");
        let is_main = entry.text("actionName") != "ErrorAction";
        let is_postponed = status == "Postponed";
        let phase = |phase, name: &str| {
            let text = entry.text(&format!("timing.{name}"));
            kalends_wire::parse_duration(&text).map(|length| (phase, length))
        };
        let phases = [
            phase(Phase::Dns, "dns"),
            phase(Phase::Connect, "connect"),
            phase(Phase::Tls, "tls"),
            phase(Phase::FirstByte, "firstByte"),
        ];
        let phases: Vec<_> = phases.into_iter().flatten().collect();
        let (started, ended) = (entry.time("startTime"), entry.time("endTime"));
        let took = match (started, ended) {
            (Some(started), Some(ended)) => ended.since(started),
            _ => Duration::ZERO,
        };
        let total = kalends_wire::parse_duration(&entry.text("timing.total")).unwrap_or(took);
        let timing = phases.iter().map(|(phase, length)| (phase.name(), *length));
        let timing = timing.chain([("total", total)]);
        let timing = timing.map(|(name, length)| format!("{name} {}", fine_duration(length)));
        let response = Response::read(&message);
        AttemptEntry {
            label: match is_postponed {
                true => "Not run".to_owned(),
                false => label(is_main, entry.integer("retryCount")),
            },
            is_main,
            is_postponed,
            is_open: is_postponed,
            mark: Mark::of_run(&status),
            time: started.map(|at| view.time(at.whole_second())),
            generation: entry.text("generation"),
            timing: match is_postponed {
                true => String::new(),
                false => timing.collect::<Vec<_>>().join(" · "),
            },
            headers: response.as_ref().map(headers).unwrap_or_default(),
            body: match &response {
                Some(response) => {
                    indented(response.body).unwrap_or_else(|| response.body.to_owned())
                }
                None if is_postponed => String::new(),
                None => message.clone(),
            },
            size: response.as_ref().map(size).unwrap_or_default(),
            status: match &response {
                Some(response) => response.status.clone(),
                None if status == "Failed" => "failed".to_owned(),
                None => String::new(),
            },
            summary: sentence(&summary(&message), view),
            started,
            ended,
            phases,
            took,
        }
    }

    /// The bar in the chart.
    pub(super) fn bar(&self) -> Option<Attempt> {
        let took = fine_duration(self.took);
        Some(Attempt {
            label: self.label.clone(),
            started: self.started?,
            ended: self.ended?,
            is_coming: false,
            in_flight: None,
            phases: self.phases.clone(),
            class: match self.mark {
                Mark::Succeeded => "f-ok",
                Mark::Failed => "f-fail",
                _ => "f-warn",
            },
            text: match self.status.is_empty() {
                true => took,
                false => format!("{} · {took}", self.status),
            },
        })
    }
}

fn headers(response: &Response<'_>) -> String {
    let lines = response.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn size(response: &Response<'_>) -> String {
    match (response.is_cut(), response.body.chars().count()) {
        (true, _) => {
            format!("the first {} characters; history keeps no more", count(BODY_CHARS_MAX as u64))
        }
        (false, 0) => "empty".to_owned(),
        (false, 1) => "1 character".to_owned(),
        (false, length) => format!("{} characters", count(length as u64)),
    }
}
