use kalends_recurrence::{Definition, Frequency, Recurrence, Settings};

use super::*;
use crate::pause::Pause;

fn at(hour: &str) -> Instant {
    format!("2026-01-01T{hour}:00Z").parse().unwrap()
}

fn hourly() -> Rule {
    let recurrence = Some(Recurrence::every(1, Frequency::Hour));
    let (start, created) = (Some(at("00:00")), at("00:00"));
    Rule::new(Definition { start, created, recurrence }, &Settings::default()).unwrap()
}

/// State at 04:30; the next occurrence is at 05:00.
fn job() -> JobSnapshot {
    JobSnapshot {
        pause: None,
        skip_until: None,
        now: at("04:30"),
        lifecycle: Lifecycle::Active,
        switch: Switch::Enabled,
        collection: Switch::Enabled,
        due: Some(at("05:00")),
        left: None,
        finished: None,
    }
}

fn closed(from: &str, to: &str, count: u64, disposition: Disposition) -> LedgerRecord {
    let (from, to, closed) = (at(from), at(to), at("04:00"));
    LedgerRecord { generation: 1, from, to, count, cause: Cause::Scheduled, disposition, closed }
}

fn run(scheduled: &str, cause: Cause) -> RunInFlight {
    RunInFlight {
        scheduled: at(scheduled),
        cause,
        generation: 1,
        role: ActionRole::Main,
        retry: 0,
        is_unattempted: false,
        attempt_at: at(scheduled),
        is_claimed: true,
        waits_for: None,
    }
}

fn row_text(row: &TimelineRow) -> String {
    let hour = |at: Instant| at.to_string().get(11..16).unwrap().to_owned();
    let state = match row.state {
        OccurrenceState::Closed(disposition, _) => format!("{disposition:?}"),
        OccurrenceState::InFlight(_) => "InFlight".into(),
        state => format!("{state:?}"),
    };
    match row.count {
        1 => format!("{} {state}", hour(row.from)),
        count => format!("{}-{} {count} {state}", hour(row.from), hour(row.to)),
    }
}

fn check(
    (job, from, to): (JobSnapshot, &str, &str),
    ledger: &[LedgerRecord],
    runs: &[RunInFlight],
    expected: &[&str],
) {
    let rule = hourly();
    let (from, to) = (at(from), at(to));
    let (ledger, runs) = (ledger.to_vec(), runs.to_vec());
    let timeline = Timeline { rule: &rule, job, from, to, ledger, runs };
    let rows: Vec<_> = timeline.rows(50).iter().map(row_text).collect();
    assert_eq!(rows, expected);
    for limit in 0..rows.len() {
        let some: Vec<_> = timeline.rows(limit).iter().map(row_text).collect();
        assert_eq!(some, rows[..limit], "the first {limit}");
    }
}

#[test]
fn past_running_and_upcoming_occurrences_are_one_list() {
    let ledger = [
        closed("00:00", "00:00", 1, Disposition::Completed),
        closed("01:00", "02:00", 2, Disposition::Missed),
        closed("03:00", "03:00", 1, Disposition::SkippedOverlap),
    ];
    let runs = [run("04:00", Cause::Scheduled)];
    let expected = [
        "00:00 Completed",
        "01:00-02:00 2 Missed",
        "03:00 SkippedOverlap",
        "04:00 InFlight",
        "05:00 Upcoming",
        "06:00 Upcoming",
    ];
    check((job(), "00:00", "06:59"), &ledger, &runs, &expected);
    check((job(), "02:30", "04:00"), &ledger, &runs, &expected[2..4]);
    check((job(), "01:30", "01:45"), &ledger, &runs, &expected[1..2]);
}

#[test]
fn occurrences_without_a_record_are_merged_into_one_row() {
    let ledger = [closed("03:00", "03:00", 1, Disposition::Failed)];
    let expected =
        ["00:00-02:00 3 NotRetained", "03:00 Failed", "04:00 NotRetained", "05:00 Upcoming"];
    check((job(), "00:00", "05:00"), &ledger, &[], &expected);
    check(
        (job(), "02:00", "05:00"),
        &ledger,
        &[],
        &["02:00 NotRetained", "03:00 Failed", "04:00 NotRetained", "05:00 Upcoming"],
    );
}

#[test]
fn a_manual_run_does_not_replace_a_scheduled_occurrence() {
    let manual = LedgerRecord {
        cause: Cause::Manual,
        ..closed("03:00", "03:00", 1, Disposition::Completed)
    };
    let ledger = [manual, closed("04:00", "04:00", 1, Disposition::Completed)];
    let runs = [run("04:20", Cause::Manual)];
    let expected = ["03:00 Completed", "03:00 NotRetained", "04:00 Completed", "04:20 InFlight"];
    check((job(), "02:30", "04:40"), &ledger, &runs, &expected);
}

#[test]
fn paused_jobs_list_the_occurrences_that_the_pause_skips() {
    let pause = Pause::new(at("01:30"), Some(at("06:00")));
    let paused = JobSnapshot { pause: Some(pause), due: Some(at("02:00")), ..job() };
    let expected = ["01:00 NotRetained", "02:00-04:00 3 Paused", "05:00 Paused", "06:00 Upcoming"];
    check((paused, "01:00", "06:00"), &[], &[], &expected);
    let disabled = JobSnapshot { switch: Switch::Disabled, ..paused };
    check((disabled, "05:00", "05:00"), &[], &[], &["05:00 JobDisabled"]);
}

