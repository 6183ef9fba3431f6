//! The scan of the schedules of all jobs: expected runs and client certificates.

use std::collections::HashMap;
use std::time::Duration;

use kalends_domain::{
    AccessScope, CollectionPath, CollectionState, Lifecycle, Permission, Switch, stored_rule,
};
use kalends_environment::Stopwatch;
use kalends_recurrence::{Instant, Rule, Settings};
use kalends_store::{JobSummary, ScannedSchedule, SchedulesPage, StoreError};

use super::PAGE;
use super::attention::Attention;
use super::background_scan::Scanned;
use super::states::{ATTENTION_MAX, read_collections, rest_after};
use crate::access::Caller;
use crate::app::App;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Minutes that are counted: an hour, and some more until the next scan has ended.
const MINUTES: usize = 180;
/// Hours that are counted: a week, and some more until the next scan has ended.
const HOURS: usize = 7 * 24 + 4;
/// Occurrences that are counted one by one. A schedule with more has one count for each bucket.
const OCCURRENCES_MAX: u64 = HOURS as u64;

/// Expected runs of a collection in buckets. The arrays begin with the minute and the hour of the
/// scan.
#[derive(Clone, Debug)]
struct ExpectedRuns {
    minutes: Box<[u32; MINUTES]>,
    hours: Box<[u32; HOURS]>,
}

impl Default for ExpectedRuns {
    fn default() -> ExpectedRuns {
        ExpectedRuns { minutes: Box::new([0; MINUTES]), hours: Box::new([0; HOURS]) }
    }
}

/// A collection in the result of a scan.
pub(crate) struct CollectionSchedules {
    pub(crate) path: CollectionPath,
    /// `None` if nothing is expected.
    expected: Option<ExpectedRuns>,
    /// The first entries of its list.
    pub(crate) attention: Vec<Attention>,
    /// Number of all entries.
    pub(crate) attention_count: u64,
}

impl CollectionSchedules {
    /// Expected runs in `from..to`. Spans within the next hour are counted by the minute, others by
    /// the hour.
    pub(crate) fn expected(&self, buckets: &Buckets, from: Instant, to: Instant) -> u64 {
        let Some(expected) = &self.expected else { return 0 };
        let by_minute = buckets.minutes.range(from, to);
        let counts = match by_minute {
            Some(range) => expected.minutes.get(range),
            None => buckets.hours.range(from, to).and_then(|range| expected.hours.get(range)),
        };
        counts.unwrap_or_default().iter().map(|&count| u64::from(count)).sum()
    }
}

/// Buckets of equal length from a time on.
#[derive(Clone, Copy, Debug)]
struct BucketRow {
    start: Instant,
    length: Duration,
    count: usize,
}

impl BucketRow {
    /// Buckets from the one that contains `now` on, aligned in UTC.
    fn new(now: Instant, length: Duration, count: usize) -> BucketRow {
        BucketRow { start: align(now, length), length, count }
    }

    fn end(&self) -> Instant {
        self.start_of(self.count)
    }

    fn start_of(&self, index: usize) -> Instant {
        let offset = self.length.saturating_mul(u32::try_from(index).unwrap_or(u32::MAX));
        self.start.saturating_add(offset)
    }

    /// The bucket of a time.
    fn index(&self, at: Instant) -> Option<usize> {
        let seconds = at.unix_seconds().checked_sub(self.start.unix_seconds())?;
        let index = usize::try_from(seconds).ok()? / usize::try_from(self.length.as_secs()).ok()?;
        (at >= self.start && index < self.count).then_some(index)
    }

    /// The buckets of a span; `None` if it ends after the last one. Buckets before the first one are
    /// empty.
    fn range(&self, from: Instant, to: Instant) -> Option<std::ops::Range<usize>> {
        let index = |at: Instant| if at <= self.start { Some(0) } else { self.index(at) };
        let end = if to == self.end() { self.count } else { index(to)? };
        Some(index(from)?.min(end)..end)
    }
}

/// The start of the bucket of a time, aligned in UTC.
pub(crate) fn align(at: Instant, length: Duration) -> Instant {
    let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX).max(1);
    let start = at.unix_seconds().div_euclid(seconds).saturating_mul(seconds);
    Instant::from_unix_seconds(start).unwrap_or(at)
}

/// The buckets of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    now: Instant,
    minutes: BucketRow,
    hours: BucketRow,
}

