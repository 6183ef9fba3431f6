//! Targets and a clock with the bug of a [`Mutant`] applied.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use kalends_actions::{
    ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, NotSent, SendFence,
};
use kalends_domain::{ActionRole, Outcome};
use kalends_environment::{Clock, Sleep};
use tokio::sync::Semaphore;

use crate::mutant::{Mutant, TRIGGERS_ONCE_IN};

/// Targets with an imitated bug of the engine in front.
pub(crate) struct MutantTargets {
    mutant: Mutant,
    inner: Arc<dyn ActionExecutor>,
    calls: AtomicU64,
    /// Slots that all hosts share.
    slots: Semaphore,
}

impl MutantTargets {
    pub(crate) fn new(mutant: Mutant, inner: Arc<dyn ActionExecutor>) -> MutantTargets {
        MutantTargets { mutant, inner, calls: AtomicU64::new(0), slots: Semaphore::new(2) }
    }
}

impl ActionExecutor for MutantTargets {
    fn execute<'a>(&'a self, request: AttemptRequest<'a>, fence: SendFence) -> AttemptFuture<'a> {
        Box::pin(async move {
            let triggers = self.calls.fetch_add(1, Ordering::Relaxed) % TRIGGERS_ONCE_IN
                == TRIGGERS_ONCE_IN - 1;
            let is_error = request.role == ActionRole::Error;
            let twice = match self.mutant {
                Mutant::SendsTwice => triggers,
                Mutant::RunsTheErrorActionTwice => is_error,
                _ => false,
            };
            if self.mutant == Mutant::ForgetsTheErrorAction && is_error {
                return Ok(AttemptReport::new(Outcome::Succeeded, "never sent"));
            }
            if twice {
                self.inner.execute(request, fence.clone()).await?;
            }
            let _slot = match self.mutant {
                Mutant::DelaysJobsBecauseAnotherHostHangs => self.slots.acquire().await.ok(),
                _ => None,
            };
            let fence = match self.mutant {
                Mutant::IgnoresTheSendFence => SendFence::unlimited(),
                _ => fence,
            };
            let execution = self.inner.execute(request, fence);
            let report = match self.mutant {
                Mutant::LosesAnAttemptThatPanics => never_panics(execution).await,
                _ => execution.await,
            };
            if self.mutant == Mutant::NeverReportsAnAttempt && triggers {
                std::future::pending::<()>().await;
            }
            report
        })
    }
}

/// Executes an attempt. If it panics, nothing is ever reported.
async fn never_panics(mut execution: AttemptFuture<'_>) -> Result<AttemptReport, NotSent> {
    let poll = |context: &mut Context<'_>| {
        catch_unwind(AssertUnwindSafe(|| execution.as_mut().poll(context)))
    };
    let mut poll = Some(poll);
    poll_fn(move |context| match poll.as_mut().map(|poll| poll(context)) {
        Some(Ok(result)) => result,
        _ => {
            poll = None;
            Poll::Pending
        }
    })
    .await
}

/// A clock that is one millisecond ahead, as by a rounding error.
pub(crate) struct EarlyClock(pub(crate) Arc<dyn Clock>);

pub(crate) const EARLY_BY: Duration = Duration::from_millis(1);

impl Clock for EarlyClock {
    fn now(&self) -> Timestamp {
        self.0.now().saturating_add(EARLY_BY).unwrap_or(Timestamp::MAX)
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        self.0.sleep_until(until.saturating_sub(EARLY_BY).unwrap_or(until))
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        self.0.sleep(duration)
    }
}
