//! Occurrences run once at their scheduled time, or a record states why not.

use std::time::Duration;

use kalends_domain::{
    ActionRole, AttemptStatus, Lifecycle, MissedPolicy, MissedRuns, OpenRunsMax, Overlap,
    RetryKind, RetryPolicy, Verbatim,
};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::JobWrite;
use kalends_store::record::Disposition;

use kalends_engine::{EngineSettings, Nodes};

use crate::world::{Response, World, action_at, at, job, run, with_error_action};

fn minutely() -> Recurrence {
    Recurrence::every(1, Frequency::Minute)
}

#[test]
fn a_recurring_job_runs_at_each_scheduled_time_and_never_early() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(59).await;
        assert_eq!(world.calls(), []);
        world.pass(150).await;
        let times: Vec<_> = world.calls().into_iter().map(|c| (c.scheduled, c.at)).collect();
        assert_eq!(times, [60, 120, 180].map(|s| (at(s), at(s))));
        let state = world.job("j").await.state;
        assert_eq!((state.executions, state.failures, state.used), (3, 0, 3));
        assert_eq!(state.due.map(|due| due.to_string()), Some(at(240)));
        let dispositions: Vec<_> =
            world.ledger("j").await.iter().map(|row| row.disposition).collect();
        assert_eq!(dispositions, [Disposition::Completed; 3]);
    });
}

#[test]
fn tasks_of_attempts_are_reused_and_end_with_the_engine() {
    run(async {
        let mut world = World::new().await;
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(60).await;
        let after_one = tasks();
        world.pass(600).await;
        assert_eq!((world.calls().len(), tasks()), (11, after_one));
        world.stop_engine().await;
        world.settle().await;
        assert_eq!(tasks(), before);
    });
}

#[test]
fn connections_are_prewarmed_before_many_attempts_due_at_the_same_time() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        for (second, count) in [(60, 20), (120, 3)] {
            for number in 0..count {
                world.put(&format!("j{second}-{number}"), job(&at(second), None)).await;
            }
        }
        let ahead = Duration::from_millis(15);
        for called in [20, 23] {
            world.pass(59).await;
            world.jump(Duration::from_secs(1) - ahead).await;
            world.jump(ahead).await;
            assert_eq!(world.calls().len(), called);
        }
        assert_eq!(*world.script.prewarmed.lock().unwrap(), [(20, ahead)]);
    });
}

#[test]
fn a_job_completes_with_the_last_run_of_its_count() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(Recurrence { count: Some(2), ..minutely() }))).await;
        world.pass(60).await;
        assert_eq!(world.job("j").await.state.lifecycle, Lifecycle::Active);
        world.pass(300).await;
        assert_eq!(world.scheduled(), [at(60), at(120)]);
        let state = world.job("j").await.state;
        assert_eq!((state.lifecycle, state.due), (Lifecycle::Completed, None));
    });
}

#[test]
fn a_failed_attempt_is_retried_four_times_and_then_the_error_action_runs() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Fail; 6]);
        world.put("j", with_error_action(job(&at(10), None))).await;
        world.pass(400).await;
        let made: Vec<_> = world.calls().iter().map(|c| (c.role, c.retry, c.at.clone())).collect();
        let main = [0, 1, 2, 3, 4].map(|n| (ActionRole::Main, n, at(10 + 30 * u64::from(n))));
        let error = [(ActionRole::Error, 0, at(130)), (ActionRole::Error, 1, at(160))];
        assert_eq!(made, [main.to_vec(), error.to_vec()].concat());
        let state = world.job("j").await.state;
        assert_eq!((state.executions, state.failures, state.faulted), (5, 5, 1));
        assert_eq!(state.lifecycle, Lifecycle::Faulted);
        assert_eq!(world.ledger("j").await.len(), 1);
        assert_eq!(world.ledger("j").await[0].disposition, Disposition::Failed);
        let history = world.history("j").await;
        assert_eq!(history.len(), 7);
        assert!(history.iter().all(|entry| entry.expected.to_string() == at(10)));
    });
}

#[test]
fn an_occurrence_due_during_the_previous_run_is_recorded_as_postponed() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(190).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.open_target();
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(60), at(240)]);
        let postponed = world.history("j").await;
        let postponed: Vec<_> =
            postponed.iter().filter(|e| e.status == AttemptStatus::Postponed).collect();
        assert_eq!(postponed.len(), 2);
        assert!(postponed[0].message.contains("still running"), "{}", postponed[0].message);
        let state = world.job("j").await.state;
        assert_eq!((state.executions, state.used), (2, 2), "skipped occurrences are not counted");
    });
}