impl Buckets {
    fn new(now: Instant) -> Buckets {
        Buckets {
            now,
            minutes: BucketRow::new(now, MINUTE, MINUTES),
            hours: BucketRow::new(now, HOUR, HOURS),
        }
    }

    /// The end of the last bucket.
    fn end(&self) -> Instant {
        self.hours.end()
    }

    fn count_at(&self, expected: &mut ExpectedRuns, at: Instant) {
        // An overdue run is expected now.
        let at = at.max(self.now);
        let minute = self.minutes.index(at).and_then(|index| expected.minutes.get_mut(index));
        let hour = self.hours.index(at).and_then(|index| expected.hours.get_mut(index));
        for count in minute.into_iter().chain(hour) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds the runs of a schedule without its count, of which `left` are left.
    fn add(&self, expected: &mut ExpectedRuns, rule: &Rule, due: Instant, left: u64) {
        let last = self.end().previous_tick();
        let from = due.max(self.now).previous_tick();
        if left.min(rule.count_between(from, last)) <= OCCURRENCES_MAX {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let occurrences = rule.occurrences_after(from).take_while(|&at| at <= last);
            occurrences.take(left).for_each(|at| self.count_at(expected, at));
            return;
        }
        for (row, counts) in [
            (&self.minutes, expected.minutes.as_mut_slice()),
            (&self.hours, expected.hours.as_mut_slice()),
        ] {
            let mut left = left;
            for (index, count) in counts.iter_mut().enumerate() {
                let start = row.start_of(index).previous_tick().max(from);
                let end = row.start_of(index + 1).previous_tick();
                let runs = if start < end { rule.count_between(start, end).min(left) } else { 0 };
                left -= runs;
                *count = count.saturating_add(u32::try_from(runs).unwrap_or(u32::MAX));
            }
        }
    }
}

/// The result of a scan.
pub(crate) struct SchedulesSnapshot {
    pub(crate) calculated_at: Instant,
    pub(crate) buckets: Buckets,
    /// By path.
    collections: Vec<CollectionSchedules>,
}

impl SchedulesSnapshot {
    /// The collections that a caller may read, by path.
    pub(crate) fn readable<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> impl Iterator<Item = &'a CollectionSchedules> {
        let reads_all = caller.may(Permission::Read, &AccessScope::Everything);
        self.collections.iter().filter(move |collection| {
            let scope = || AccessScope::Collection(collection.path.clone());
            reads_all || caller.may(Permission::Read, &scope())
        })
    }
}

/// Scans the schedules of all jobs.
pub(super) async fn scan(app: &App) -> Result<Scanned<SchedulesSnapshot>, StoreError> {
    let now = app.now();
    let watch = Stopwatch::start();
    let buckets = Buckets::new(now);
    let mut collections = Vec::new();
    let mut places = HashMap::new();
    // Jobs of other collections do not run.
    for summary in read_collections(app).await? {
        if summary.record.collection.state == CollectionState::Enabled {
            places.insert(summary.key, collections.len());
            collections.push(CollectionSchedules {
                path: summary.record.path,
                expected: None,
                attention: vec![],
                attention_count: 0,
            });
        }
    }
    let mut work = watch.elapsed();
    let mut after = None;
    loop {
        let watch = Stopwatch::start();
        let SchedulesPage { schedules, next } =
            app.store.scan_schedules(after, buckets.end(), PAGE).await?;
        for schedule in schedules {
            let place = places.get(&schedule.job.collection);
            if let Some(collection) = place.and_then(|place| collections.get_mut(*place)) {
                collection.add(schedule, &buckets, &app.settings.schedules);
            }
        }
        let page = watch.elapsed();
        work += page;
        match next {
            None => break,
            Some(_) => after = next,
        }
        rest_after(app, page).await;
    }
    let result = SchedulesSnapshot { calculated_at: now, buckets, collections };
    Ok(Scanned { result, work })
}

