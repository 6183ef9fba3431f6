//! Occurrences that a user requests to skip.

use kalends_domain::{AttemptStatus, facts_of, rule_of};
use kalends_recurrence::{Frequency, Recurrence, Settings};
use kalends_store::record::{Disposition, JobState};
use kalends_store::{ApiStore as _, JobContext, JobPut, JobWrite, WaitingRuns};

use crate::world::{World, at, job, job_path, run};

fn every_minute() -> Option<Recurrence> {
    Some(Recurrence::every(1, Frequency::Minute))
}

impl World {
    /// Skips the occurrences up to a time, or none, as the API of another node does:
    /// this engine is not told.
    async fn skip_until(&self, name: &str, until: Option<&str>) {
        let until = until.map(|until| until.parse().unwrap());
        let decide = move |context: JobContext<'_>| {
            let job = context.existing.unwrap();
            let definition = job.job.definition.clone();
            let rule = rule_of(&definition, job.job.created, &Settings::default()).unwrap();
            Ok(JobWrite::Put(Box::new(JobPut {
                uid: job.job.uid,
                created: job.job.created,
                facts: facts_of(&definition, &rule),
                definition,
                state: JobState { skip_until: until, ..job.state },
                waiting: WaitingRuns::Keep,
                closed_by_edit: None,
            })))
        };
        self.store.edit_job(job_path(name), Box::new(decide)).await.unwrap();
    }

    /// The scheduled times that were skipped by request.
    async fn skipped_by_request(&self, name: &str) -> Vec<String> {
        let rows = self.ledger(name).await.into_iter();
        rows.filter(|row| row.disposition == Disposition::SkippedByRequest)
            .map(|row| row.from.to_string())
            .collect()
    }
}

#[test]
fn a_skipped_occurrence_closes_at_its_time_and_uses_no_count() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        let mut counted = job(&at(60), every_minute());
        counted.recurrence.as_mut().unwrap().count = Some(2);
        world.put("j", counted).await;
        world.pass(61).await;
        world.skip_until("j", Some(&at(180))).await;
        world.pass(30).await;
        assert_eq!(world.skipped_by_request("j").await, [] as [String; 0], "not before its time");
        world.pass(270).await;
        assert_eq!(world.scheduled(), [at(60), at(240)]);
        assert_eq!(world.skipped_by_request("j").await, [at(120), at(180)]);
        let history = world.history("j").await;
        let skipped: Vec<_> =
            history.iter().filter(|entry| entry.status == AttemptStatus::Postponed).collect();
        let message = "did not run because a user requested to skip it.";
        assert!(skipped.len() == 2 && skipped[0].message.ends_with(message), "{skipped:?}");
    });
}

#[test]
fn a_skip_that_is_taken_back_has_no_effect() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), every_minute())).await;
        world.skip_until("j", Some(&at(60))).await;
        world.pass(30).await;
        world.skip_until("j", None).await;
        world.pass(31).await;
        assert_eq!(world.scheduled(), [at(60)]);
        assert_eq!(world.skipped_by_request("j").await, [] as [String; 0]);
    });
}

#[test]
fn an_occurrence_that_the_engine_has_loaded_is_skipped_without_a_nudge() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), every_minute())).await;
        // Within the lookahead: the occurrence is in the timetable.
        world.pass(55).await;
        world.skip_until("j", Some(&at(60))).await;
        world.pass(70).await;
        assert_eq!(world.scheduled(), [at(120)]);
        assert_eq!(world.skipped_by_request("j").await, [at(60)]);
    });
}
