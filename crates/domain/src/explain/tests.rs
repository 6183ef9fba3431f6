use kalends_recurrence::{Definition, Frequency, Recurrence, Schedule, Settings, Zone};

use super::*;
use crate::job::Switch;
use crate::ledger::Cause;
use crate::pause::Pause;
use crate::run::ActionRole;
use crate::timing::Timing;

fn at(hour: &str) -> Instant {
    format!("2026-01-01T{hour}:00Z").parse().unwrap()
}

fn rule(recurrence: Recurrence) -> Rule {
    let (start, created) = (Some(at("00:00")), at("00:00"));
    let definition = Definition { start, created, recurrence: Some(recurrence) };
    Rule::new(definition, &Settings::default()).unwrap()
}

/// An hourly job at 04:30, whose next occurrence is at 05:00.
struct Case {
    rule: Rule,
    job: JobSnapshot,
    ledger: Vec<LedgerRecord>,
    runs: Vec<RunInFlight>,
    history: Vec<HistoryEntry>,
    obstacle: Option<&'static str>,
    pause: Option<PauseRecord>,
}

fn case() -> Case {
    let job = JobSnapshot {
        now: at("04:30"),
        lifecycle: Lifecycle::Active,
        switch: Switch::Enabled,
        collection: Switch::Enabled,
        due: Some(at("05:00")),
        left: None,
        finished: None,
        pause: None,
        skip_until: None,
    };
    let rule = rule(Recurrence::every(1, Frequency::Hour));
    Case { rule, job, ledger: vec![], runs: vec![], history: vec![], obstacle: None, pause: None }
}

impl Case {
    fn closed(disposition: Disposition) -> Case {
        Case { ledger: vec![row("04:00", "04:00", 1, disposition)], ..case() }
    }

    fn with(job: impl FnOnce(&mut JobSnapshot)) -> Case {
        let mut case = case();
        job(&mut case.job);
        case
    }

    fn explain(&self, when: Option<Instant>) -> Explanation {
        super::explain(ExplainInput {
            rule: &self.rule,
            job: self.job,
            created: at("00:00"),
            at: when,
            ledger: &self.ledger,
            runs: &self.runs,
            history: &self.history,
            obstacle: self.obstacle,
            pause: self.pause.as_ref(),
        })
    }

    /// Explains the time `when`, or the current state if it is empty.
    fn check(&self, when: &str, reason: ExplainReason, words: &str) {
        let explanation = self.explain((!when.is_empty()).then(|| at(when)));
        assert_eq!(explanation.reason, reason, "{when}: {}", explanation.sentence);
        assert!(explanation.sentence.contains(words), "{when}: {}", explanation.sentence);
    }
}

fn row(from: &str, to: &str, count: u64, disposition: Disposition) -> LedgerRecord {
    let (from, to, closed) = (at(from), at(to), at("04:10"));
    LedgerRecord { generation: 1, from, to, count, cause: Cause::Scheduled, disposition, closed }
}

fn run(is_claimed: bool, retry: u32, attempt_at: &str) -> RunInFlight {
    RunInFlight {
        scheduled: at("04:00"),
        cause: Cause::Scheduled,
        generation: 1,
        role: ActionRole::Main,
        retry,
        is_unattempted: !is_claimed && retry == 0,
        attempt_at: at(attempt_at),
        is_claimed,
        waits_for: None,
    }
}

/// A run whose error action has failed this often.
fn in_error_action(is_claimed: bool, retry: u32) -> RunInFlight {
    let run = run(is_claimed, retry, "04:35");
    RunInFlight { role: ActionRole::Error, is_unattempted: false, ..run }
}

fn parked(limit: SlotLimit, retry: u32) -> RunInFlight {
    RunInFlight { waits_for: Some(limit), ..run(false, retry, "04:10") }
}

fn failed(message: &str, retry: u32) -> HistoryEntry {
    HistoryEntry {
        started: at("04:00"),
        ended: at("04:00"),
        expected: at("04:00"),
        status: AttemptStatus::Failed,
        message: message.into(),
        retry,
        repeat: 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    }
}

#[test]
fn attempts_of_the_error_action_are_not_those_of_the_occurrence() {
    let history = vec![failed("x", 2), failed("x", 1), failed("x", 0)];
    let main = "The main action of the occurrence of 2026-01-01T04:00:00Z failed";
    let case = Case { runs: vec![in_error_action(false, 1)], history, ..case() };
    let retried = "The error action is being retried: 1 of its attempts failed, attempt 2 is made at 2026-01-01T04:35:00Z.";
    case.check("", ExplainReason::Retrying, &format!("{main} after 3 attempts. {retried}"));
    let running = Case { runs: vec![in_error_action(true, 0)], history: vec![], ..case };
    let sentence = format!("{main}. The error action has been running since");
    running.check("04:00", ExplainReason::Running, &sentence);
    let mut held = running;
    held.job.switch = Switch::Disabled;
    held.runs = vec![in_error_action(false, 1)];
    let sentence = "attempt 2 of its error action starts when the job is enabled";
    held.check("", ExplainReason::JobDisabled, sentence);
}

