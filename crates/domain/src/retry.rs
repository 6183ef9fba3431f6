//! Retry policies.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::limits::Limits;
use crate::plan::iso_duration;
use crate::validation_error::{ValidationError, ValidationErrorKind};
use crate::verbatim::Verbatim;

/// Default policy: four retries, 30 seconds apart.
const DEFAULT_COUNT: u32 = 4;
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// Default maximum interval of an exponential policy.
const DEFAULT_INTERVAL_MAX: Duration = Duration::from_secs(3_600);

/// The `retryPolicy` member of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// `retryType`.
    pub kind: RetryKind,
    /// `retryInterval`: the (first) interval; 30 seconds if absent.
    pub interval: Option<Verbatim<Duration>>,
    /// `retryCount`: maximum number of retries; 4 if absent.
    pub count: Option<u32>,
    /// `maxInterval`: maximum interval of an exponential policy; one hour if absent.
    pub interval_max: Option<Verbatim<Duration>>,
    /// `maxAge`: an exponential policy starts no attempt later than this after the first one.
    pub age_max: Option<Verbatim<Duration>>,
}

/// Types of retry policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryKind {
    /// No retries.
    None,
    /// Retries at a fixed interval.
    Fixed,
    /// Retries at an interval that doubles each time.
    Exponential,
}

impl RetryPolicy {
    /// Checks intervals and count against the limits. The error names the member.
    pub fn check(&self, limits: &Limits) -> Result<(), (&'static str, ValidationError)> {
        let error = |message: String| {
            ValidationError::new(ValidationErrorKind::InvalidRetryPolicy, message)
        };
        let (min, max) = (limits.retry_interval_min, limits.retry_interval_max);
        for (member, wait) in
            [("retryInterval", &self.interval), ("maxInterval", &self.interval_max)]
        {
            if wait.as_ref().is_some_and(|wait| !(min..=max).contains(wait.value())) {
                let found = wait.as_ref().map_or("", |wait| wait.text());
                let message =
                    format!("must be between {} and {}", iso_duration(min), iso_duration(max));
                return Err((member, error(message).found(format!("{found:?}"))));
            }
        }
        let count_max = limits.retry_count_max;
        if let Some(count) = self.count.filter(|&count| count > count_max) {
            let message = format!("must be between 0 and {count_max}");
            return Err(("retryCount", error(message).found(count.to_string())));
        }
        Ok(())
    }
}

/// A retry policy with its defaults applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    count: u32,
    interval: Duration,
    growth: Growth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Fixed,
    Doubling { interval_max: Duration, age_max: Option<Duration> },
}

impl Retries {
    /// Applies the defaults to a policy; `None` is the default policy.
    pub fn of(policy: Option<&RetryPolicy>) -> Retries {
        let Some(policy) = policy else {
            return Retries {
                count: DEFAULT_COUNT,
                interval: DEFAULT_INTERVAL,
                growth: Growth::Fixed,
            };
        };
        let value = |wait: &Option<Verbatim<Duration>>| wait.as_ref().map(|wait| *wait.value());
        Retries {
            count: match policy.kind {
                RetryKind::None => 0,
                _ => policy.count.unwrap_or(DEFAULT_COUNT),
            },
            interval: value(&policy.interval).unwrap_or(DEFAULT_INTERVAL),
            growth: match policy.kind {
                RetryKind::Exponential => Growth::Doubling {
                    interval_max: value(&policy.interval_max).unwrap_or(DEFAULT_INTERVAL_MAX),
                    age_max: value(&policy.age_max),
                },
                _ => Growth::Fixed,
            },
        }
    }

    /// The start time of the next attempt after one that ended at `ended`; `None` if no retry is left.
    ///
    /// `retries_made` is 0 after the first attempt. `first_started` is the start time of the first
    /// attempt. `retry_after` is the interval requested by the target; only an exponential policy
    /// respects it.
    pub fn next(
        &self,
        retries_made: u32,
        first_started: Instant,
        ended: Instant,
        retry_after: Option<Duration>,
    ) -> Option<Instant> {
        if retries_made >= self.count {
            return None;
        }
        match self.growth {
            Growth::Fixed => Some(ended.saturating_add(self.interval)),
            Growth::Doubling { interval_max, age_max } => {
                let doubled = self.interval.saturating_mul(2_u32.saturating_pow(retries_made));
                let wait = doubled.min(interval_max).max(retry_after.unwrap_or_default());
                let next = ended.saturating_add(wait);
                let last = age_max.map(|age| first_started.saturating_add(age));
                last.is_none_or(|last| next <= last).then_some(next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        let epoch: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
        epoch.saturating_add(Duration::from_secs(seconds))
    }

    fn wait(seconds: u64) -> Option<Verbatim<Duration>> {
        Some(Verbatim::new("", Duration::from_secs(seconds)))
    }

    fn policy(kind: RetryKind) -> RetryPolicy {
        RetryPolicy { kind, interval: None, count: None, interval_max: None, age_max: None }
    }

    #[test]
    fn the_default_is_four_retries_thirty_seconds_apart() {
        for policy in [None, Some(&policy(RetryKind::Fixed))] {
            let retries = Retries::of(policy);
            assert_eq!(retries.next(0, at(0), at(2), None), Some(at(32)));
            assert_eq!(retries.next(3, at(0), at(2), None), Some(at(32)));
            assert_eq!(retries.next(4, at(0), at(2), None), None);
        }
    }

    #[test]
    fn type_none_never_retries_regardless_of_the_count() {
        let policy = RetryPolicy { count: Some(3), ..policy(RetryKind::None) };
        assert_eq!(Retries::of(Some(&policy)).next(0, at(0), at(2), None), None);
    }

    #[test]
    fn exponential_intervals_double_up_to_the_maximum_and_respect_retry_after() {
        let policy = RetryPolicy {
            interval: wait(10),
            count: Some(20),
            interval_max: wait(60),
            age_max: wait(600),
            ..policy(RetryKind::Exponential)
        };
        let retries = Retries::of(Some(&policy));
        let waits = |made| retries.next(made, at(0), at(100), None);
        assert_eq!([0, 1, 2, 3, 19].map(waits), [110, 120, 140, 160, 160].map(|s| Some(at(s))));
        let retry_after = Some(Duration::from_secs(200));
        assert_eq!(retries.next(0, at(0), at(100), retry_after), Some(at(300)));
        assert_eq!(retries.next(0, at(0), at(590), None), Some(at(600)));
        assert_eq!(retries.next(0, at(0), at(591), None), None);
    }

    #[test]
    fn policies_beyond_the_limits_are_rejected() {
        let limits = Limits::default();
        let check = |policy: RetryPolicy| policy.check(&limits).map_err(|(member, _)| member);
        let fixed = || policy(RetryKind::Fixed);
        assert_eq!(check(RetryPolicy { interval: wait(15), count: Some(20), ..fixed() }), Ok(()));
        assert_eq!(check(RetryPolicy { interval: wait(14), ..fixed() }), Err("retryInterval"));
        assert_eq!(
            check(RetryPolicy { interval: wait(600 * 86_400), ..fixed() }),
            Err("retryInterval")
        );
        assert_eq!(check(RetryPolicy { count: Some(21), ..fixed() }), Err("retryCount"));
    }
}
