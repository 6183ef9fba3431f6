//! Plans and quotas: limits on the number of jobs, on their frequency and on their features.

use std::time::Duration;

use kalends_recurrence::{Frequency, Rule};

use crate::collection::{Collection, MaxRecurrence};
use crate::job::{Action, JobDefinition, Target};
use crate::retry::RetryPolicy;
use crate::validation_error::{ValidationError, ValidationErrorKind};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The plans of Azure Scheduler. `Premium` of its first API versions is `P10Premium`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented values")]
pub enum Plan {
    Free,
    Standard,
    P10Premium,
    P20Premium,
    /// `Standard` without limits: the plan of collections that the first PUT of a job created.
    StandardUnlimited,
}

/// Whether plan limits are enforced. An operator can turn them off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanLimits {
    /// Plan limits and collection quotas apply.
    #[default]
    On,
    /// Only collection quotas apply.
    Off,
}

/// Aggregated [`JobFacts`] of a collection, for checks against plan and quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionFacts {
    /// Number of jobs.
    pub jobs: u64,
    /// Minimum of [`JobFacts::shortest_gap`].
    pub shortest_gap: Option<Duration>,
    /// Number of jobs that use HTTP authentication.
    pub authenticated: u64,
    /// Minimum of [`JobFacts::shortest_retry`].
    pub shortest_retry: Option<Duration>,
}

/// The properties of a job that plan and quota limit, computed when the job is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// The shortest time between two occurrences; absent for a one-time job.
    pub shortest_gap: Option<Duration>,
    /// Whether the action or the error action uses HTTP authentication.
    pub authenticated: bool,
    /// The shortest retry interval of its policies; absent if none is given.
    pub shortest_retry: Option<Duration>,
}

impl Plan {
    /// Maximum number of jobs in a collection.
    pub fn jobs_max(self) -> u32 {
        match self {
            Plan::Free => 5,
            Plan::Standard | Plan::P10Premium => 50,
            Plan::P20Premium => 1_000,
            Plan::StandardUnlimited => u32::MAX,
        }
    }

    /// Maximum number of collections with this plan in a subscription.
    pub fn collections_max(self) -> u32 {
        match self {
            Plan::Free => 1,
            Plan::Standard => 100,
            Plan::P10Premium | Plan::P20Premium => 10_000,
            Plan::StandardUnlimited => u32::MAX,
        }
    }

    /// Minimum time between two occurrences of a job.
    pub fn gap_min(self) -> Duration {
        match self {
            Plan::Free => HOUR,
            Plan::Standard | Plan::P10Premium | Plan::P20Premium => MINUTE,
            Plan::StandardUnlimited => Duration::ZERO,
        }
    }
}

impl MaxRecurrence {
    /// Minimum time between two occurrences of a job.
    pub fn gap_min(self) -> Duration {
        let unit = match self.frequency {
            Frequency::Minute => MINUTE,
            Frequency::Hour => HOUR,
            Frequency::Day => DAY,
            Frequency::Week => 7 * DAY,
            // The shortest month and year, so that a job of the same frequency is allowed.
            Frequency::Month => 28 * DAY,
            Frequency::Year => 365 * DAY,
        };
        unit.saturating_mul(self.interval)
    }
}

/// Maximum number of jobs in a collection: the lower of plan and quota.
pub fn jobs_max(collection: &Collection, limits: PlanLimits) -> u32 {
    let quota = collection.quota.as_ref().and_then(|quota| quota.max_job_count);
    match limits {
        PlanLimits::On => {
            quota.map_or(collection.plan.jobs_max(), |max| max.min(collection.plan.jobs_max()))
        }
        PlanLimits::Off => quota.unwrap_or(u32::MAX),
    }
}

/// Checks the quota of a collection against its plan. The error names the member.
fn check_quota(
    collection: &Collection,
    limits: PlanLimits,
) -> Result<(), (&'static str, ValidationError)> {
    let Some(quota) = &collection.quota else { return Ok(()) };
    let plan = collection.plan;
    if limits == PlanLimits::Off {
        return Ok(());
    }
    let error =
        |message: String| ValidationError::new(ValidationErrorKind::QuotaAbovePlan, message);
    if let Some(count) = quota.max_job_count.filter(|&count| count > plan.jobs_max()) {
        let message = format!("{count} is more than the plan allows ({})", plan.jobs_max());
        return Err(("quota.maxJobCount", error(message)));
    }
    if quota.max_recurrence.is_some_and(|max| max.gap_min() < plan.gap_min()) {
        let message =
            format!("it is more frequent than the plan allows ({})", in_words(plan.gap_min()));
        return Err(("quota.maxRecurrence", error(message)));
    }
    Ok(())
}