#[test]
fn every_disposition_is_explained() {
    use Disposition as D;
    for (disposition, reason, words) in [
        (D::Completed, ExplainReason::Completed, "was completed at 2026-01-01T04:10:00Z."),
        (
            D::Failed,
            ExplainReason::Failed,
            "failed at 2026-01-01T04:10:00Z; all attempts are used up.",
        ),
        (D::SkippedOverlap, ExplainReason::SkippedOverlap, "the previous one was still running"),
        (D::SkippedDisabled, ExplainReason::SkippedDisabled, "was disabled"),
        (D::SkippedQuota, ExplainReason::SkippedQuota, "too many runs of the job were open"),
        (D::SkippedPaused, ExplainReason::SkippedPaused, "all jobs were paused"),
        (D::SkippedByRequest, ExplainReason::SkippedByRequest, "a user requested to skip it"),
        (D::Missed, ExplainReason::Missed, "no node could run it at its scheduled time"),
        (D::Superseded, ExplainReason::Superseded, "an edit changed the schedule"),
    ] {
        Case::closed(disposition).check("04:00", reason, words);
    }
}

#[test]
fn an_occurrence_that_was_skipped_names_the_run_that_lasted_longer() {
    let skipped = || Case::closed(Disposition::SkippedOverlap);
    let blocked_by = |case: Case| case.explain(Some(at("04:00"))).blocked_by;
    assert_eq!(blocked_by(skipped()), None);
    let open = |hour| RunInFlight { scheduled: at(hour), ..run(true, 0, "02:00") };
    let runs = vec![open("02:00"), open("04:20")];
    assert_eq!(blocked_by(Case { runs, ..skipped() }), Some(at("02:00")));
    let ended = |hour, end| HistoryEntry { expected: at(hour), ended: at(end), ..failed("x", 0) };
    let history = vec![ended("03:00", "04:02"), ended("02:00", "03:59"), ended("04:10", "04:11")];
    assert_eq!(blocked_by(Case { history: history.clone(), ..skipped() }), Some(at("03:00")));
    let missed = Case { history, ..Case::closed(Disposition::Missed) };
    assert_eq!(blocked_by(missed), None);
}

#[test]
fn a_pause_is_explained_with_its_reason_author_and_times() {
    let pause = Pause::new(at("03:30"), Some(at("06:30")));
    let record = PauseRecord { pause, reason: "move of the data centre".into(), by: "ops".into() };
    let mut case = Case { pause: Some(record), ..case() };
    (case.job.pause, case.job.due) = (Some(pause), Some(at("04:00")));
    let words = "All jobs are paused since 2026-01-01T03:30:00Z until 2026-01-01T06:30:00Z by ops: \
                 move of the data centre.";
    case.check("", ExplainReason::Paused, words);
    case.check("04:00", ExplainReason::Paused, "did not run. All jobs are paused");
    case.check("06:00", ExplainReason::Paused, words);
    case.check("07:00", ExplainReason::Upcoming, "still to come");
    case.runs = vec![run(false, 1, "04:20")];
    case.check("", ExplainReason::Paused, "is held; attempt 2 starts when the pause ends");
    case.job.switch = Switch::Disabled;
    case.check("", ExplainReason::JobDisabled, "is disabled");
}

#[test]
fn an_occurrence_that_will_be_skipped_is_explained_with_the_next_that_runs() {
    let mut case = case();
    case.job.skip_until = Some(at("06:00"));
    let next = "will be skipped, as a user requested. \
                The next run is at 2026-01-01T07:00:00Z.";
    case.check("", ExplainReason::WillBeSkipped, &format!("2026-01-01T05:00:00Z {next}"));
    case.check("06:00", ExplainReason::WillBeSkipped, &format!("2026-01-01T06:00:00Z {next}"));
    case.check("07:00", ExplainReason::Upcoming, "still to come");
    case.job.switch = Switch::Disabled;
    case.check("", ExplainReason::JobDisabled, "is disabled");
}

#[test]
fn a_failure_is_explained_with_its_attempts_and_its_last_message() {
    let error_action = HistoryEntry { role: ActionRole::Error, ..failed("refused", 0) };
    let history = vec![error_action, failed("no such host", 1), failed("timed out", 0)];
    let case = Case { history, ..Case::closed(Disposition::Failed) };
    case.check("04:00", ExplainReason::Failed, "after 2 attempts");
    case.check("04:00", ExplainReason::Failed, "The last said: no such host");
}