#[test]
fn overlap_policies_queue_one_occurrence_or_allow_parallel_runs() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        let mut queueing = job(&at(60), Some(minutely()));
        queueing.extensions.overlap = Some(Overlap::QueueOne);
        world.put("j", queueing).await;
        world.pass(200).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.open_target();
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(60), at(120)], "the queued occurrence runs at once");
    });
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        let mut allowing = job(&at(60), Some(minutely()));
        allowing.extensions.overlap = Some(Overlap::Allow);
        world.put("j", allowing).await;
        world.pass(130).await;
        assert_eq!(world.scheduled(), [at(60), at(120)]);
    });
}

#[test]
fn after_downtime_the_newest_missed_occurrence_runs_and_the_rest_is_one_record() {
    run(async {
        let mut world = World::new().await;
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.jump(Duration::from_secs(630)).await;
        world.start_engine();
        world.pass(1).await;
        assert_eq!(world.scheduled(), [at(600)]);
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(600), at(660)]);
        let ledger = world.ledger("j").await;
        assert_eq!((ledger[0].disposition, ledger[0].count), (Disposition::Missed, 9));
        assert_eq!(ledger[0].to.to_string(), at(540));
    });
}

#[test]
fn missed_run_policies_all_and_skip_are_applied() {
    for (policy, expected) in
        [(MissedPolicy::All, vec![at(60), at(120), at(180), at(240)]), (MissedPolicy::Skip, vec![])]
    {
        run(async {
            let mut world = World::new().await;
            let mut with_policy = job(&at(60), Some(minutely()));
            with_policy.extensions.missed_runs = Some(MissedRuns { policy, within: None });
            world.put("j", with_policy).await;
            world.jump(Duration::from_secs(250)).await;
            world.start_engine();
            world.pass(5).await;
            assert_eq!(world.scheduled(), expected);
            let closed: u64 = world.ledger("j").await.iter().map(|row| row.count).sum();
            assert_eq!(closed, 4, "each occurrence has a record");
        });
    }
}

#[test]
fn a_forward_clock_step_is_downtime_and_a_backward_step_repeats_nothing() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(70).await;
        world.jump(Duration::from_secs(3_600)).await;
        world.pass(5).await;
        assert_eq!(world.scheduled(), [at(60), at(3_660)]);
        let back = world.clock_back(600).await;
        world.pass(5).await;
        assert_eq!(world.scheduled().len(), 2, "{back}");
        world.pass(660).await;
        assert_eq!(world.scheduled().last(), Some(&at(3_720)));
        assert_eq!(world.scheduled().len(), 3);
    });
}

#[test]
fn an_edit_before_the_scheduled_time_supersedes_the_claimed_run() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(59).await;
        world.jump(Duration::from_millis(990)).await;
        let edited = world.put("j", job(&at(90), Some(minutely()))).await;
        assert_eq!(edited.job.generation, 2);
        world.pass(40).await;
        assert_eq!(world.scheduled(), [at(90)], "no attempt of the old definition");
    });
}

#[test]
fn a_retry_of_an_edited_job_does_not_start() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Fail]);
        world.put("j", job(&at(10), Some(Recurrence::every(1, Frequency::Hour)))).await;
        world.pass(20).await;
        world.put("j", job(&at(10), Some(Recurrence::every(2, Frequency::Hour)))).await;
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(10)]);
        assert_eq!(world.ledger("j").await[0].disposition, Disposition::Superseded);
    });
}

#[test]
fn a_manual_run_starts_at_once_and_leaves_the_schedule_unchanged() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(3_600), Some(Recurrence::every(1, Frequency::Hour)))).await;
        world.pass(5).await;
        world.edit("j", JobWrite::Run { at: at(5).parse().unwrap() }).await;
        world.pass(1).await;
        assert_eq!(world.scheduled(), [at(5)]);
        let state = world.job("j").await.state;
        assert_eq!((state.used, state.executions), (0, 1));
        assert_eq!(state.due.map(|due| due.to_string()), Some(at(3_600)));
    });
}

#[test]
fn a_finished_job_that_runs_once_more_takes_the_state_of_the_outcome() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        let mut once = job(&at(10), None);
        once.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::None,
            interval: None,
            count: None,
            interval_max: None,
            age_max: None,
        }));
        world.put("j", once).await;
        world.pass(20).await;
        assert_eq!(world.job("j").await.state.lifecycle, Lifecycle::Completed);
        world.respond(&[Response::Fail]);
        for (time, expected) in [(20, Lifecycle::Faulted), (30, Lifecycle::Completed)] {
            world.edit("j", JobWrite::Run { at: at(time).parse().unwrap() }).await;
            world.pass(10).await;
            let state = world.job("j").await.state;
            assert_eq!((state.lifecycle, state.due), (expected, None));
            assert!(state.finished.is_some_and(|finished| finished.to_string() >= at(time)));
        }
    });
}