/// Computes the properties of a job that plan and quota limit.
pub fn facts_of(job: &JobDefinition, rule: &Rule) -> JobFacts {
    let main = &job.action;
    let error = main.error_action.as_ref();
    let authenticates = |action: &Action| match &action.target {
        Target::Http(request) => request.authentication.is_some(),
        _ => false,
    };
    let interval = |policy: Option<&RetryPolicy>| Some(*policy?.interval.as_ref()?.value());
    let retries =
        [interval(main.retry.as_ref()), error.and_then(|error| interval(error.retry.as_ref()))];
    JobFacts {
        shortest_gap: rule.shortest_gap(),
        authenticated: authenticates(&main.action)
            || error.is_some_and(|error| authenticates(&error.action)),
        shortest_retry: retries.into_iter().flatten().min(),
    }
}

/// Checks a job against plan and quota of its collection. The error names the member.
pub fn check_job(
    facts: &JobFacts,
    collection: &Collection,
    limits: PlanLimits,
) -> Result<(), (&'static str, ValidationError)> {
    let gap_min = gap_min(collection, limits);
    if let Some(gap) = facts.shortest_gap.filter(|&gap| gap < gap_min) {
        let message = format!(
            "two of its occurrences are {} apart; the collection allows {} and more",
            in_words(gap),
            in_words(gap_min)
        );
        return Err((
            "recurrence",
            ValidationError::new(ValidationErrorKind::RecurrenceTooFrequent, message),
        ));
    }
    if limits == PlanLimits::Off || collection.plan != Plan::Free {
        return Ok(());
    }
    let error = |message: &str| ValidationError::new(ValidationErrorKind::NotInFreePlan, message);
    if facts.authenticated {
        let message = "the Free plan has no authentication; choose another plan or leave it out";
        return Err(("action.request.authentication", error(message)));
    }
    if facts.shortest_retry.is_some_and(|wait| wait < HOUR) {
        let message =
            "the Free plan retries after an hour at the earliest; allowed are PT1H and more";
        return Err(("action.retryPolicy.retryInterval", error(message)));
    }
    Ok(())
}

/// Checks a new or changed collection against its plan, its existing jobs and the `others_of_plan`
/// other collections with the same plan in its subscription. The error names the member.
pub fn check_collection(
    collection: &Collection,
    facts: &CollectionFacts,
    others_of_plan: u64,
    limits: PlanLimits,
) -> Result<(), (&'static str, ValidationError)> {
    check_quota(collection, limits)?;
    let max = jobs_max(collection, limits);
    let conflict =
        |message: String| ValidationError::new(ValidationErrorKind::QuotaConflict, message);
    if facts.jobs > u64::from(max) {
        let message = format!("it has {} jobs, and would be allowed {max}", facts.jobs);
        return Err(("quota.maxJobCount", conflict(message)));
    }
    let gap_min = gap_min(collection, limits);
    if let Some(gap) = facts.shortest_gap.filter(|&gap| gap < gap_min) {
        let (gap, gap_min) = (in_words(gap), in_words(gap_min));
        let message = format!(
            "it has a job that recurs after {gap}, and would be allowed {gap_min} and more"
        );
        return Err(("quota.maxRecurrence", conflict(message)));
    }
    if limits == PlanLimits::Off {
        return Ok(());
    }
    if others_of_plan >= u64::from(collection.plan.collections_max()) {
        let max = collection.plan.collections_max();
        let message = format!(
            "the subscription has {others_of_plan} other collections of this plan; allowed are {max}"
        );
        return Err((
            "sku.name",
            ValidationError::new(ValidationErrorKind::CollectionsMax, message),
        ));
    }
    if collection.plan == Plan::Free && facts.authenticated > 0 {
        let message = format!(
            "{} of its jobs use authentication, which the Free plan does not have",
            facts.authenticated
        );
        return Err(("sku.name", conflict(message)));
    }
    Ok(())
}

