//! Edits, disabling and enabling of a job that has an open run.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kalends_domain::{
    ActionRole, AttemptStatus, CollectionState, JobDefinition, Lifecycle, Overlap, RetryKind,
    RetryPolicy, Switch, Verbatim,
};
use kalends_engine::EngineSettings;
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::record::{Cause, Disposition};
use kalends_store::{ApiStore, JobWrite};

use crate::world::{Response, World, action_at, at, job, run, with_error_action};

const ELSEWHERE: &str = "http://elsewhere.example.com/";

fn minutely() -> Recurrence {
    Recurrence::every(1, Frequency::Minute)
}

fn no_retries() -> Option<Box<RetryPolicy>> {
    let (kind, interval, count) = (RetryKind::None, None, None);
    Some(Box::new(RetryPolicy { kind, interval, count, interval_max: None, age_max: None }))
}

fn describe(job: &mut JobDefinition) {
    job.extensions.description = Some("edited".into());
}

fn switch(to: Switch) -> impl FnOnce(&mut JobDefinition) {
    move |job| job.switch = to
}

async fn started() -> World {
    let mut world = World::new().await;
    world.start_engine();
    world
}

/// Scheduled time and time of each call.
fn times(world: &World) -> Vec<(String, String)> {
    world.calls().into_iter().map(|call| (call.scheduled, call.at)).collect()
}

/// Generation, scheduled time and disposition of each record.
async fn closed(world: &World, name: &str) -> Vec<(u64, String, Disposition)> {
    let rows = world.ledger(name).await.into_iter();
    rows.map(|row| (row.generation, row.from.to_string(), row.disposition)).collect()
}

async fn lifecycle(world: &World, name: &str) -> (Lifecycle, u64) {
    let state = world.job(name).await.state;
    (state.lifecycle, state.executions)
}

/// Advances the clock to the time between the claim at `scheduled - 20 ms` and the attempt.
async fn pass_to_claim(world: &World, scheduled: u64) {
    world.pass(scheduled - 1).await;
    world.jump(Duration::from_millis(990)).await;
}

#[test]
fn a_retrying_one_time_job_continues_after_an_edit_of_its_description() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        world.patch("j", describe).await;
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Active, 1));
        world.pass(40).await;
        assert_eq!(times(&world), [(at(10), at(10)), (at(10), at(40))]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 2));
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::Completed)]);
        let generations: Vec<_> =
            world.history("j").await.iter().map(|entry| entry.generation).collect();
        assert_eq!(generations, [Some(1), Some(2)], "each attempt records its definition");
        assert!(world.calls().iter().all(|call| call.generation == 1), "one idempotency key");
    });
}

#[test]
fn an_edit_between_claim_and_attempt_delays_neither_one_time_nor_recurring_jobs() {
    run(async {
        let world = started().await;
        world.put("once", job(&at(60), None)).await;
        world.put("recurring", job(&at(60), Some(minutely()))).await;
        pass_to_claim(&world, 60).await;
        for name in ["once", "recurring"] {
            world.patch(name, |job| job.action.action = action_at(ELSEWHERE)).await;
        }
        world.jump(Duration::from_millis(10)).await;
        assert_eq!(times(&world), [(at(60), at(60)), (at(60), at(60))]);
        assert!(world.calls().iter().all(|call| call.uri == ELSEWHERE), "{:?}", world.calls());
        assert_eq!(lifecycle(&world, "once").await, (Lifecycle::Completed, 1));
        assert_eq!(closed(&world, "recurring").await, [(1, at(60), Disposition::Completed)]);
    });
}

#[test]
fn disabling_and_enabling_between_claim_and_attempt_loses_no_one_time_job() {
    run(async {
        let world = started().await;
        world.put("j", job(&at(60), None)).await;
        pass_to_claim(&world, 60).await;
        world.patch("j", switch(Switch::Disabled)).await;
        world.patch("j", switch(Switch::Enabled)).await;
        world.jump(Duration::from_millis(10)).await;
        world.pass(2).await;
        assert_eq!(times(&world), [(at(60), at(60))]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 1));
    });
}

#[test]
fn a_counted_job_keeps_its_number_of_runs_across_edits_between_claim_and_attempt() {
    run(async {
        let world = started().await;
        let three = Recurrence { count: Some(3), ..minutely() };
        world.put("j", job(&at(60), Some(three))).await;
        for scheduled in [60, 120, 180] {
            pass_to_claim(&world, if scheduled == 60 { 60 } else { 50 }).await;
            world.patch("j", |job| job.extensions.description = Some(at(scheduled))).await;
            world.jump(Duration::from_millis(10)).await;
            world.pass(10).await;
        }
        world.pass(120).await;
        assert_eq!(world.scheduled(), [at(60), at(120), at(180)]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 3));
    });
}

