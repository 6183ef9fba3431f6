//! Test runs: attempts of definitions that are not saved.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::ActionExecutor;
use kalends_domain::{JobDefinition, Verbatim};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::access::{AccessControl, Caller};
use crate::capacity::{CapacityPermit, ShareLimits, SharedCapacity};
use crate::client::ClientNetwork;
use crate::response::ApiError;

/// Concurrent test runs: each holds a request and a connection to a target for up to a minute.
const TEST_RUNS: ShareLimits = ShareLimits { total: 4, per_client: 2, per_caller: 2 };
/// Time limit of a test run, also if the definition has a longer one: its client waits for it.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// `Retry-After` of a test run above the limit.
const RETRY_SECONDS: u64 = 5;

/// Executes test runs, a limited number at the same time.
#[derive(Clone)]
pub struct TestRuns {
    /// `None`: this node runs no jobs.
    executor: Option<Arc<dyn ActionExecutor>>,
    capacity: Arc<SharedCapacity>,
    /// Time limit of definitions without one.
    timeout: Duration,
}

impl TestRuns {
    /// Callers have shares unless the server has a single user. Without an executor, test runs are
    /// refused.
    pub fn new(
        executor: Option<Arc<dyn ActionExecutor>>,
        timeout: Duration,
        access: &AccessControl,
    ) -> TestRuns {
        let limits = if access.is_single_user() { TEST_RUNS.without_shares() } else { TEST_RUNS };
        TestRuns { executor, capacity: SharedCapacity::new(limits), timeout }
    }

    /// The executor, and a permit for one further test run.
    pub(crate) fn start(
        &self,
        client: ClientNetwork,
        caller: &Caller,
    ) -> Result<(Arc<dyn ActionExecutor>, CapacityPermit), ApiError> {
        let Some(executor) = &self.executor else {
            let message = "This server runs no jobs (--hold), and no test runs either";
            return Err(ErrorDetails::one(ErrorCode::JobNotRunnable, "", message).into());
        };
        let permit = self.capacity.acquire(client, Some(&caller.id)).map_err(|_| {
            let message = "Too many test runs at the same time; retry when one has finished";
            let details = ErrorDetails::one(ErrorCode::TooManyRequests, "", message);
            ApiError::rate_limited(details, RETRY_SECONDS)
        })?;
        Ok((Arc::clone(executor), permit))
    }

    /// Time limit of the test run of a definition.
    pub(crate) fn timeout(&self, definition: &JobDefinition) -> Duration {
        let own = definition.extensions.timeout.as_ref().map(Verbatim::value);
        own.copied().unwrap_or(self.timeout).min(TIMEOUT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::Limits;
    use kalends_wire::{Json, Version, read_job};

    use super::*;
    use crate::audit::AuditLog;

    #[test]
    fn a_test_run_takes_a_minute_at_most() {
        let access = AccessControl::single_user(AuditLog::off());
        let timeout = |default: u64, own: &str| {
            let body = format!(
                r#"{{"properties":{{{own}"action":{{"type":"Http","request":{{"uri":"http://a/","method":"GET"}}}}}}}}"#
            );
            let body = Json::parse(body.as_bytes()).unwrap();
            let definition = read_job(&body, Version::NEWEST, &Limits::default()).unwrap();
            let runs = TestRuns::new(None, Duration::from_secs(default), &access);
            runs.timeout(&definition).as_secs()
        };
        assert_eq!(timeout(30, ""), 30);
        assert_eq!(timeout(600, ""), 60);
        assert_eq!(timeout(30, r#""timeout":"PT5S","#), 5);
        assert_eq!(timeout(30, r#""timeout":"PT5M","#), 60);
    }
}
