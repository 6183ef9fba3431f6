//! The retry policy of a definition, derived independently of the engine.

use std::time::Duration;

use kalends_domain::{ActionRole, JobDefinition, RetryKind, RetryPolicy};

/// Expected retries of one action.
pub(super) struct ExpectedRetries {
    pub(super) count: u32,
    interval: Duration,
    doubles_up_to: Option<Duration>,
    pub(super) age_max: Option<Duration>,
}

impl ExpectedRetries {
    pub(super) fn of(definition: &JobDefinition, role: ActionRole) -> ExpectedRetries {
        let main = &definition.action;
        let error = main.error_action.as_ref().and_then(|error| error.retry.as_deref());
        let policy: Option<&RetryPolicy> = match role {
            ActionRole::Main => main.retry.as_deref(),
            ActionRole::Error => error.or(main.retry.as_deref()),
        };
        let kind = policy.map_or(RetryKind::Fixed, |policy| policy.kind);
        let given =
            |wait: Option<&kalends_domain::Verbatim<Duration>>| wait.map(|wait| *wait.value());
        let interval = given(policy.and_then(|policy| policy.interval.as_ref()));
        let doubles = kind == RetryKind::Exponential;
        let longest = given(policy.and_then(|policy| policy.interval_max.as_ref()));
        ExpectedRetries {
            count: match kind {
                RetryKind::None => 0,
                _ => policy.and_then(|policy| policy.count).unwrap_or(4),
            },
            interval: interval.unwrap_or(Duration::from_secs(30)),
            doubles_up_to: doubles.then(|| longest.unwrap_or(Duration::from_secs(3_600))),
            age_max: policy.filter(|_| doubles).and_then(|policy| given(policy.age_max.as_ref())),
        }
    }

    /// Minimum time between the end of an attempt and retry `number`.
    pub(super) fn wait(&self, number: u32, retry_after: Option<Duration>) -> Duration {
        match self.doubles_up_to {
            None => self.interval,
            Some(longest) => {
                let factor = 2_u32.saturating_pow(number.saturating_sub(1));
                let doubled = self.interval.saturating_mul(factor).min(longest);
                doubled.max(retry_after.unwrap_or_default())
            }
        }
    }
}