#[test]
fn occurrences_that_will_be_skipped_are_listed_and_use_no_count() {
    let skip = JobSnapshot { skip_until: Some(at("06:00")), left: Some(1), ..job() };
    let expected = ["05:00 WillBeSkipped", "06:00 WillBeSkipped", "07:00 Upcoming"];
    check((skip, "04:40", "09:00"), &[], &[], &expected);
    check((skip, "06:10", "09:00"), &[], &[], &expected[2..]);
    assert_eq!(skip.first_not_skipped(&hourly()), Some(at("07:00")));
    let passed = JobSnapshot { due: Some(at("07:00")), ..skip };
    assert_eq!(passed.first_not_skipped(&hourly()), Some(at("07:00")));
    check((passed, "06:10", "09:00"), &[], &[], &["07:00 Upcoming"]);
    let disabled = JobSnapshot { switch: Switch::Disabled, ..skip };
    check((disabled, "05:00", "05:00"), &[], &[], &["05:00 JobDisabled"]);
}

#[test]
fn disabled_jobs_list_skipped_occurrences_and_finished_jobs_none() {
    let disabled = JobSnapshot { switch: Switch::Disabled, due: None, ..job() };
    check((disabled, "04:10", "06:00"), &[], &[], &["05:00 JobDisabled", "06:00 JobDisabled"]);
    let collection = JobSnapshot { collection: Switch::Disabled, ..job() };
    check((collection, "05:00", "05:00"), &[], &[], &["05:00 CollectionDisabled"]);
    let held = JobSnapshot { due: Some(at("02:00")), ..collection };
    let expected =
        ["01:00 NotRetained", "02:00-04:00 3 CollectionDisabled", "05:00 CollectionDisabled"];
    check((held, "01:00", "05:00"), &[], &[], &expected);
    check((held, "03:30", "04:30"), &[], &[], &["04:00 CollectionDisabled"]);
    let passed = JobSnapshot { switch: Switch::Disabled, collection: Switch::Enabled, ..held };
    let expected = ["01:00 NotRetained", "02:00-04:00 3 JobDisabled", "05:00 JobDisabled"];
    check((passed, "01:00", "05:00"), &[], &[], &expected);
    check((passed, "03:30", "04:30"), &[], &[], &["04:00 JobDisabled"]);
    let both = JobSnapshot { switch: Switch::Disabled, ..held };
    check((both, "01:00", "05:00"), &[], &[], &expected);
    let counted = JobSnapshot { left: Some(1), ..passed };
    check((counted, "02:00", "09:00"), &[], &[], &expected[1..]);
    let lifecycle = Lifecycle::Completed;
    let over = JobSnapshot { lifecycle, due: None, finished: Some(at("03:10")), ..job() };
    check((over, "03:00", "09:00"), &[], &[], &["03:00 NotRetained"]);
    let last = JobSnapshot { due: None, left: Some(0), ..job() };
    check((last, "04:00", "09:00"), &[], &[run("04:00", Cause::Scheduled)], &["04:00 InFlight"]);
}

#[test]
fn a_one_time_job_that_was_disabled_at_its_scheduled_time_is_one_row() {
    let definition =
        Definition { start: Some(at("03:00")), created: at("00:00"), recurrence: None };
    let rule = Rule::new(definition, &Settings::default()).unwrap();
    let job = JobSnapshot { switch: Switch::Disabled, due: Some(at("03:00")), ..job() };
    let rows = |job| {
        let (from, to) = (at("00:00"), at("09:00"));
        let timeline = Timeline { rule: &rule, job, from, to, ledger: vec![], runs: vec![] };
        timeline.rows(9).iter().map(row_text).collect::<Vec<_>>()
    };
    assert_eq!(rows(job), ["03:00 JobDisabled"]);
    assert_eq!(rows(JobSnapshot { now: at("02:00"), ..job }), ["03:00 JobDisabled"]);
}

#[test]
fn a_count_limits_the_upcoming_occurrences() {
    let counted = JobSnapshot { left: Some(3), ..job() };
    let expected = ["05:00 Upcoming", "06:00 Upcoming", "07:00 Upcoming"];
    check((counted, "04:30", "23:00"), &[], &[], &expected);
    check((counted, "06:30", "23:00"), &[], &[], &expected[2..]);
    check((counted, "07:30", "23:00"), &[], &[], &[]);
    let late = JobSnapshot { due: Some(at("04:40")), left: Some(1), ..job() };
    check((late, "04:31", "23:00"), &[], &[], &["04:40 Upcoming"]);
}

#[test]
fn a_year_of_minutes_is_listed_page_by_page() {
    let recurrence = Some(Recurrence::every(1, Frequency::Minute));
    let definition = Definition { start: Some(at("00:00")), created: at("00:00"), recurrence };
    let rule = Rule::new(definition, &Settings::default()).unwrap();
    let now: Instant = "2027-01-01T00:00:30Z".parse().unwrap();
    let due: Instant = "2027-01-01T00:01:00Z".parse().unwrap();
    let job = JobSnapshot { now, due: Some(due), ..job() };
    let to = Instant::MAX;
    let (ledger, runs) = (vec![], vec![]);
    let timeline = Timeline { rule: &rule, job, from: at("00:00"), to, ledger, runs };
    let rows = timeline.rows(101);
    assert_eq!(
        (rows.len(), rows[0].count, rows[0].state),
        (101, 525_601, OccurrenceState::NotRetained)
    );
    assert_eq!((rows[1].from, rows[100].state), (due, OccurrenceState::Upcoming));
}
