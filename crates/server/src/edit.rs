//! What becomes of a job or a collection when a client edits it. Decided inside the transaction of
//! the store, from what is there then.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, header};
use kalends_domain::{
    Collection, CollectionPath, EditKind, EgressPolicy, HttpAuthentication, JobDefinition,
    Lifecycle, ScheduleState, Target, Uri, ValidationError, ValidationErrorKind, check_collection,
    check_job, closed_by_edit, facts_of, jobs_max, rule_of, schedule_state_after_edit,
    schedule_state_of_new, stored_rule_of,
};
use kalends_recurrence::Instant;
use kalends_store::record::{Disposition, JobRecord, JobState, JobUid, LedgerRecord};
use kalends_store::{
    CollectionContext, CollectionWrite, JobContext, JobPut, JobWrite, Refusal, RefusalKind,
    WaitingRuns,
};
use kalends_wire::ErrorDetails;

use crate::app::Settings;

/// Mistakes that were found inside the transaction, on their way out of it.
#[derive(Clone, Default)]
pub(crate) struct Mistakes(Arc<Mutex<Option<ErrorDetails>>>);

impl Mistakes {
    /// Keeps them, and gives the refusal that undoes the transaction.
    pub(crate) fn keep(&self, errors: ErrorDetails) -> Refusal {
        let message = errors.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(errors);
        Refusal { kind: RefusalKind::Invalid, path: None, message }
    }

    pub(crate) fn take(&self) -> Option<ErrorDetails> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What the client wants of the version it saw: `If-Match` and `If-None-Match`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) matches: Option<String>,
    pub(crate) must_be_new: bool,
}

impl Condition {
    pub(crate) fn of(headers: &HeaderMap) -> Condition {
        let text =
            |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let must_be_new = text(header::IF_NONE_MATCH).as_deref() == Some("*");
        Condition { matches: text(header::IF_MATCH), must_be_new }
    }

    pub(crate) fn check(&self, version: Option<u64>) -> Result<(), Refusal> {
        let is_match = |wanted: &String| {
            version.is_some_and(|version| {
                let own = format!("\"{version}\"");
                wanted.split(',').map(str::trim).any(|wanted| wanted == "*" || wanted == own)
            })
        };
        let holds =
            self.matches.as_ref().is_none_or(is_match) && !(self.must_be_new && version.is_some());
        match holds {
            true => Ok(()),
            false => Err(Refusal {
                kind: RefusalKind::PreconditionFailed,
                path: None,
                message: "the resource has changed since it was read, or exists already".into(),
            }),
        }
    }
}

/// What a job edit works with.
#[derive(Clone)]
pub(crate) struct JobEdit {
    pub(crate) settings: Arc<Settings>,
    pub(crate) now: Instant,
    pub(crate) uid: JobUid,
    pub(crate) kind: EditKind,
    pub(crate) condition: Condition,
    pub(crate) mistakes: Mistakes,
}

impl JobEdit {
    /// What becomes of the job when its definition is to be `new`.
    pub(crate) fn decide(
        &self,
        new: JobDefinition,
        context: &JobContext<'_>,
    ) -> Result<JobWrite, Refusal> {
        self.condition.check(context.existing.map(|existing| existing.version))?;
        if let Some(existing) = context.existing {
            let is_same = existing.job.definition == new;
            // The same PUT again is safe; but whoever changes something expects it to be heeded.
            let is_repeated = is_same && self.kind == EditKind::Replace;
            if existing.state.lifecycle != Lifecycle::Active && !is_repeated {
                return Err(finished(existing));
            }
            if is_same {
                return Ok(JobWrite::Keep);
            }
        }
        self.check_schedule(&new)?;
        let stored = context.existing.map(|existing| &existing.job.definition);
        check_destinations(&new, stored, &context.collection.path, &self.settings.egress)
            .map_err(|errors| self.mistakes.keep(errors))?;
        let created = context.existing.map_or(self.now, |existing| existing.job.created);
        // How far ahead a start may lie was asked above, from now on; not again from a creation
        // that may be years ago.
        let mut schedules = self.settings.schedules.clone();
        schedules.start_months_ahead_max = i64::from(i32::MAX);
        let rule = rule_of(&new, created, &schedules)
            .map_err(|problems| self.mistakes.keep(ErrorDetails::from_rule_errors(problems)))?;
        let facts = facts_of(&new, &rule);
        let plans = self.settings.plans;
        check_job(&facts, &context.collection.collection, plans)
            .map_err(|(path, fault)| refusal(&format!("properties.{path}"), fault))?;
        let max = jobs_max(&context.collection.collection, plans);
        if context.existing.is_none() && context.jobs >= u64::from(max) {
            let message = format!("the collection has {} jobs; allowed are {max}", context.jobs);
            return Err(Refusal { kind: RefusalKind::JobsMax, path: None, message });
        }
        let standing = match context.existing {
            None => schedule_state_of_new(&new, &rule),
            Some(existing) => schedule_state_after_edit(
                standing(&existing.state),
                &existing.job.definition,
                &new,
                &rule,
                self.kind,
                self.now,
                &self.settings.schedules,
            ),
        };
        let before = context.existing.map(|existing| existing.state).unwrap_or_default();
        let state = JobState {
            lifecycle: standing.lifecycle,
            due: standing.due,
            used: standing.used,
            finished: (standing.lifecycle != Lifecycle::Active).then_some(self.now),
            ..before
        };
        let closed_by_edit = context
            .existing
            .and_then(|existing| self.closed_by_edit(existing, &new, context, &schedules));
        Ok(JobWrite::Put(Box::new(JobPut {
            uid: self.uid,
            created: self.now,
            definition: new,
            facts,
            state,
            waiting: WaitingRuns::Close(Disposition::Superseded),
            closed_by_edit,
        })))
    }