/// Minimum time between two occurrences of a job in a collection.
fn gap_min(collection: &Collection, limits: PlanLimits) -> Duration {
    let quota = collection.quota.as_ref().and_then(|quota| quota.max_recurrence);
    let by_quota = quota.map(MaxRecurrence::gap_min);
    let by_plan = (limits == PlanLimits::On).then(|| collection.plan.gap_min());
    by_quota.into_iter().chain(by_plan).max().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{CollectionState, Location, Quota};

    fn collection(plan: Plan, quota: Option<Quota>) -> Collection {
        let location = Location::new("West US").unwrap();
        Collection { location, tags: None, plan, state: CollectionState::Enabled, quota }
    }

    fn quota(jobs: Option<u32>, recurrence: Option<(Frequency, u32)>) -> Option<Quota> {
        let max_recurrence =
            recurrence.map(|(frequency, interval)| MaxRecurrence { frequency, interval });
        Some(Quota { max_job_count: jobs, max_job_occurrence: None, max_recurrence })
    }

    fn job(gap: Option<Duration>, authenticated: bool, retry: Option<Duration>) -> JobFacts {
        JobFacts { shortest_gap: gap, authenticated, shortest_retry: retry }
    }

    #[test]
    fn plans_have_the_documented_limits() {
        let counts =
            [Plan::Free, Plan::Standard, Plan::P10Premium, Plan::P20Premium].map(Plan::jobs_max);
        assert_eq!(counts, [5, 50, 50, 1_000]);
        let lowered = collection(Plan::Standard, quota(Some(20), None));
        assert_eq!(jobs_max(&lowered, PlanLimits::On), 20);
        assert_eq!(jobs_max(&collection(Plan::Free, None), PlanLimits::Off), u32::MAX);
        assert_eq!(jobs_max(&lowered, PlanLimits::Off), 20, "the collection's quota applies");
    }

    #[test]
    fn a_quota_cannot_exceed_the_plan() {
        let check = |plan, quota| {
            let checked = check_quota(&collection(plan, quota), PlanLimits::On);
            checked.map_err(|(path, _)| path)
        };
        assert_eq!(check(Plan::Standard, quota(Some(50), Some((Frequency::Minute, 1)))), Ok(()));
        assert_eq!(check(Plan::Standard, quota(Some(51), None)), Err("quota.maxJobCount"));
        assert_eq!(check(Plan::Free, quota(Some(5), Some((Frequency::Hour, 1)))), Ok(()));
        let minutes = quota(None, Some((Frequency::Minute, 30)));
        assert_eq!(check(Plan::Free, minutes.clone()), Err("quota.maxRecurrence"));
        let lifted = check_quota(&collection(Plan::Free, minutes), PlanLimits::Off);
        assert_eq!(lifted, Ok(()));
    }

    #[test]
    fn a_job_cannot_recur_more_often_than_plan_and_quota_allow() {
        let check = |facts, plan, quota| {
            let checked = check_job(&facts, &collection(plan, quota), PlanLimits::On);
            checked.map_err(|(path, _)| path)
        };
        let every = |gap| job(Some(gap), false, None);
        assert_eq!(check(every(MINUTE), Plan::Standard, None), Ok(()));
        assert_eq!(check(every(MINUTE), Plan::Free, None), Err("recurrence"));
        assert_eq!(check(every(HOUR), Plan::Free, None), Ok(()));
        let weekly = || quota(None, Some((Frequency::Week, 1)));
        assert_eq!(check(every(7 * DAY), Plan::Standard, weekly()), Ok(()));
        assert_eq!(check(every(6 * DAY), Plan::Standard, weekly()), Err("recurrence"));
        let monthly = quota(None, Some((Frequency::Month, 1)));
        assert_eq!(check(every(28 * DAY), Plan::Standard, monthly), Ok(()), "February");
        assert_eq!(check(job(None, false, None), Plan::Standard, weekly()), Ok(()), "once");
    }

    #[test]
    fn the_free_plan_has_no_authentication_and_no_retries_within_the_hour() {
        let check = |facts, limits| {
            check_job(&facts, &collection(Plan::Free, None), limits).map_err(|(path, _)| path)
        };
        let authenticated = job(None, true, None);
        let early_retry = job(None, false, Some(MINUTE));
        assert_eq!(check(authenticated, PlanLimits::On), Err("action.request.authentication"));
        assert_eq!(check(early_retry, PlanLimits::On), Err("action.retryPolicy.retryInterval"));
        assert_eq!(check(job(None, false, Some(HOUR)), PlanLimits::On), Ok(()));
        assert_eq!(check(authenticated, PlanLimits::Off), Ok(()));
    }

    #[test]
    fn changing_to_the_free_plan_needs_matching_jobs_and_no_other_free_collection() {
        let holds = |jobs, gap, authenticated| CollectionFacts {
            jobs,
            shortest_gap: gap,
            authenticated,
            shortest_retry: None,
        };
        let check = |facts: CollectionFacts, others| {
            let free = collection(Plan::Free, None);
            check_collection(&free, &facts, others, PlanLimits::On).map_err(|(path, _)| path)
        };
        assert_eq!(check(holds(5, Some(HOUR), 0), 0), Ok(()));
        assert_eq!(check(holds(6, None, 0), 0), Err("quota.maxJobCount"));
        assert_eq!(check(holds(1, Some(MINUTE), 0), 0), Err("quota.maxRecurrence"));
        assert_eq!(check(holds(1, None, 1), 0), Err("sku.name"));
        assert_eq!(check(holds(0, None, 0), 1), Err("sku.name"));
    }

    #[test]
    fn a_quota_cannot_be_lowered_below_the_existing_jobs() {
        let facts = CollectionFacts { jobs: 3, ..CollectionFacts::default() };
        let check = |jobs| {
            let lowered = collection(Plan::Standard, quota(Some(jobs), None));
            check_collection(&lowered, &facts, 0, PlanLimits::On).map_err(|(path, _)| path)
        };
        assert_eq!((check(3), check(2)), (Ok(()), Err("quota.maxJobCount")));
    }
}