#[test]
fn occurrences_beyond_the_open_runs_of_a_job_are_skipped_and_recorded() {
    run(async {
        let mut world = World::new().await;
        let open_runs_max = OpenRunsMax(3);
        world.start_engine_with(EngineSettings { open_runs_max, ..EngineSettings::default() });
        world.respond(&[Response::Hang, Response::Hang, Response::Hang]);
        let mut parallel = job(&at(10), Some(minutely()));
        parallel.extensions.overlap = Some(Overlap::Allow);
        parallel.extensions.timeout = Some(Verbatim::new("PT30M", Duration::from_secs(1_800)));
        world.put("j", parallel).await;
        world.pass(10 + 3 * 60).await;
        let rows = world.ledger("j").await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(
            (rows[0].from.to_string(), rows[0].disposition),
            (at(190), Disposition::SkippedQuota)
        );
        let entries = world.history("j").await;
        assert_eq!(entries[0].status, AttemptStatus::Postponed);
        assert!(entries[0].message.contains("too many runs of the job were open"), "{entries:?}");
        assert_eq!(world.job("j").await.state.used, 3);
        world.open_target();
        world.pass(60).await;
        assert_eq!(world.scheduled().len(), 4, "the next occurrence runs");
    });
}

#[test]
fn a_run_of_a_crashed_process_is_redelivered_by_the_next_one() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        world.kill_engine();
        world.start_engine();
        world.pass(30).await;
        assert_eq!(world.scheduled(), [at(10), at(10)], "the same occurrence");
        assert_eq!(world.ledger("j").await.len(), 1);
        assert_eq!(world.job("j").await.state.lifecycle, Lifecycle::Completed);
    });
}

#[test]
fn a_shutdown_waits_for_attempts_and_starts_none() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        world.put("j", job(&at(10), Some(minutely()))).await;
        world.pass(12).await;
        world.open_target();
        world.stop_engine().await;
        world.pass(120).await;
        assert_eq!(world.scheduled(), [at(10)]);
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}

#[test]
fn retry_intervals_survive_a_restart() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Fail]);
        let mut patient = job(&at(10), None);
        patient.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::Fixed,
            interval: Some(kalends_domain::Verbatim::new("PT2M", Duration::from_secs(120))),
            count: Some(1),
            interval_max: None,
            age_max: None,
        }));
        world.put("j", patient).await;
        world.pass(20).await;
        world.stop_engine().await;
        world.start_engine();
        world.pass(200).await;
        let times: Vec<_> = world.calls().into_iter().map(|call| call.at).collect();
        assert_eq!(times, [at(10), at(130)]);
    });
}

#[test]
fn a_single_node_takes_over_claims_of_its_crashed_predecessor_at_once() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        assert_eq!(world.calls().len(), 1);
        world.kill_engine();
        let nodes = Nodes::Single;
        world.start_engine_with(EngineSettings { nodes, ..EngineSettings::default() });
        world.settle().await;
        let calls = world.calls();
        assert_eq!((calls.len(), &calls[1].at), (2, &at(12)), "without waiting for the lease");
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}

#[test]
fn claims_left_after_the_grace_period_are_released() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        let stopping = world.begin_stop();
        world.pass(29).await;
        assert!(!stopping.is_finished());
        world.pass(1).await;
        assert!(stopping.is_finished());
        world.pass(1).await;
        world.start_engine();
        world.settle().await;
        let calls = world.calls();
        assert_eq!((calls.len(), &calls[1].at), (2, &at(43)), "without waiting for the lease");
    });
}

#[test]
fn a_hanging_host_delays_only_its_own_jobs_which_run_afterwards() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(EngineSettings {
            host_attempts_max: 2,
            ..EngineSettings::default()
        });
        world.respond(&[Response::Hang; 2]);
        for name in ["a", "b", "c", "d"] {
            world.put(name, job(&at(10), None)).await;
        }
        let mut elsewhere = job(&at(11), None);
        elsewhere.action.action = action_at("http://elsewhere.example.com");
        world.put("e", elsewhere).await;
        world.pass(12).await;
        let names = |world: &World| world.calls().into_iter().map(|c| c.job).collect::<Vec<_>>();
        assert_eq!(names(&world), ["a", "b", "e"]);
        world.open_target();
        world.settle().await;
        assert_eq!(names(&world), ["a", "b", "e", "c", "d"]);
        assert!(world.calls().iter().skip(3).all(|call| call.scheduled == at(10)));
    });
}