impl CollectionSchedules {
    fn add(&mut self, schedule: ScannedSchedule, buckets: &Buckets, settings: &Settings) {
        let ScannedSchedule { job, definition, certificate_end } = schedule;
        let certificate =
            certificate_end.and_then(|end| Attention::certificate(job.job, end, buckets.now));
        let rule = definition.and_then(|definition| stored_rule(definition, settings).ok());
        let attention = match &rule {
            None => Some(Attention::unreadable(job.job)),
            Some(_) => certificate,
        };
        if let Some(attention) = attention {
            self.attention_count += 1;
            if self.attention.len() < ATTENTION_MAX {
                self.attention.push(attention);
            }
        }
        if let (Some(rule), Some(due)) = (rule, expected_due(&job, buckets)) {
            let expected = self.expected.get_or_insert_default();
            match &rule.definition().recurrence {
                None => buckets.count_at(expected, due),
                Some(recurrence) => {
                    let count = recurrence.count.map(i64::unsigned_abs);
                    let left = count.map_or(u64::MAX, |count| count.saturating_sub(job.used));
                    buckets.add(expected, &rule.without_count(), due, left);
                }
            }
        }
    }
}

/// The next run of a job, if it is in one of the buckets.
fn expected_due(job: &JobSummary, buckets: &Buckets) -> Option<Instant> {
    let is_active = (job.switch, job.lifecycle) == (Switch::Enabled, Lifecycle::Active);
    job.due.filter(|due| is_active && *due < buckets.end())
}

#[cfg(test)]
mod tests {
    use kalends_recurrence::{Definition, Frequency, Recurrence};

    use super::*;

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    /// Both ways to count find the occurrences of the schedule.
    #[test]
    fn buckets_have_the_occurrences_of_a_schedule() {
        let now = at("2026-11-16T12:30:20Z");
        let buckets = Buckets::new(now);
        for (interval, frequency, due, left) in [
            (1, Frequency::Minute, "2026-11-16T12:31:00Z", u64::MAX),
            (7, Frequency::Minute, "2026-11-16T12:31:00Z", u64::MAX),
            (1, Frequency::Minute, "2026-11-16T12:00:00Z", 500),
            (1, Frequency::Minute, "2026-11-20T00:00:00Z", u64::MAX),
            (1, Frequency::Hour, "2026-11-16T13:00:00Z", u64::MAX),
            (1, Frequency::Hour, "2026-11-16T13:00:00Z", 3),
            (1, Frequency::Day, "2026-11-17T00:00:00Z", u64::MAX),
        ] {
            let definition = Definition {
                start: Some(at("2026-01-01T00:00:00Z")),
                created: at("2026-01-01T00:00:00Z"),
                recurrence: Some(Recurrence::every(interval, frequency)),
            };
            let rule = Rule::new(definition, &Settings::default()).unwrap();
            let mut found = ExpectedRuns::default();
            buckets.add(&mut found, &rule, at(due), left);
            let mut expected = ExpectedRuns::default();
            let from = at(due).max(now).previous_tick();
            let left = usize::try_from(left).unwrap();
            for at in rule.occurrences_after(from).take_while(|at| *at < buckets.end()).take(left) {
                buckets.count_at(&mut expected, at);
            }
            assert_eq!(found.minutes, expected.minutes, "{interval} {frequency:?} {due} {left}");
            assert_eq!(found.hours, expected.hours, "{interval} {frequency:?} {due} {left}");
        }
    }

    #[test]
    fn spans_are_summed_from_whole_buckets() {
        let buckets = Buckets::new(at("2026-11-16T12:30:20Z"));
        let mut expected = ExpectedRuns::default();
        for time in ["2026-11-16T12:30:30Z", "2026-11-16T12:59:59Z", "2026-11-16T20:00:00Z"] {
            buckets.count_at(&mut expected, at(time));
        }
        let collection = CollectionSchedules {
            path: CollectionPath {
                group: Default::default(),
                collection: kalends_domain::CollectionName::new("c").unwrap(),
            },
            expected: Some(expected),
            attention: vec![],
            attention_count: 0,
        };
        let count = |from: &str, to: &str| collection.expected(&buckets, at(from), at(to));
        assert_eq!(count("2026-11-16T12:00:00Z", "2026-11-16T13:00:00Z"), 2);
        assert_eq!(count("2026-11-16T12:30:00Z", "2026-11-16T12:31:00Z"), 1);
        assert_eq!(count("2026-11-16T12:31:00Z", "2026-11-16T12:32:00Z"), 0);
        assert_eq!(count("2026-11-16T20:00:00Z", "2026-11-16T21:00:00Z"), 1);
        assert_eq!(count("2026-11-16T11:00:00Z", "2026-11-16T12:00:00Z"), 0, "before the scan");
        assert_eq!(count("2027-11-16T20:00:00Z", "2027-11-16T21:00:00Z"), 0, "after the end");
    }
}