    /// What had come due of the job as it was, and will not run any more.
    fn closed_by_edit(
        &self,
        existing: &JobRecord,
        new: &JobDefinition,
        context: &JobContext<'_>,
        schedules: &kalends_recurrence::Settings,
    ) -> Option<LedgerRecord> {
        let due = existing.state.due?;
        let collection = context.collection.collection.state.switch();
        let old = &existing.job.definition;
        let rule = stored_rule_of(old, existing.job.created, schedules).ok()?;
        let closed_by_edit = closed_by_edit(old, new, &rule, due, self.now, collection)?;
        Some(closed_by_edit.to_ledger_record(existing.job.generation, self.now))
    }

    /// Whether the schedule is one, for a job that were created now.
    fn check_schedule(&self, new: &JobDefinition) -> Result<(), Refusal> {
        let checked = rule_of(new, self.now, &self.settings.schedules);
        checked
            .map(drop)
            .map_err(|problems| self.mistakes.keep(ErrorDetails::from_rule_errors(problems)))
    }
}

/// Whether a job's actions may go where they say, as far as that can be seen from the text. What
/// stood in the stored definition already is left alone: such a job fails when it runs, and can
/// still be switched off.
pub(crate) fn check_destinations(
    new: &JobDefinition,
    stored: Option<&JobDefinition>,
    collection: &CollectionPath,
    policy: &EgressPolicy,
) -> Result<(), ErrorDetails> {
    let known: Vec<_> = stored.map(|stored| uris(stored).collect()).unwrap_or_default();
    let mut errors = ErrorDetails::default();
    for (path, uri) in uris(new).filter(|uri| !known.contains(uri)) {
        if let Err(fault) = policy.check_uri(uri, collection) {
            errors.add(fault.kind.into(), format!("{path}.request.uri"), fault.message);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Where a job's actions go, with the paths of the actions.
fn uris(job: &JobDefinition) -> impl Iterator<Item = (&'static str, &Uri)> {
    let error = job.action.error_action.as_ref();
    let error = error.map(|error| ("properties.action.errorAction", &error.action));
    let actions = [("properties.action", &job.action.action)].into_iter().chain(error);
    actions.filter_map(|(path, action)| match &action.target {
        Target::Http(request) => Some((path, &request.uri)),
        _ => None,
    })
}

fn standing(state: &JobState) -> ScheduleState {
    ScheduleState { due: state.due, used: state.used, lifecycle: state.lifecycle }
}

/// A job that is over can only be deleted.
pub(crate) fn finished(job: &JobRecord) -> Refusal {
    let word = match job.state.lifecycle {
        Lifecycle::Faulted => "faulted",
        _ => "completed",
    };
    let message = format!("the job is {word} and cannot be changed or run; delete it first");
    Refusal { kind: RefusalKind::JobFinished, path: None, message }
}

/// What becomes of a collection when its definition is to be `new`.
pub(crate) fn decide_collection(
    new: Collection,
    settings: &Settings,
    condition: &Condition,
    context: &CollectionContext<'_>,
) -> Result<CollectionWrite, Refusal> {
    condition.check(context.existing.map(|existing| existing.version))?;
    if context.existing.is_some_and(|existing| existing.collection == new) {
        return Ok(CollectionWrite::Keep);
    }
    let others = (context.others)(new.plan);
    check_collection(&new, &context.facts, others, settings.plans)
        .map_err(|(path, fault)| refusal(&format!("properties.{path}"), fault))?;
    Ok(CollectionWrite::Put(new))
}

fn refusal(path: &str, fault: ValidationError) -> Refusal {
    let kind = match fault.kind {
        ValidationErrorKind::RecurrenceTooFrequent => RefusalKind::RecurrenceTooFrequent,
        ValidationErrorKind::NotInFreePlan => RefusalKind::NotInFreePlan,
        ValidationErrorKind::CollectionsMax | ValidationErrorKind::QuotaAbovePlan => {
            RefusalKind::CollectionsMax
        }
        _ => RefusalKind::QuotaConflict,
    };
    Refusal { kind, path: Some(path.to_owned()), message: fault.message }
}

/// The certificates of a job whose facts are not known yet, for who reads them.
pub(crate) fn unread_certificates(
    job: &mut JobDefinition,
) -> impl Iterator<Item = (&'static str, &mut HttpAuthentication)> {
    let error = job
        .action
        .error_action
        .as_mut()
        .map(|error| ("properties.action.errorAction", &mut error.action));
    let actions = [("properties.action", &mut job.action.action)].into_iter().chain(error);
    actions.filter_map(|(path, action)| match &mut action.target {
        Target::Http(request) => match request.authentication.as_mut()? {
            authentication @ HttpAuthentication::ClientCertificate {
                pfx: Some(_),
                certificate: None,
                ..
            } => Some((path, authentication)),
            _ => None,
        },
        _ => None,
    })
}
