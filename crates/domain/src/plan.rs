//! Plans: how many jobs, how often, and what a job may use.

use std::time::Duration;

use kalends_recurrence::{Frequency, Rule};

use crate::collection::{Collection, MaxRecurrence};
use crate::fault::{Fault, FaultKind};
use crate::job::{Action, JobDefinition, Target};
use crate::retry::RetryPolicy;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The plans of the retired service. `Premium` of its first versions is `P10Premium`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented values")]
pub enum Plan {
    Free,
    Standard,
    P10Premium,
    P20Premium,
}

/// Whether the limits of plans hold. An operator may lift them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanLimits {
    /// As documented.
    #[default]
    On,
    /// Only the quotas that collections set themselves.
    Off,
}

impl Plan {
    /// How many jobs a collection may hold.
    pub fn jobs_max(self) -> u32 {
        match self {
            Plan::Free => 5,
            Plan::Standard | Plan::P10Premium => 50,
            Plan::P20Premium => 1_000,
        }
    }

    /// How many collections of the plan a subscription may have.
    pub fn collections_max(self) -> u32 {
        match self {
            Plan::Free => 1,
            Plan::Standard => 100,
            Plan::P10Premium | Plan::P20Premium => 10_000,
        }
    }

    /// The shortest time between two occurrences of a job.
    pub fn gap_min(self) -> Duration {
        match self {
            Plan::Free => HOUR,
            _ => MINUTE,
        }
    }
}

impl MaxRecurrence {
    /// The shortest time between two occurrences that it allows.
    pub fn gap_min(self) -> Duration {
        let unit = match self.frequency {
            Frequency::Minute => MINUTE,
            Frequency::Hour => HOUR,
            Frequency::Day => DAY,
            Frequency::Week => 7 * DAY,
            // The shortest month and the shortest year, so that a job of the same frequency fits.
            Frequency::Month => 28 * DAY,
            Frequency::Year => 365 * DAY,
        };
        unit.saturating_mul(self.interval)
    }
}

/// How many jobs a collection may hold.
pub fn jobs_max(collection: &Collection, limits: PlanLimits) -> u32 {
    let quota = collection.quota.as_ref().and_then(|quota| quota.max_job_count);
    match limits {
        PlanLimits::On => {
            quota.map_or(collection.plan.jobs_max(), |max| max.min(collection.plan.jobs_max()))
        }
        PlanLimits::Off => quota.unwrap_or(u32::MAX),
    }
}

/// Whether the quota of a collection is within its plan. A refusal names the member.
pub fn check_quota(
    collection: &Collection,
    limits: PlanLimits,
) -> Result<(), (&'static str, Fault)> {
    let Some(quota) = &collection.quota else { return Ok(()) };
    let plan = collection.plan;
    if limits == PlanLimits::Off {
        return Ok(());
    }
    let fault = |message: String| Fault::new(FaultKind::QuotaAbovePlan, message);
    if let Some(count) = quota.max_job_count.filter(|&count| count > plan.jobs_max()) {
        let message = format!("{count} is more than the plan allows ({})", plan.jobs_max());
        return Err(("quota.maxJobCount", fault(message)));
    }
    if quota.max_recurrence.is_some_and(|max| max.gap_min() < plan.gap_min()) {
        let message =
            format!("it is more frequent than the plan allows ({})", in_words(plan.gap_min()));
        return Err(("quota.maxRecurrence", fault(message)));
    }
    Ok(())
}

/// Whether a job fits into its collection: how often it runs, and what its plan lets it use. A
/// refusal names the member.
pub fn check_job(
    job: &JobDefinition,
    rule: &Rule,
    collection: &Collection,
    limits: PlanLimits,
) -> Result<(), (&'static str, Fault)> {
    let quota = collection.quota.as_ref().and_then(|quota| quota.max_recurrence);
    let by_quota = quota.map(MaxRecurrence::gap_min);
    let by_plan = (limits == PlanLimits::On).then(|| collection.plan.gap_min());
    let gap_min = by_quota.into_iter().chain(by_plan).max().unwrap_or_default();
    if let Some(gap) = rule.shortest_gap().filter(|&gap| gap < gap_min) {
        let message = format!(
            "two of its occurrences are {} apart; the collection allows {} and more",
            in_words(gap),
            in_words(gap_min)
        );
        return Err(("recurrence", Fault::new(FaultKind::RecurrenceTooFrequent, message)));
    }
    if limits == PlanLimits::On && collection.plan == Plan::Free {
        check_free(job)?;
    }
    Ok(())
}

/// What the free plan does not have: authentication, and retries within the hour.
fn check_free(job: &JobDefinition) -> Result<(), (&'static str, Fault)> {
    let main = &job.action;
    let error = main.error_action.as_ref();
    let authenticates = |action: &Action| match &action.target {
        Target::Http(request) => request.authentication.is_some(),
        _ => false,
    };
    let retries_soon = |policy: Option<&RetryPolicy>| {
        policy.and_then(|policy| policy.interval.as_ref()).is_some_and(|wait| *wait.value() < HOUR)
    };
    let authentication = "the Free plan has no authentication; choose another plan or leave it out";
    let interval = "the Free plan retries after an hour at the earliest; allowed are PT1H and more";
    for (path, refused, message) in [
        ("action.request.authentication", authenticates(&main.action), authentication),
        (
            "action.errorAction.request.authentication",
            error.is_some_and(|error| authenticates(&error.action)),
            authentication,
        ),
        ("action.retryPolicy.retryInterval", retries_soon(main.retry.as_ref()), interval),
        (
            "action.errorAction.retryPolicy.retryInterval",
            error.is_some_and(|error| retries_soon(error.retry.as_ref())),
            interval,
        ),
    ] {
        if refused {
            return Err((path, Fault::new(FaultKind::NotInFreePlan, message)));
        }
    }
    Ok(())
}

fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} seconds"),
        60..3_600 => format!("{} minutes", seconds / 60),
        3_600..86_400 => format!("{} hours", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