#[test]
fn an_occurrence_in_a_range_is_explained_with_the_range() {
    let case = Case { ledger: vec![row("01:00", "03:00", 3, Disposition::Missed)], ..case() };
    case.check("02:00", ExplainReason::Missed, "The occurrence of 2026-01-01T02:00:00Z was missed");
    case.check("02:00", ExplainReason::Missed, "one of 3 from 2026-01-01T01:00:00Z");
    case.check("02:30", ExplainReason::NotAnOccurrence, "the one before is 2026-01-01T02:00:00Z");
}

#[test]
fn the_record_of_the_newest_generation_is_explained() {
    let mut newer = row("04:00", "04:00", 1, Disposition::Completed);
    newer.generation = 2;
    let ledger = vec![newer, row("04:00", "04:00", 1, Disposition::Superseded)];
    Case { ledger, ..case() }.check("04:00", ExplainReason::Completed, "was completed");
}

#[test]
fn a_run_in_flight_is_explained_with_its_attempt() {
    for (run, reason, words) in [
        (run(true, 0, "04:00"), ExplainReason::Running, "attempt 1"),
        (run(true, 2, "04:25"), ExplainReason::Running, "attempt 3"),
        (
            run(false, 2, "04:35"),
            ExplainReason::Retrying,
            "attempt 3 is made at 2026-01-01T04:35:00Z",
        ),
        (run(false, 0, "04:00"), ExplainReason::Waiting, "waits for its turn"),
        (parked(SlotLimit::Host, 0), ExplainReason::Waiting, "its target host has 256 attempts"),
        (parked(SlotLimit::Collection, 2), ExplainReason::Waiting, "for a free slot since"),
        (run(false, 0, "04:40"), ExplainReason::Waiting, "begins at 2026-01-01T04:40:00Z"),
    ] {
        let case = Case { runs: vec![run], ..case() };
        case.check("04:00", reason, words);
        case.check("", reason, words);
    }
}

#[test]
fn a_run_that_waits_for_its_job_or_collection_says_so() {
    let off = Case::with(|job| job.switch = Switch::Disabled);
    let retrying = Case { runs: vec![run(false, 2, "04:35")], ..off };
    retrying.check("", ExplainReason::JobDisabled, "attempt 3 starts when the job is enabled");
    let off = Case::with(|job| job.switch = Switch::Disabled);
    let unattempted = Case { runs: vec![run(false, 0, "04:10")], ..off };
    unattempted.check("", ExplainReason::JobDisabled, "did not run: the job was disabled before");
    let off = Case::with(|job| job.switch = Switch::Disabled);
    let sent = Case { runs: vec![run(true, 2, "04:25")], ..off };
    sent.check("", ExplainReason::Running, "attempt 3");
    let manual = RunInFlight { cause: Cause::Manual, ..run(false, 0, "04:00") };
    let off = Case::with(|job| job.switch = Switch::Disabled);
    Case { runs: vec![manual], ..off }.check("", ExplainReason::Waiting, "waits for its turn");
    let off = Case::with(|job| job.collection = Switch::Disabled);
    let words = "attempt 1 starts when the collection is enabled";
    Case { runs: vec![manual], ..off }.check("", ExplainReason::CollectionDisabled, words);
}

#[test]
fn upcoming_occurrences_are_explained_with_what_prevents_them() {
    case().check("05:00", ExplainReason::Upcoming, "still to come");
    case().check("09:00", ExplainReason::Upcoming, "still to come");
    case().check("", ExplainReason::Upcoming, "The next run is at 2026-01-01T05:00:00Z");
    let late = Case::with(|job| job.now = at("05:30"));
    late.check("05:00", ExplainReason::Due, "about to run");
    late.check("", ExplainReason::Due, "about to run");
    let blocked = Case { obstacle: Some("the disk is full"), ..late };
    blocked.check("05:00", ExplainReason::Blocked, "does not start because the disk is full");
    blocked.check("", ExplainReason::Blocked, "does not start because the disk is full");
    blocked.check("06:00", ExplainReason::Upcoming, "still to come");
    let waiting = Case { runs: vec![run(false, 1, "05:10")], ..blocked };
    waiting.check("", ExplainReason::Blocked, "attempt 2 does not start because the disk is full");
    let off = Case::with(|job| (job.switch, job.due) = (Switch::Disabled, None));
    off.check("05:00", ExplainReason::JobDisabled, "it would run at 2026-01-01T05:00:00Z");
    off.check("", ExplainReason::JobDisabled, "it would run next at 2026-01-01T05:00:00Z");
    off.check("03:00", ExplainReason::NotRetained, "No record of");
    let off = Case::with(|job| job.collection = Switch::Disabled);
    off.check("05:00", ExplainReason::CollectionDisabled, "collection is disabled");
    off.check("", ExplainReason::CollectionDisabled, "collection is disabled");
    let held = Case::with(|job| {
        (job.collection, job.due) = (Switch::Disabled, Some(at("02:00")));
    });
    held.check(
        "03:00",
        ExplainReason::CollectionDisabled,
        "did not run: the job's collection is disabled",
    );
    held.check(
        "05:00",
        ExplainReason::CollectionDisabled,
        "the job would run at 2026-01-01T05:00:00Z",
    );
    assert_eq!(held.explain(None).occurrence, Some(at("05:00")));
    let passed = Case::with(|job| {
        (job.switch, job.due) = (Switch::Disabled, Some(at("02:00")));
    });
    passed.check("03:00", ExplainReason::JobDisabled, "did not run: the job is disabled");
    passed.check("05:00", ExplainReason::JobDisabled, "it would run at 2026-01-01T05:00:00Z");
    let counted = Case::with(|job| job.left = Some(2));
    counted.check("06:00", ExplainReason::Upcoming, "still to come");
    counted.check("07:00", ExplainReason::CountUsedUp, "count of the schedule is used up");
}