#[test]
fn an_open_run_is_the_first_of_a_count_that_a_put_restarts() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail]);
        let two = || job(&at(60), Some(Recurrence { count: Some(2), ..minutely() }));
        world.put("j", two()).await;
        world.pass(70).await;
        let mut edited = two();
        describe(&mut edited);
        assert_eq!(world.put("j", edited).await.state.used, 1);
        world.pass(200).await;
        assert_eq!(world.scheduled(), [at(60), at(60), at(120)]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 3));
    });
}

#[test]
fn the_next_attempt_uses_the_new_action_and_is_judged_by_the_new_retry_policy() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail, Response::Fail]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        world
            .patch("j", |job| {
                job.action.action = action_at(ELSEWHERE);
                let (kind, count) = (RetryKind::Fixed, Some(1));
                let (interval, interval_max, age_max) = (None, None, None);
                job.action.retry =
                    Some(Box::new(RetryPolicy { kind, interval, count, interval_max, age_max }));
            })
            .await;
        world.pass(60).await;
        let calls = world.calls();
        assert_eq!(times(&world), [(at(10), at(10)), (at(10), at(40))], "attempts so far count");
        assert_eq!(calls[1].uri, ELSEWHERE);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Faulted, 2));
    });
}

#[test]
fn a_failed_attempt_that_an_edit_overtook_is_concluded_by_the_new_definition() {
    run(async {
        let world = started().await;
        world.respond(&[Response::HangThenFail]);
        let mut impatient = job(&at(10), None);
        impatient.action.retry = no_retries();
        world.put("j", impatient).await;
        world.pass(12).await;
        world
            .patch("j", |job| {
                job.action.error_action = with_error_action(job.clone()).action.error_action;
                job.action.error_action.as_mut().unwrap().action = action_at(ELSEWHERE);
            })
            .await;
        world.open_target();
        world.settle().await;
        let calls = world.calls();
        assert_eq!(calls.len(), 2);
        assert_eq!((calls[1].role, calls[1].uri.as_str()), (ActionRole::Error, ELSEWHERE));
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::Failed)]);
        assert_eq!(world.history("j").await[0].generation, Some(1));
    });
}

#[test]
fn removing_the_error_action_closes_a_run_that_waits_for_it_as_failed() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail, Response::Fail]);
        let mut failing = with_error_action(job(&at(10), None));
        failing.action.retry = no_retries();
        failing.action.error_action.as_mut().unwrap().retry =
            Some(Box::new(RetryPolicy { kind: RetryKind::Fixed, ..*no_retries().unwrap() }));
        world.put("j", failing).await;
        world.pass(12).await;
        assert_eq!(world.calls().len(), 2, "the error action failed and is retried");
        world.patch("j", |job| job.action.error_action = None).await;
        assert_eq!(lifecycle(&world, "j").await.0, Lifecycle::Active);
        world.pass(60).await;
        assert_eq!(world.calls().len(), 2);
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::Failed)]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Faulted, 1));
    });
}

#[test]
fn a_running_error_action_goes_on_with_its_new_definition() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail, Response::Fail]);
        let mut failing = with_error_action(job(&at(10), None));
        failing.action.retry = no_retries();
        failing.action.error_action.as_mut().unwrap().retry =
            Some(Box::new(RetryPolicy { kind: RetryKind::Fixed, ..*no_retries().unwrap() }));
        world.put("j", failing).await;
        world.pass(12).await;
        let change = |job: &mut JobDefinition| {
            job.action.error_action.as_mut().unwrap().action = action_at(ELSEWHERE);
        };
        world.patch("j", change).await;
        world.pass(60).await;
        let last = world.calls().pop().unwrap();
        assert_eq!((last.role, last.at, last.uri.as_str()), (ActionRole::Error, at(40), ELSEWHERE));
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::Failed)]);
    });
}

