//! History, the ledger, retention and events.

use std::time::Duration;

use kalends_domain::{AttemptStatus, HistoryEntry, Lifecycle, Micros, Timing};

use crate::api_store::{HistoryFilter, JobFilterState, JobWrite, Page};
use crate::conformance::Subject;
use crate::conformance::sample::{at, closed, definition, due, entry, job_path, put};
use crate::engine_store::{Advance, Retention, RunWrite, RunWriteResult};
use crate::error::StoreError;
use crate::events::{EventPosition, Events, LedgerEvent};
use crate::record::{Disposition, HistoryRecord, JobRecord, LedgerRecord};

const DAY: u64 = 86_400;

/// Creates a job with these history entries and ledger rows, in this order.
async fn recorded(
    subject: &Subject,
    name: &str,
    entries: Vec<HistoryEntry>,
    rows: Vec<LedgerRecord>,
) -> JobRecord {
    let job = subject.create_due_job(name).await;
    let skip = RunWrite::Skip {
        on: due(&job),
        advance: Advance { due: Some(at(60)), used: 0, lifecycle: Lifecycle::Active },
        closed: rows,
        postponed: entries,
    };
    assert_eq!(subject.commit(skip).await, RunWriteResult::Done);
    job
}

async fn starts(subject: &Subject, name: &str, filter: HistoryFilter, page: Page<u64>) -> Vec<u64> {
    let history = subject.store.history(job_path(name), filter, page).await.unwrap().unwrap();
    history.iter().map(|record| record.entry.started.since(at(0)).as_secs()).collect()
}

/// Order, paging and filters of history.
pub async fn history_is_listed_newest_first_filtered_and_paged(subject: Subject) {
    subject.create_collection().await;
    let statuses = [AttemptStatus::Completed, AttemptStatus::Failed, AttemptStatus::Postponed];
    let entries: Vec<_> = (0..9).map(|number| entry(statuses[number % 3], number as u64)).collect();
    recorded(&subject, "other", vec![entry(AttemptStatus::Failed, 100)], vec![]).await;
    recorded(&subject, "j", entries.clone(), vec![]).await;
    recorded(&subject, "another", vec![entry(AttemptStatus::Failed, 200)], vec![]).await;
    let all = HistoryFilter::default();
    assert_eq!(starts(&subject, "j", all, Page::first(99)).await, [8, 7, 6, 5, 4, 3, 2, 1, 0]);
    let page = Page { after: None, skip: 2, limit: 3 };
    assert_eq!(starts(&subject, "j", all, page).await, [6, 5, 4]);
    let failed = HistoryFilter { status: Some(AttemptStatus::Failed) };
    assert_eq!(starts(&subject, "j", failed, Page::first(99)).await, [7, 4, 1]);
    assert_eq!(starts(&subject, "j", failed, Page { after: None, skip: 1, limit: 1 }).await, [4]);
    let postponed = HistoryFilter { status: Some(AttemptStatus::Postponed) };
    assert_eq!(starts(&subject, "j", postponed, Page::first(99)).await, [8, 5, 2]);

    let first = subject.store.history(job_path("J"), all, Page::first(4)).await.unwrap().unwrap();
    assert!(first.is_sorted_by(|newer, older| newer.sequence > older.sequence));
    let after = first.last().map(|record| record.sequence);
    assert_eq!(starts(&subject, "j", all, Page { after, skip: 0, limit: 2 }).await, [4, 3]);
    assert_eq!(first[0].entry, entries[8]);
}

/// A missing collection is an error; a missing job is `None`.
pub async fn history_of_a_missing_job_or_collection(subject: Subject) {
    let history = || subject.store.history(job_path("j"), HistoryFilter::default(), Page::first(1));
    assert_eq!(history().await, Err(StoreError::NoCollection));
    subject.create_collection().await;
    assert_eq!(history().await, Ok(None));
    subject.create_due_job("j").await;
    assert_eq!(history().await, Ok(Some(vec![])));
}

/// Every disposition; single occurrences and ranges.
pub async fn the_ledger_is_read_by_range_of_scheduled_times(subject: Subject) {
    subject.create_collection().await;
    let dispositions = [
        Disposition::Completed,
        Disposition::Failed,
        Disposition::SkippedOverlap,
        Disposition::SkippedDisabled,
        Disposition::SkippedQuota,
        Disposition::SkippedPaused,
        Disposition::SkippedByRequest,
        Disposition::Missed,
        Disposition::Superseded,
    ];
    let rows: Vec<_> = (10..).zip(dispositions).map(|(second, how)| closed(how, second)).collect();
    let mut range = closed(Disposition::Missed, 100);
    (range.to, range.count) = (at(200), 101);
    let written = rows.iter().rev().cloned().chain([range.clone()]).collect();
    let job = recorded(&subject, "j", vec![], written).await;
    let read = async |from, to, limit| {
        subject.store.ledger(job.key, at(from), at(to), limit).await.unwrap()
    };
    assert_eq!(read(0, 99, 99).await, rows);
    assert_eq!(read(11, 12, 99).await, rows[1..3]);
    assert_eq!(read(11, 99, 1).await, rows[1..2]);
    assert_eq!(read(150, 150, 9).await, [range.clone()], "inside a range");
    assert_eq!(read(200, 300, 9).await, [range]);
    assert_eq!(read(201, 300, 9).await, []);
}

