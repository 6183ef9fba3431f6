//! Failures over time: which one lasts, and when the log reports it.

use std::time::Duration;

/// A lasting failure is reported again after this time. Failures that follow each other more quickly
/// are not reported one by one.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The failures of one component.
#[derive(Default)]
pub(super) struct Incidents {
    current: Option<Incident>,
    /// Uptime of the last report of a failure.
    reported_at: Option<Duration>,
}

struct Incident {
    reason: String,
    /// Uptime of its begin.
    since: Duration,
    is_reported: bool,
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report<'a> {
    /// A failure began.
    Began { reason: &'a str },
    /// A failure continues; reported once a minute.
    Lasts { reason: &'a str, seconds: u64 },
    /// A failure ended after this duration.
    Ended { seconds: u64 },
}

impl Incidents {
    /// The reason of the current failure.
    pub(super) fn current(&self) -> Option<&str> {
        self.current.as_ref().map(|incident| incident.reason.as_str())
    }

    /// Records that the component fails for this reason, or works. Returns what the log reports.
    pub(super) fn update(
        &mut self,
        reason: Option<String>,
        uptime: Duration,
    ) -> Option<Report<'_>> {
        let Some(reason) = reason else {
            let ended = self.current.take().filter(|incident| incident.is_reported)?;
            let seconds = uptime.saturating_sub(ended.since).as_secs();
            return Some(Report::Ended { seconds });
        };
        let (since, is_reported) = match self.current.take() {
            Some(incident) => (incident.since, incident.is_reported),
            None => (uptime, false),
        };
        let is_due = self.reported_at.is_none_or(|at| uptime.saturating_sub(at) >= REPORT_INTERVAL);
        if is_due {
            self.reported_at = Some(uptime);
        }
        let incident = Incident { reason, since, is_reported: is_reported || is_due };
        let reason = self.current.insert(incident).reason.as_str();
        let seconds = uptime.saturating_sub(since).as_secs();
        is_due.then_some(match is_reported {
            true => Report::Lasts { reason, seconds },
            false => Report::Began { reason },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_failure_is_reported_once_then_every_minute_and_its_end() {
        let mut incidents = Incidents::default();
        let full = || Some("full".to_owned());
        assert_eq!(incidents.update(None, at(0)), None);
        assert_eq!(incidents.update(full(), at(5)), Some(Report::Began { reason: "full" }));
        assert_eq!(incidents.update(full(), at(6)), None);
        assert_eq!(incidents.update(full(), at(64)), None);
        let lasts = Report::Lasts { reason: "full", seconds: 60 };
        assert_eq!(incidents.update(full(), at(65)), Some(lasts));
        assert_eq!(incidents.update(full(), at(66)), None);
        assert_eq!(incidents.current(), Some("full"));
        assert_eq!(incidents.update(None, at(70)), Some(Report::Ended { seconds: 65 }));
        assert_eq!(incidents.current(), None);
        assert_eq!(incidents.update(None, at(71)), None);
    }

    #[test]
    fn failures_in_quick_succession_are_reported_once_a_minute() {
        let mut incidents = Incidents::default();
        let mut reported = 0;
        for second in 0..120 {
            let reason = (second % 2 == 0).then(|| "full".to_owned());
            if let Some(Report::Began { .. }) = incidents.update(reason, at(second)) {
                reported += 1;
            }
        }
        assert_eq!(reported, 2);
    }
}