#[test]
fn a_time_without_an_occurrence_is_explained_with_the_nearest_ones() {
    case().check("04:20", ExplainReason::NotAnOccurrence, "the one after 2026-01-01T05:00:00Z");
    let explanation = case().explain(Some(at("04:20")));
    assert_eq!((explanation.before, explanation.after), (Some(at("04:00")), Some(at("05:00"))));
    let long_ago: Instant = "2025-12-31T23:00:00Z".parse().unwrap();
    assert_eq!(case().explain(Some(long_ago)).reason, ExplainReason::BeforeCreation);
    let mut recurrence = Recurrence::every(1, Frequency::Hour);
    recurrence.end = Some(at("06:30"));
    let ending = Case { rule: rule(recurrence), ..case() };
    ending.check("06:00", ExplainReason::Upcoming, "still to come");
    ending.check("07:00", ExplainReason::AfterEnd, "ended at 2026-01-01T06:30:00Z");
}

#[test]
fn a_finished_job_is_explained_as_finished() {
    let finished = |lifecycle| {
        Case::with(|job| {
            (job.lifecycle, job.due, job.finished) = (lifecycle, None, Some(at("04:10")));
        })
    };
    finished(Lifecycle::Completed).check("", ExplainReason::Finished, "The job is completed");
    finished(Lifecycle::Faulted).check("05:00", ExplainReason::Finished, "The job is faulted");
    finished(Lifecycle::Faulted).check("04:20", ExplainReason::Finished, "does not run again");
    finished(Lifecycle::Completed).check("03:00", ExplainReason::NotRetained, "No record of");
    assert_eq!(finished(Lifecycle::Completed).explain(Some(at("04:00"))).after, None);
}

#[test]
fn a_whole_second_matches_an_occurrence_within_it() {
    let start: Instant = "2026-01-01T00:00:00.25Z".parse().unwrap();
    let recurrence = Some(Recurrence::every(1, Frequency::Hour));
    let definition = Definition { start: Some(start), created: at("00:00"), recurrence };
    let rule = Rule::new(definition, &Settings::default()).unwrap();
    let mut case = Case { rule, ..case() };
    case.job.due = Some("2026-01-01T05:00:00.25Z".parse().unwrap());
    case.check("05:00", ExplainReason::Upcoming, "2026-01-01T05:00:00.25Z");
    let other: Instant = "2026-01-01T05:00:00.1Z".parse().unwrap();
    assert_eq!(case.explain(Some(other)).reason, ExplainReason::NotAnOccurrence);
}

#[test]
fn a_dst_transition_nearby_is_noted() {
    let half_past_two =
        Schedule { hours: Some(vec![2]), minutes: Some(vec![30]), ..Schedule::default() };
    let mut recurrence = Recurrence::every(1, Frequency::Day).with_schedule(half_past_two);
    recurrence.zone = Some(Zone::named("Europe/Berlin").unwrap());
    let case = Case { rule: rule(recurrence), ..case() };
    let notes = |text: &str| case.explain(Some(text.parse().unwrap())).notes;
    let gap = notes("2026-03-29T01:30:00Z");
    assert!(gap.len() == 1 && gap[0].contains("02:30 runs at 03:30"), "{gap:?}");
    let overlap = notes("2026-10-25T01:30:00Z");
    assert!(overlap.len() == 1 && overlap[0].contains("runs once, the first time"), "{overlap:?}");
    assert_eq!(notes("2026-06-01T00:30:00Z"), [""; 0]);
    let ahead = case.explain(None).notes;
    assert_eq!(ahead.len(), 2, "those of the coming year: {ahead:?}");
}