fn retention(age_days: u64, count: u64) -> Retention {
    Retention {
        history_age: Duration::from_secs(age_days * DAY),
        history_count: count,
        finished_jobs: Duration::from_secs(60 * DAY),
    }
}

/// Deletes entries that are too old and entries that exceed the count.
pub async fn pruning_applies_the_limits_of_age_and_count(subject: Subject) {
    subject.create_collection().await;
    let entries =
        |days: &[u64]| days.iter().map(|day| entry(AttemptStatus::Completed, day * DAY)).collect();
    let row = |day: u64| closed(Disposition::Completed, day * DAY);
    recorded(&subject, "old", entries(&[1, 2, 50]), vec![row(1), row(50)]).await;
    recorded(&subject, "many", entries(&[45, 46, 47, 48, 49]), vec![]).await;
    let now = at(62 * DAY);
    let removed = subject.store.prune(retention(60, 3), now, 100).await.unwrap();
    assert_eq!(removed, 4, "an old entry, an old row, two surplus entries");
    assert_eq!(subject.history_of("old").await.len(), 2);
    assert_eq!(
        starts(&subject, "many", Default::default(), Page::first(9)).await,
        [49, 48, 47].map(|d| d * DAY)
    );
    assert_eq!(subject.store.prune(retention(60, 3), now, 100).await.unwrap(), 0);
}

/// Small batches do not block the start of runs.
pub async fn pruning_deletes_at_most_the_given_number_of_rows(subject: Subject) {
    subject.create_collection().await;
    let entries = (0..25).map(|second| entry(AttemptStatus::Failed, second)).collect();
    recorded(&subject, "j", entries, vec![]).await;
    let mut steps = Vec::new();
    loop {
        let removed = subject.store.prune(retention(1, 1_000), at(9 * DAY), 10).await.unwrap();
        steps.push(removed);
        if removed < 10 {
            break;
        }
    }
    assert_eq!(steps.iter().sum::<usize>(), 25, "{steps:?}");
    assert!(steps.iter().all(|&step| step <= 10));
    assert_eq!(subject.history_of("j").await, []);
}

/// Recently finished and active jobs stay.
pub async fn finished_jobs_are_removed_after_their_retention_period(subject: Subject) {
    subject.create_collection().await;
    let finished = |day: u64| {
        let mut put = put(definition(), None);
        put.state.lifecycle = Lifecycle::Completed;
        put.state.finished = Some(at(day * DAY));
        put
    };
    subject.put_job("long_ago", finished(1)).await;
    subject.put_job("recent", finished(10)).await;
    subject.create_due_job("active").await;
    let removed = subject.store.prune(Retention::default(), at(62 * DAY), 9).await.unwrap();
    assert_eq!(removed, 1);
    assert_eq!(subject.job("long_ago").await, None);
    assert!(subject.job("recent").await.is_some() && subject.job("active").await.is_some());
}

/// Messages contain any text that a target may return.
pub async fn texts_of_any_kind_round_trip(subject: Subject) {
    subject.create_collection().await;
    let texts = ["", "plain", "ä€😀\u{202e}", "' \" \\ \r\n\t\u{1b}[31m", "\u{fffd}\u{7f}\u{1}"];
    let message =
        |text: &str| HistoryEntry { message: text.into(), ..entry(AttemptStatus::Failed, 1) };
    let large = "x".repeat(100_000);
    let entries: Vec<_> = texts.iter().copied().chain([large.as_str()]).map(message).collect();
    recorded(&subject, "j", entries.clone(), vec![]).await;
    let read: Vec<_> = subject.history_of("j").await.into_iter().rev().collect();
    assert_eq!(read, entries);
}

/// Each combination of known and unknown phases, in history and events.
pub async fn the_timing_of_an_attempt_round_trips(subject: Subject) {
    subject.create_collection().await;
    // `u32::MAX` checks the width of the column.
    let lengths = [0, 1, 1_801_000_000, u32::MAX, 65_536];
    let some = |part: usize, mask: usize| {
        (mask & (1 << part) != 0).then(|| Micros::new(lengths[(part + mask) % lengths.len()]))
    };
    let timing = |mask| Timing {
        dns: some(0, mask),
        connect: some(1, mask),
        tls: some(2, mask),
        first_byte: some(3, mask),
        total: some(4, mask),
    };
    let timed = |mask| HistoryEntry {
        timing: timing(mask),
        ..entry(AttemptStatus::Completed, mask as u64)
    };
    let entries: Vec<_> = (0..32).map(timed).collect();
    recorded(&subject, "j", entries.clone(), vec![]).await;
    let read: Vec<_> = subject.history_of("j").await.into_iter().rev().collect();
    assert_eq!(read, entries);
    let events = subject.store.events(Some(EventPosition::default()), 99).await.unwrap().history;
    let in_events: Vec<_> = events.into_iter().map(|(_, record)| record.entry).collect();
    assert_eq!(in_events, entries);
}

