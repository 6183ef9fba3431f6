//! The last runs of a job as a strip of marks, the newest at the right.

use askama::Template;
use serde::Deserialize;
use std::borrow::Cow;

use crate::format::{milliseconds, push_date_time};
use crate::mark::Mark;
use crate::view::View;

const SHOWN: usize = 20;
const STEP: usize = 9;
/// Bytes of a longer title: `Wed 2026-11-18 07:06:34: Succeeded, 1 min 10 s`.
const TITLE_BYTES: usize = 48;

/// The chart.
#[derive(Template)]
#[template(path = "chart/outcomes.html")]
pub(crate) struct Outcomes {
    marks: Vec<OutcomeMark>,
    summary: String,
}

struct OutcomeMark {
    x: usize,
    mark: Mark,
    title: String,
}

/// The outcome of a run in the statistics of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Outcome<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    scheduled_time: Cow<'a, str>,
    duration_milliseconds: Option<f64>,
}

impl Outcomes {
    /// `outcomes`: the newest first, as in the statistics of a job.
    pub(crate) fn new(outcomes: &[Outcome<'_>], view: &View) -> Outcomes {
        let known = outcomes.iter().take(SHOWN).rev().map(|outcome| {
            let status = &*outcome.status;
            let mut title = String::with_capacity(TITLE_BYTES);
            if let Ok(at) = outcome.scheduled_time.parse() {
                push_date_time(&mut title, at, &view.zone);
            }
            title.push_str(": ");
            title.push_str(status);
            if let Some(number) = outcome.duration_milliseconds {
                title.push_str(", ");
                title.push_str(&milliseconds(number));
            }
            (Mark::of_run(status), title)
        });
        let empty = SHOWN.saturating_sub(outcomes.len());
        let absent = std::iter::repeat_n((Mark::None, String::new()), empty);
        let marks: Vec<_> = absent
            .chain(known)
            .enumerate()
            .map(|(index, (mark, title))| OutcomeMark { x: index * STEP, mark, title })
            .collect();
        let succeeded = marks.iter().filter(|mark| mark.mark == Mark::Succeeded).count();
        let summary = match outcomes.len().min(SHOWN) {
            0 => "no runs yet".to_owned(),
            runs => format!("{succeeded} of the last {runs} runs succeeded"),
        };
        Outcomes { marks, summary }
    }
}
