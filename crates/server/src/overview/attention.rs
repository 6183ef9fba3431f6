//! Jobs and collections that need the attention of a person.

use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::JobKey;
use kalends_store::{FAILING_MIN, JobFilterState, JobSummary};

/// Delay of the next run from which on a job is overdue.
const OVERDUE: Duration = Duration::from_secs(60);
/// Time without a run after which a disabled job is listed.
const DISABLED: Duration = Duration::from_secs(30 * 86_400);
/// Time before the end of a certificate from which on it is listed.
const CERTIFICATE: Duration = Duration::from_secs(30 * 86_400);
/// Occurrences in a row that were skipped because of one run, from which on it is listed.
const SKIPPED_MIN: u64 = 3;
/// Occurrences of a job that are read to count them.
pub(super) const SKIPPED_READ_MAX: usize = 20;
/// Share of the quota of jobs from which on a collection is listed, in percent.
const QUOTA_PERCENT: u64 = 90;

/// A reason for attention, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttentionKind {
    /// The definition cannot be read.
    Unreadable,
    /// The last runs failed.
    Failing,
    /// The last occurrences were skipped because a run is still in flight or retrying.
    Stuck,
    /// The next run is in the past.
    Overdue,
    /// A client certificate ends soon, or has ended.
    CertificateExpiring,
    /// The collection has nearly as many jobs as it may have.
    QuotaNear,
    /// The job has been disabled for a long time.
    DisabledLong,
}

/// A job or collection that needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attention {
    pub(crate) kind: AttentionKind,
    /// `None` if it is about the collection.
    pub(crate) job: Option<JobKey>,
    /// Scheduled time of the stuck or overdue run, end of the certificate, or last activity of a disabled job.
    pub(crate) at: Option<Instant>,
    /// Failed runs or skipped occurrences in a row, or jobs of the collection.
    pub(crate) count: u64,
    /// Jobs that the collection may have.
    pub(crate) max: u64,
}

impl Attention {
    fn of_job(kind: AttentionKind, job: JobKey) -> Attention {
        Attention { kind, job: Some(job), at: None, count: 0, max: 0 }
    }

    /// Whether a job fails.
    pub(crate) fn failing(job: &JobSummary) -> Option<Attention> {
        let is_enabled = job.filter_state() == JobFilterState::Enabled;
        let count = job.consecutive_failures;
        let failing = Attention { count, ..Attention::of_job(AttentionKind::Failing, job.job) };
        (is_enabled && count >= FAILING_MIN).then_some(failing)
    }

    /// Whether a run of a job keeps it from running.
    pub(super) fn stuck(job: JobKey, run: Instant, skipped: u64) -> Option<Attention> {
        let stuck = Attention::of_job(AttentionKind::Stuck, job);
        (skipped >= SKIPPED_MIN).then_some(Attention { at: Some(run), count: skipped, ..stuck })
    }

    /// Whether the next run of a job of an enabled collection is late.
    pub(crate) fn overdue(job: &JobSummary, now: Instant) -> Option<Attention> {
        let due = job.due.filter(|_| job.filter_state() == JobFilterState::Enabled)?;
        let overdue = Attention::of_job(AttentionKind::Overdue, job.job);
        let is_late = due.saturating_add(OVERDUE) < now;
        is_late.then_some(Attention { at: Some(due), ..overdue })
    }

    /// Whether a job is disabled, and neither was created, enabled nor ran for a long time. When it
    /// was disabled is not stored.
    pub(crate) fn disabled_long(
        job: &JobSummary,
        created: Option<Instant>,
        now: Instant,
    ) -> Option<Attention> {
        let created = created.filter(|_| job.filter_state() == JobFilterState::Disabled)?;
        let latest = [Some(created), job.last_execution, job.enabled_since];
        let at = latest.into_iter().flatten().max();
        let is_long = at.is_some_and(|at| at.saturating_add(DISABLED) < now);
        let disabled = Attention::of_job(AttentionKind::DisabledLong, job.job);
        is_long.then_some(Attention { at: job.last_execution, ..disabled })
    }

    /// Whether a certificate ends soon.
    pub(crate) fn certificate(job: JobKey, end: Instant, now: Instant) -> Option<Attention> {
        let expiring = Attention::of_job(AttentionKind::CertificateExpiring, job);
        let is_soon = end < now.saturating_add(CERTIFICATE);
        is_soon.then_some(Attention { at: Some(end), ..expiring })
    }

    /// A job whose definition cannot be read.
    pub(crate) fn unreadable(job: JobKey) -> Attention {
        Attention::of_job(AttentionKind::Unreadable, job)
    }

    /// Whether a collection has nearly as many jobs as it may have.
    pub(crate) fn quota(jobs: u64, max: Option<u64>) -> Option<Attention> {
        let max = max.filter(|max| jobs.saturating_mul(100) >= max * QUOTA_PERCENT)?;
        Some(Attention { kind: AttentionKind::QuotaNear, job: None, at: None, count: jobs, max })
    }

    /// The sentence that people read.
    pub(crate) fn message(&self, now: Instant) -> String {
        let Attention { at, count, max, .. } = self;
        let time = at.map(|at| at.to_string()).unwrap_or_default();
        match self.kind {
            AttentionKind::Unreadable => {
                "The definition of the job cannot be read; replace or delete the job.".to_owned()
            }
            AttentionKind::Failing => format!("The last {count} runs failed."),
            AttentionKind::Stuck => {
                let more = if *count >= SKIPPED_READ_MAX as u64 { " or more" } else { "" };
                format!(
                    "{count}{more} occurrences in a row were skipped: the run scheduled for {time} has not ended."
                )
            }
            AttentionKind::Overdue => format!("The run scheduled for {time} has not started."),
            AttentionKind::CertificateExpiring => match at.is_some_and(|at| at <= now) {
                true => format!("The client certificate expired at {time}."),
                false => format!("The client certificate expires at {time}."),
            },
            AttentionKind::QuotaNear => {
                format!("The collection has {count} of at most {max} jobs.")
            }
            AttentionKind::DisabledLong => match at {
                Some(_) => format!("The job is disabled and last ran at {time}."),
                None => "The job is disabled and has never run.".to_owned(),
            },
        }
    }