#[test]
fn an_edit_of_the_schedule_supersedes_a_waiting_retry() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail, Response::Fail]);
        world.put("once", job(&at(10), None)).await;
        world.put("recurring", job(&at(10), Some(minutely()))).await;
        world.pass(12).await;
        for name in ["once", "recurring"] {
            world.patch(name, |job| job.start = Some(at(100).parse().unwrap())).await;
            assert_eq!(closed(&world, name).await, [(1, at(10), Disposition::Superseded)]);
        }
        world.pass(100).await;
        assert_eq!(world.scheduled(), [at(10), at(10), at(100), at(100)]);
        assert_eq!(lifecycle(&world, "once").await, (Lifecycle::Completed, 2));
    });
}

#[test]
fn a_one_time_job_moved_to_the_past_while_it_retries_runs_at_once() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        world.patch("j", |job| job.start = Some(at(5).parse().unwrap())).await;
        world.settle().await;
        assert_eq!(times(&world), [(at(10), at(10)), (at(12), at(12))]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 2));
    });
}

#[test]
fn a_one_time_job_moved_during_an_attempt_runs_promptly_after_it() {
    for (response, disposition) in [
        (Response::Hang, Disposition::Completed),
        (Response::HangThenFail, Disposition::Superseded),
    ] {
        run(async {
            let world = started().await;
            world.respond(&[response]);
            world.put("j", job(&at(10), None)).await;
            world.pass(12).await;
            world.patch("j", |job| job.start = Some(at(15).parse().unwrap())).await;
            world.pass(8).await;
            assert_eq!(times(&world), [(at(10), at(10))], "it waits for the attempt");
            world.open_target();
            world.settle().await;
            assert_eq!(times(&world), [(at(10), at(10)), (at(15), at(20))]);
            let expected = [(1, at(10), disposition), (2, at(15), Disposition::Completed)];
            assert_eq!(closed(&world, "j").await, expected);
            assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 2));
        });
    }
}

#[test]
fn an_edit_does_not_stop_an_occurrence_that_waits_for_a_slot() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(EngineSettings {
            host_attempts_max: 1,
            ..EngineSettings::default()
        });
        world.respond(&[Response::Hang]);
        world.put("hanging", job(&at(9), None)).await;
        world.put("j", job(&at(10), Some(minutely()))).await;
        world.pass(12).await;
        world.patch("j", describe).await;
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(9)]);
        world.open_target();
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(9), at(10)]);
    });
}

#[test]
fn disabling_a_job_holds_its_retry_and_enabling_continues_it() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        world.patch("j", switch(Switch::Disabled)).await;
        world.pass(100).await;
        assert_eq!(world.calls().len(), 1);
        world.patch("j", switch(Switch::Enabled)).await;
        world.settle().await;
        assert_eq!(times(&world), [(at(10), at(10)), (at(10), at(112))]);
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Completed, 2));
    });
}

#[test]
fn the_age_limit_of_retries_stands_still_while_a_run_is_held() {
    run(async {
        let world = started().await;
        world.respond(&[Response::Fail; 3]);
        let seconds = |text: &str, seconds| Some(Verbatim::new(text, Duration::from_secs(seconds)));
        let mut aging = job(&at(10), None);
        aging.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::Exponential,
            interval: seconds("PT30S", 30),
            count: Some(9),
            interval_max: None,
            age_max: seconds("PT2M", 120),
        }));
        world.put("j", aging).await;
        world.pass(12).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(1_000).await;
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(70).await;
        // Without the pause: attempts after 0, 30 and 90 seconds; the next would be after 210.
        assert_eq!(times(&world)[1..], [(at(10), at(1_012)), (at(10), at(1_072))]);
        world.pass(600).await;
        assert_eq!(lifecycle(&world, "j").await, (Lifecycle::Faulted, 3));
    });
}

#[test]
fn manual_runs_survive_edits_and_run_while_their_job_is_disabled() {
    run(async {
        let world = started().await;
        let created = world.put("j", job(&at(1_000), None)).await;
        world.respond(&[Response::Fail]);
        world.edit("j", JobWrite::Run { at: at(5).parse().unwrap() }).await;
        world.pass(6).await;
        world.patch("j", |job| job.start = Some(at(2_000).parse().unwrap())).await;
        world.patch("j", switch(Switch::Disabled)).await;
        let open = world.store.open_runs(created.key).await.unwrap();
        assert_eq!(open.len(), 1, "it waits for its retry");
        world.pass(60).await;
        assert_eq!(world.calls().len(), 2);
        let rows = world.ledger("j").await;
        assert_eq!((rows[0].cause, rows[0].disposition), (Cause::Manual, Disposition::Completed));
    });
}

