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
        let message = format!("must be at most {}, the limit of its plan", plan.jobs_max());
        return Err(("quota.maxJobCount", error(message).found(count.to_string())));
    }
    if let Some(max) = quota.max_recurrence.filter(|max| max.gap_min() < plan.gap_min()) {
        let message =
            format!("must be at least {}, the limit of its plan", in_words(plan.gap_min()));
        return Err(("quota.maxRecurrence", error(message).found(in_words(max.gap_min()))));
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
        [interval(main.retry.as_deref()), error.and_then(|error| interval(error.retry.as_deref()))];
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
            "must leave at least {} between two occurrences, the limit of the collection",
            in_words(gap_min)
        );
        let error = ValidationError::new(ValidationErrorKind::RecurrenceTooFrequent, message);
        return Err(("recurrence", error.found(in_words(gap))));
    }
    if limits == PlanLimits::Off || collection.plan != Plan::Free {
        return Ok(());
    }
    let error = |message: &str| ValidationError::new(ValidationErrorKind::NotInFreePlan, message);
    if facts.authenticated {
        let error = error("is not available in the Free plan").without_value();
        let hint = "choose another plan for the collection, or leave it out";
        return Err(("action.request.authentication", error.hint(hint)));
    }
    if let Some(wait) = facts.shortest_retry.filter(|&wait| wait < HOUR) {
        let error = error("must be at least PT1H in the Free plan");
        return Err(("action.retryPolicy.retryInterval", error.found(iso_duration(wait))));
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
    let conflict = |message: String| {
        ValidationError::new(ValidationErrorKind::QuotaConflict, message).without_value()
    };
    if facts.jobs > u64::from(max) {
        let message = format!("must be at least {}, the number of its jobs", facts.jobs);
        return Err(("quota.maxJobCount", conflict(message).found(max.to_string())));
    }
    let gap_min = gap_min(collection, limits);
    if let Some(gap) = facts.shortest_gap.filter(|&gap| gap < gap_min) {
        let message =
            format!("must be at most {}, the shortest interval of its jobs", in_words(gap));
        return Err(("quota.maxRecurrence", conflict(message).found(in_words(gap_min))));
    }
    if limits == PlanLimits::Off {
        return Ok(());
    }
    if others_of_plan >= u64::from(collection.plan.collections_max()) {
        let max = counted(collection.plan.collections_max().into(), "collection");
        let message = format!("allows {max} per subscription");
        let error = ValidationError::new(ValidationErrorKind::CollectionsMax, message);
        let found = format!("{} of this plan", counted(others_of_plan, "other collection"));
        return Err(("sku.name", error.found(found)));
    }
    if collection.plan == Plan::Free && facts.authenticated > 0 {
        let jobs = counted(facts.authenticated, "job");
        let error = conflict("must not be Free, which has no authentication".to_owned());
        return Err(("sku.name", error.found(format!("{jobs} with authentication"))));
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

/// A duration in its largest unit, for messages.
fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => counted(seconds, "second"),
        60..3_600 => counted(seconds / 60, "minute"),
        3_600..86_400 => counted(seconds / 3_600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

/// A number with the singular or plural of what it counts: `1 job`, `2 jobs`.
pub fn counted(number: u64, singular: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {singular}{plural}")
}

/// A duration in ISO 8601 form, in its largest whole unit, for messages.
pub(crate) fn iso_duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => "PT0S".to_owned(),
        seconds if seconds % 86_400 == 0 => format!("P{}D", seconds / 86_400),
        seconds if seconds % 3_600 == 0 => format!("PT{}H", seconds / 3_600),
        seconds if seconds % 60 == 0 => format!("PT{}M", seconds / 60),
        seconds => format!("PT{seconds}S"),
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
