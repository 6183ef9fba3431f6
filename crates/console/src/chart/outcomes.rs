//! The last runs of a job as a strip of marks, the newest at the right.

use askama::Template;
use serde_json::Value;

use crate::api::Json as _;
use crate::format::duration;
use crate::mark::Mark;
use crate::view::View;

const SHOWN: usize = 20;
const STEP: usize = 9;

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

impl Outcomes {
    /// `outcomes`: the newest first, as in the statistics of a job.
    pub(crate) fn new(outcomes: &[Value], view: &View) -> Outcomes {
        let known = outcomes.iter().take(SHOWN).rev().map(|outcome| {
            let status = outcome.text("status");
            let time = outcome.time("scheduledTime").map(|at| view.date_time(at));
            let took = outcome.number("durationMilliseconds").map(|milliseconds| {
                format!(", {}", duration(std::time::Duration::from_millis(milliseconds as u64)))
            });
            let title =
                format!("{}: {status}{}", time.unwrap_or_default(), took.unwrap_or_default());
            (Mark::of_run(&status), title)
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
