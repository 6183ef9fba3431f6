//! Pauses of all jobs.

use std::time::Duration;

use kalends_domain::{AttemptStatus, RetryKind, RetryPolicy, Switch, Verbatim};
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::record::{Disposition, Pause, PauseRecord};
use kalends_store::{ApiStore as _, JobWrite, PauseContext, PauseWrite};

use crate::world::{Response, World, at, job, run, with_error_action};

fn every_minute() -> Option<Recurrence> {
    Some(Recurrence::every(1, Frequency::Minute))
}

impl World {
    /// Pauses all jobs, until a time if one is given, as another node would: no engine is nudged.
    async fn pause_elsewhere(&self, until: Option<String>) {
        let decide = move |context: PauseContext<'_>| {
            let until = until.as_ref().map(|until| until.parse().unwrap());
            let pause = Pause::new(context.now, until);
            let record = PauseRecord { pause, reason: "maintenance".into(), by: "ops".into() };
            Ok(PauseWrite::Put(record))
        };
        assert!(self.store.edit_pause(Box::new(decide)).await.unwrap().is_some());
    }

    async fn pause(&self, until: Option<String>) {
        self.pause_elsewhere(until).await;
        self.engine().nudge().nudge();
        self.settle().await;
    }

    async fn resume(&self) {
        let decide = |context: PauseContext<'_>| {
            let record = context.active.unwrap().clone();
            let pause = record.pause.resumed(context.now);
            Ok(PauseWrite::Put(PauseRecord { pause, ..record }))
        };
        assert_eq!(self.store.edit_pause(Box::new(decide)).await.unwrap(), None);
        self.engine().nudge().nudge();
        self.settle().await;
    }

    /// The occurrences that were closed as paused: first, last and number.
    async fn skipped(&self, name: &str) -> Vec<(String, String, u64)> {
        let rows = self.ledger(name).await.into_iter();
        rows.filter(|row| row.disposition == Disposition::SkippedPaused)
            .map(|row| (row.from.to_string(), row.to.to_string(), row.count))
            .collect()
    }
}

#[test]
fn nothing_runs_during_a_pause_and_nothing_of_it_afterwards() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        let mut counted = job(&at(60), every_minute());
        counted.recurrence.as_mut().unwrap().count = Some(3);
        world.put("j", counted).await;
        world.pass(65).await;
        world.pause(None).await;
        world.pass(300).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.resume().await;
        world.pass(30).await;
        assert_eq!(world.scheduled(), [at(60)], "no storm");
        world.pass(200).await;
        assert_eq!(world.scheduled(), [at(60), at(420), at(480)], "the pause uses no count");
        assert_eq!(world.skipped("j").await, [(at(120), at(360), 5)]);
        let history = world.history("j").await;
        let held: Vec<_> =
            history.iter().filter(|entry| entry.status == AttemptStatus::Postponed).collect();
        let message = "did not run because all jobs were paused.";
        assert!(held.len() == 1 && held[0].message.contains(message), "{held:?}");
    });
}

#[test]
fn a_pause_ends_by_itself_at_its_time_on_every_node() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), every_minute())).await;
        world.put("once", job(&at(70), None)).await;
        world.pass(61).await;
        world.pause_elsewhere(Some(at(180))).await;
        world.pass(118).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.pass(1).await;
        let calls: Vec<_> = world.calls().into_iter().map(|c| (c.job, c.scheduled, c.at)).collect();
        let first = ("j".into(), at(60), at(60));
        let mut after = calls.clone();
        after.sort();
        let mut expected =
            [first, ("j".into(), at(180), at(180)), ("once".into(), at(70), at(180))];
        expected.sort();
        assert_eq!(after, expected, "at its end, an occurrence and the waiting one-time job run");
        assert_eq!(world.skipped("j").await, [(at(120), at(120), 1)]);
    });
}