#[test]
fn a_disabled_collection_holds_manual_runs() {
    run(async {
        let world = started().await;
        world.put("j", job(&at(1_000), None)).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.edit("j", JobWrite::Run { at: at(0).parse().unwrap() }).await;
        world.pass(60).await;
        assert_eq!(world.calls(), []);
        world.switch_collection(CollectionState::Enabled).await;
        world.settle().await;
        assert_eq!(world.calls().len(), 1);
    });
}

/// A job whose occurrence of `at(10)` starts ten seconds later.
fn with_jitter(count: Option<i64>) -> JobDefinition {
    let hourly = Recurrence { count, ..Recurrence::every(1, Frequency::Hour) };
    let mut job = job(&at(10), Some(hourly));
    // The share of this job is a hair below one in 255.
    job.extensions.jitter = Some(Verbatim::new("PT42M30S", Duration::from_secs(2_550)));
    job
}

#[test]
fn an_occurrence_whose_delayed_start_passes_while_the_collection_is_disabled_does_not_run() {
    run(async {
        let world = started().await;
        world.put("j", with_jitter(Some(1))).await;
        world.pass(12).await;
        assert_eq!(world.job("j").await.state.due, None, "the only occurrence has begun");
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(20).await;
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(2).await;
        assert_eq!(world.calls(), []);
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::SkippedDisabled)]);
        let history = world.history("j").await;
        assert_eq!((history.len(), history[0].status), (1, AttemptStatus::Postponed));
        let state = world.job("j").await.state;
        let due = state.due.map(|due| due.to_string());
        assert_eq!((state.used, due, state.lifecycle), (0, Some(at(3_610)), Lifecycle::Active));
    });
}

#[test]
fn an_occurrence_that_passed_while_disabled_does_not_run_after_a_failed_read_of_its_gate() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.put("j", with_jitter(None)).await;
        world.pass(12).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(20).await;
        store.gates_fail.store(true, Ordering::Relaxed);
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(2).await;
        assert_eq!(closed(&world, "j").await, [], "nothing is known about the collection");
        store.gates_fail.store(false, Ordering::Relaxed);
        world.pass(5).await;
        assert_eq!(world.calls(), []);
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::SkippedDisabled)]);
    });
}

#[test]
fn an_occurrence_whose_delayed_start_lies_ahead_when_the_collection_is_enabled_runs() {
    run(async {
        let world = started().await;
        world.put("j", with_jitter(None)).await;
        world.pass(12).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(5).await;
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(10).await;
        assert_eq!(times(&world), [(at(10), at(20))]);
    });
}

#[test]
fn an_occurrence_that_waits_for_a_slot_while_its_collection_is_disabled_does_not_run() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(EngineSettings {
            host_attempts_max: 1,
            ..EngineSettings::default()
        });
        world.respond(&[Response::Hang]);
        world.put("hanging", job(&at(9), None)).await;
        world.put("j", job(&at(10), Some(minutely()))).await;
        world.pass(12).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(2).await;
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(2).await;
        world.open_target();
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(9)]);
        assert_eq!(closed(&world, "j").await, [(1, at(10), Disposition::SkippedDisabled)]);
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(9), at(70)]);
    });
}

#[test]
fn enabling_a_job_does_not_start_an_occurrence_claimed_before_it_was_disabled() {
    run(async {
        let world = started().await;
        let mut recurring = job(&at(60), Some(minutely()));
        recurring.extensions.overlap = Some(Overlap::Allow);
        world.put("j", recurring).await;
        pass_to_claim(&world, 60).await;
        world.patch("j", switch(Switch::Disabled)).await;
        world.pass(30).await;
        world.patch("j", switch(Switch::Enabled)).await;
        world.pass(10).await;
        assert_eq!(world.calls(), []);
        assert_eq!(closed(&world, "j").await, [(1, at(60), Disposition::SkippedDisabled)]);
        world.pass(30).await;
        assert_eq!(world.scheduled(), [at(120)]);
    });
}

#[test]
fn occurrences_run_late_after_the_clock_was_set_back_to_before_the_collection_was_enabled() {
    run(async {
        let world = started().await;
        world.pass(5).await;
        world.jump(Duration::from_secs(3_600)).await;
        for state in [CollectionState::Disabled, CollectionState::Enabled] {
            world.switch_collection(state).await;
        }
        world.clock_back(3_600).await;
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(58).await;
        world.jump(Duration::from_millis(1_500)).await;
        world.jump(Duration::from_millis(2_500)).await;
        assert_eq!(world.scheduled(), [at(60)]);
    });
}