/// Each history entry and ledger row is returned once.
pub async fn events_of_all_jobs_are_read_in_order_from_any_position(subject: Subject) {
    let read = async |after, limit| subject.store.events(after, limit).await.unwrap();
    let from = |history, ledger| Some(EventPosition { history, ledger });
    let empty = Events::default();
    assert_eq!((read(None, 9).await, read(from(0, 0), 9).await), (empty.clone(), empty));
    subject.create_collection().await;
    let one = |second| vec![entry(AttemptStatus::Completed, second)];
    let row = |second| vec![closed(Disposition::Completed, second)];
    recorded(&subject, "Spelled", one(1), row(11)).await;
    recorded(&subject, "b", [one(2), one(3)].concat(), [row(12), row(13)].concat()).await;
    recorded(&subject, "c", one(4), row(14)).await;
    let all = read(from(0, 0), 9).await;
    let second = |time: kalends_recurrence::Instant| time.since(at(0)).as_secs();
    let entries = |events: &Events| -> Vec<_> {
        let one = |(path, record): &(kalends_domain::JobPath, HistoryRecord)| {
            (path.job.to_string(), second(record.entry.started))
        };
        events.history.iter().map(one).collect()
    };
    let rows = |events: &Events| -> Vec<_> {
        let one = |(path, record): &(kalends_domain::JobPath, LedgerEvent)| {
            (path.job.to_string(), second(record.record.from))
        };
        events.ledger.iter().map(one).collect()
    };
    let expected = [("Spelled", 1), ("b", 2), ("b", 3), ("c", 4)].map(|(n, s)| (n.to_owned(), s));
    let expected_rows = expected.clone().map(|(name, second)| (name, second + 10));
    assert_eq!((entries(&all), rows(&all)), (expected.to_vec(), expected_rows.to_vec()));
    assert!(all.history.is_sorted_by(|(_, one), (_, next)| one.sequence < next.sequence));
    assert!(all.ledger.is_sorted_by(|(_, one), (_, next)| one.number < next.number));
    assert!(all.ledger.iter().all(|(_, record)| record.job_state == JobFilterState::Enabled));
    let number = |index: usize| all.history[index].1.sequence;
    let row_number = |index: usize| all.ledger[index].1.number;
    let newest = EventPosition { history: number(3), ledger: row_number(3) };
    assert_eq!(all.newest, newest);
    assert_eq!(all.history[0].0, job_path("Spelled"));
    let some = read(from(number(0), row_number(1)), 2).await;
    assert_eq!(entries(&some), expected[1..3]);
    assert_eq!(rows(&some), expected_rows[2..]);
    let none = Events { newest, ..Events::default() };
    assert_eq!(read(Some(newest), 9).await, none);
    assert_eq!(read(None, 9).await, none);
    let beyond = read(from(u64::MAX, u64::MAX), 9).await;
    assert_eq!((beyond.history, beyond.ledger), (vec![], vec![]));
    subject.edit_job("b", JobWrite::Delete).await;
    let left = read(from(0, 0), 9).await;
    assert_eq!(entries(&left), [&expected[..1], &expected[3..]].concat());
    assert_eq!(rows(&left), [&expected_rows[..1], &expected_rows[3..]].concat());
}

/// The row that completes a job is read with the state completed.
pub async fn ledger_events_carry_the_state_of_their_job(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let skip = RunWrite::Skip {
        on: due(&job),
        advance: Advance { due: None, used: 0, lifecycle: Lifecycle::Completed },
        closed: vec![closed(Disposition::Missed, 60)],
        postponed: vec![],
    };
    assert_eq!(subject.commit(skip).await, RunWriteResult::Done);
    let off = subject.create_due_job("off").await;
    let mut switched = put(definition(), Some(at(120)));
    switched.definition.switch = kalends_domain::Switch::Disabled;
    switched.closed_by_edit = Some(closed(Disposition::SkippedDisabled, 60));
    assert_eq!(subject.put_job("off", switched).await.key, off.key);
    let events = subject.store.events(Some(EventPosition::default()), 9).await.unwrap();
    let read = events
        .ledger
        .iter()
        .map(|(path, record)| (path.job.to_string(), record.record.disposition, record.job_state));
    let expected = [
        ("j".to_owned(), Disposition::Missed, JobFilterState::Completed),
        ("off".to_owned(), Disposition::SkippedDisabled, JobFilterState::Disabled),
    ];
    assert_eq!(read.collect::<Vec<_>>(), expected);
}
