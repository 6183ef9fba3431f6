//! States as a shape, a colour and a word.

use askama::Template;

/// A state. Shape and colour say the same, so that neither is needed to tell states apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(path = "mark.html")]
pub(crate) enum Mark {
    Succeeded,
    Failed,
    Running,
    Scheduled,
    Skipped,
    Disabled,
    /// No run yet.
    None,
}

impl Mark {
    /// The mark of the `status` of a run.
    pub(crate) fn of_run(status: &str) -> Mark {
        match status {
            "Succeeded" | "Completed" => Mark::Succeeded,
            "Failed" | "Faulted" => Mark::Failed,
            "Running" | "Waiting" | "Retrying" => Mark::Running,
            "Scheduled" | "Coming" | "" => Mark::Scheduled,
            _ => Mark::Skipped,
        }
    }

    /// The mark of the `disposition` of an occurrence.
    pub(crate) fn of_disposition(disposition: &str) -> Mark {
        match disposition {
            "JobDisabled" | "CollectionDisabled" | "Paused" => Mark::Disabled,
            "NotKept" => Mark::None,
            _ => Mark::of_run(disposition),
        }
    }

    /// The mark of the state of a job.
    pub(crate) fn of_job(state: &str) -> Mark {
        match state {
            "Enabled" => Mark::Scheduled,
            "Completed" => Mark::Succeeded,
            "Faulted" | "Failing" => Mark::Failed,
            "Running" => Mark::Running,
            _ => Mark::Disabled,
        }
    }

    /// Class of the colour in the style sheet, and name of the shape in `icon.svg`.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Mark::Succeeded => "ok",
            Mark::Failed => "fail",
            Mark::Running => "run",
            Mark::Scheduled => "scheduled",
            Mark::Skipped => "warn",
            Mark::Disabled | Mark::None => "off",
        }
    }

    pub(crate) fn is(self, class: &str) -> bool {
        self.class() == class
    }
}
