//! Creates and edits jobs by the rules of the API, without quotas and conditional requests.

use kalends_domain::{
    EditKind, JobDefinition, Lifecycle, ScheduleEdit, ScheduleState, changes_schedule,
    closed_by_edit, facts_of, rule_of, schedule_state_after_edit, schedule_state_of_new,
};
use kalends_recurrence::Settings;
use kalends_store::record::{JobRecord, JobState, JobUid, LedgerRecord};
use kalends_store::{JobContext, JobPut, JobWrite, Rejection, WaitingRuns};

/// An edit requested by a user.
#[derive(Clone, Debug)]
pub struct JobEdit {
    /// The new definition.
    pub definition: JobDefinition,
    /// PUT or PATCH semantics.
    pub kind: EditKind,
    /// UID of a new job; ignored for an existing one.
    pub uid: JobUid,
}

impl JobEdit {
    /// Decides the write for the current state of the job.
    pub fn decide(
        &self,
        settings: &Settings,
        context: &JobContext<'_>,
    ) -> Result<JobWrite, Rejection> {
        let refused = |message: &str| Rejection::from(std::io::Error::other(message.to_owned()));
        if let Some(existing) = context.existing {
            if existing.job.definition == self.definition {
                return Ok(JobWrite::Keep);
            }
            if existing.state.lifecycle != Lifecycle::Active {
                return Err(refused("the job has finished"));
            }
        }
        let created = context.existing.map_or(context.now, |existing| existing.job.created);
        let mut schedules = settings.clone();
        schedules.start_months_ahead_max = i64::from(i32::MAX);
        let rule = rule_of(&self.definition, created, &schedules)
            .map_err(|problems| refused(&format!("{problems:?}")))?;
        let standing = match context.existing {
            None => schedule_state_of_new(&self.definition, &rule),
            Some(existing) => schedule_state_after_edit(
                ScheduleState {
                    due: existing.state.due,
                    used: existing.state.used,
                    lifecycle: existing.state.lifecycle,
                },
                ScheduleEdit {
                    old: &existing.job.definition,
                    new: &self.definition,
                    rule: &rule,
                    kind: self.kind,
                    open: context.open_scheduled_runs(),
                    now: context.now,
                },
                settings,
            ),
        };
        let keeps_schedule = context
            .existing
            .is_some_and(|existing| !changes_schedule(&existing.job.definition, &self.definition));
        let before = context.existing.map(|existing| existing.state).unwrap_or_default();
        Ok(JobWrite::Put(Box::new(JobPut {
            uid: self.uid,
            created: context.now,
            facts: facts_of(&self.definition, &rule),
            definition: self.definition.clone(),
            state: JobState {
                lifecycle: standing.lifecycle,
                due: standing.due,
                used: standing.used,
                finished: (standing.lifecycle != Lifecycle::Active).then_some(context.now),
                skip_until: before.skip_until.filter(|_| keeps_schedule),
                ..before
            },
            waiting: if keeps_schedule { WaitingRuns::Keep } else { WaitingRuns::Supersede },
            closed_by_edit: context
                .existing
                .and_then(|existing| self.passed(existing, context, &schedules)),
        })))
    }

    fn passed(
        &self,
        existing: &JobRecord,
        context: &JobContext<'_>,
        schedules: &Settings,
    ) -> Option<LedgerRecord> {
        let due = existing.state.due?;
        let collection = context.collection.collection.state.switch();
        let old = &existing.job.definition;
        let rule = rule_of(old, existing.job.created, schedules).ok()?;
        let passed = closed_by_edit(
            old,
            &self.definition,
            &rule,
            due,
            context.now,
            collection,
            context.pause.is_some(),
        )?;
        Some(passed.to_ledger_record(existing.job.generation, context.now))
    }
}