    /// When it began, if that is known.
    pub(crate) fn since(&self) -> Option<Instant> {
        match self.kind {
            AttentionKind::Stuck | AttentionKind::Overdue | AttentionKind::DisabledLong => self.at,
            _ => None,
        }
    }
}

impl AttentionKind {
    /// The name in the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            AttentionKind::Unreadable => "Unreadable",
            AttentionKind::Failing => "Failing",
            AttentionKind::Stuck => "Stuck",
            AttentionKind::Overdue => "Overdue",
            AttentionKind::CertificateExpiring => "CertificateExpiring",
            AttentionKind::QuotaNear => "QuotaNear",
            AttentionKind::DisabledLong => "DisabledLong",
        }
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::{Lifecycle, Switch};
    use kalends_store::record::CollectionKey;

    use super::*;

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    fn job() -> JobSummary {
        JobSummary {
            job: JobKey(1),
            collection: CollectionKey(1),
            switch: Switch::Enabled,
            lifecycle: Lifecycle::Active,
            due: None,
            used: 0,
            last_execution: None,
            enabled_since: None,
            consecutive_failures: 0,
        }
    }

    const NOW: &str = "2026-11-16T12:00:00Z";

    #[test]
    fn an_enabled_job_is_failing_from_the_third_failed_run_on() {
        let failing = |failures, switch| {
            let job = JobSummary { consecutive_failures: failures, switch, ..job() };
            Attention::failing(&job).map(|found| found.message(at(NOW)))
        };
        assert_eq!(failing(2, Switch::Enabled), None);
        assert_eq!(failing(3, Switch::Enabled).as_deref(), Some("The last 3 runs failed."));
        assert_eq!(failing(3, Switch::Disabled), None);
    }

    #[test]
    fn a_run_is_stuck_from_the_third_skipped_occurrence_on() {
        let stuck = |skipped| Attention::stuck(JobKey(1), at("2026-11-16T11:50:00Z"), skipped);
        assert_eq!(stuck(2), None);
        let rest = "occurrences in a row were skipped: the run scheduled for 2026-11-16T11:50:00Z has not ended.";
        for (skipped, number) in [(3, "3"), (20, "20 or more")] {
            assert_eq!(stuck(skipped).unwrap().message(at(NOW)), format!("{number} {rest}"));
        }
    }

    #[test]
    fn a_job_is_overdue_a_minute_after_its_scheduled_time() {
        let overdue = |due: &str, lifecycle| {
            let job = JobSummary { due: Some(at(due)), lifecycle, ..job() };
            Attention::overdue(&job, at(NOW)).map(|found| found.message(at(NOW)))
        };
        assert_eq!(overdue("2026-11-16T11:59:00Z", Lifecycle::Active), None);
        let message = "The run scheduled for 2026-11-16T11:58:59Z has not started.";
        let late = "2026-11-16T11:58:59Z";
        assert_eq!(overdue(late, Lifecycle::Active).as_deref(), Some(message));
        assert_eq!(overdue(late, Lifecycle::Completed), None);
    }

    #[test]
    fn a_disabled_job_is_listed_after_thirty_days_without_a_run() {
        let disabled = |created: &str, ran: Option<&str>, enabled: Option<&str>| {
            let job = JobSummary {
                switch: Switch::Disabled,
                last_execution: ran.map(at),
                enabled_since: enabled.map(at),
                ..job()
            };
            let found = Attention::disabled_long(&job, Some(at(created)), at(NOW));
            found.map(|found| found.message(at(NOW)))
        };
        let (old, recent) = ("2026-10-01T00:00:00Z", "2026-10-18T00:00:00Z");
        let never = "The job is disabled and has never run.";
        assert_eq!(disabled(old, None, None).as_deref(), Some(never));
        assert_eq!(disabled(recent, None, None), None);
        assert_eq!(disabled(old, Some(recent), None), None);
        assert_eq!(disabled(old, None, Some(recent)), None);
        let ran = format!("The job is disabled and last ran at {old}.");
        assert_eq!(disabled(old, Some(old), None), Some(ran));
        assert_eq!(Attention::disabled_long(&job(), Some(at(old)), at(NOW)), None, "enabled");
    }

    #[test]
    fn a_certificate_is_listed_thirty_days_before_it_expires() {
        let message = |end: &str| {
            let found = Attention::certificate(JobKey(1), at(end), at(NOW));
            found.map(|found| found.message(at(NOW)))
        };
        assert_eq!(message("2026-12-16T12:00:00Z"), None);
        let soon = "The client certificate expires at 2026-12-16T11:59:59Z.";
        assert_eq!(message("2026-12-16T11:59:59Z").as_deref(), Some(soon));
        let ended = "The client certificate expired at 2026-11-16T12:00:00Z.";
        assert_eq!(message(NOW).as_deref(), Some(ended));
    }

    #[test]
    fn a_collection_is_listed_from_nine_tenths_of_its_quota_on() {
        assert_eq!(Attention::quota(44, Some(50)), None);
        let near = Attention::quota(45, Some(50)).unwrap();
        assert_eq!(near.message(at(NOW)), "The collection has 45 of at most 50 jobs.");
        assert_eq!(Attention::quota(1_000_000, None), None);
        assert_eq!(Attention::quota(0, Some(1)), None);
    }
}