#[test]
fn a_claimed_run_is_not_sent_after_the_pause_was_acknowledged() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        let mut spread = job(&at(60), Some(Recurrence::every(1, Frequency::Hour)));
        // It is claimed shortly before its time.
        spread.start = Some(at(60).parse::<Instant>().unwrap());
        world.put("j", spread).await;
        world.pass(59).await;
        world.jump(Duration::from_millis(990)).await;
        let open = world.store.open_runs(world.job("j").await.key).await.unwrap();
        assert!(open.len() == 1 && open[0].claim.is_some(), "it is claimed ahead: {open:?}");
        world.pause_elsewhere(None).await;
        world.pass(5).await;
        assert_eq!(world.calls(), []);
        world.resume().await;
        world.pass(30).await;
        assert_eq!(world.calls(), [], "its time passed during the pause");
        assert_eq!(world.skipped("j").await, [(at(60), at(60), 1)]);
        drop(store);
    });
}

#[test]
fn one_time_jobs_manual_runs_and_retries_go_on_after_a_pause() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("retried", job(&at(30), every_minute())).await;
        world.put("once", job(&at(60), None)).await;
        world.put("off", job(&at(7_200), every_minute())).await;
        world.patch("off", |job| job.switch = Switch::Disabled).await;
        world.respond(&[Response::Fail]);
        world.pass(31).await;
        let now = at(31).parse().unwrap();
        world.pause_elsewhere(None).await;
        world.edit("off", JobWrite::Run { at: now }).await;
        world.pass(300).await;
        assert_eq!(world.calls().len(), 1);
        world.resume().await;
        world.pass(2).await;
        let mut calls: Vec<_> = world.calls().into_iter().map(|c| (c.job, c.scheduled)).collect();
        calls.sort();
        let expected =
            [("off", at(31)), ("once", at(60)), ("retried", at(30)), ("retried", at(30))];
        assert_eq!(calls, expected.map(|(job, scheduled)| (job.to_owned(), scheduled)));
        assert_eq!(world.calls().last().map(|call| call.at.clone()), Some(at(331)));
    });
}

#[test]
fn the_age_limit_of_retries_stands_still_during_a_pause() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        let mut aged = job(&at(60), None);
        let seconds = |text: &str, seconds| Some(Verbatim::new(text, Duration::from_secs(seconds)));
        aged.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::Exponential,
            interval: seconds("PT15S", 15),
            count: Some(20),
            interval_max: seconds("PT15S", 15),
            age_max: seconds("PT1M", 60),
        }));
        world.put("j", aged).await;
        world.respond(&[Response::Fail; 3]);
        world.pass(62).await;
        world.pause(None).await;
        world.pass(3_600).await;
        world.resume().await;
        world.pass(60).await;
        assert_eq!(world.calls().len(), 4, "three attempts failed within the limit");
    });
}

#[test]
fn an_error_action_waits_for_the_end_of_a_pause() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        let mut failing = with_error_action(job(&at(60), None));
        failing.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::None,
            interval: None,
            count: None,
            interval_max: None,
            age_max: None,
        }));
        world.put("j", failing).await;
        world.respond(&[Response::HangThenFail]);
        world.pass(61).await;
        world.pause_elsewhere(None).await;
        world.open_target();
        world.pass(30).await;
        assert_eq!(world.calls().len(), 1);
        world.resume().await;
        world.pass(1).await;
        assert_eq!(world.calls().len(), 2);
    });
}

#[test]
fn an_engine_that_starts_during_a_pause_runs_nothing() {
    run(async {
        let mut world = World::new().await;
        world.put("j", job(&at(60), every_minute())).await;
        world.pause_elsewhere(Some(at(300))).await;
        world.pass(100).await;
        world.start_engine();
        world.pass(199).await;
        assert_eq!(world.calls(), []);
        world.pass(62).await;
        assert_eq!(world.scheduled(), [at(300), at(360)]);
        assert_eq!(world.skipped("j").await, [(at(60), at(240), 4)]);
    });
}

#[test]
fn an_edit_of_the_schedule_during_a_pause_closes_its_occurrences_as_paused() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), every_minute())).await;
        world.pause(None).await;
        world.pass(150).await;
        world.patch("j", |job| job.start = Some(at(75).parse().unwrap())).await;
        assert_eq!(world.skipped("j").await, [(at(60), at(120), 2)]);
        world.resume().await;
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(195)]);
    });
}
