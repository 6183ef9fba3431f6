//! Following what comes into the history and the ledger of jobs.
//!
//! Every follower reads on from a position of its own, as fast as its client takes it: nothing is
//! kept for it in between, and where nobody follows nothing is read. A position is the number of an
//! entry of history and that of a row of the ledger. Numbers come in order but for holes: of what
//! another node has not committed yet, or of what has been removed. A hole is waited for a little
//! while and then told as a gap.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{CollectionName, GroupName, JobName, JobPath, SubscriptionId};
use kalends_recurrence::Instant;
use kalends_store::LedgerEvent;
use kalends_store::record::HistoryRecord;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// As many follow at the same time: each has a connection, and asks the store twice a second.
const FOLLOWERS_MAX: usize = 64;
/// A hole is waited for so long: no transaction takes longer to commit.
const HOLE_PATIENCE: Duration = Duration::from_secs(5);

/// Who follows what comes into history and the ledger.
#[derive(Clone, Debug)]
pub struct Events {
    room: Arc<Semaphore>,
    stopped: watch::Sender<bool>,
}

impl Default for Events {
    fn default() -> Events {
        let room = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        Events { room, stopped: watch::Sender::new(false) }
    }
}

impl Events {
    /// A place for one more follower, if there is one, and what tells it to end.
    pub(crate) fn join(&self) -> Option<(OwnedSemaphorePermit, watch::Receiver<bool>)> {
        let place = Arc::clone(&self.room).try_acquire_owned().ok()?;
        Some((place, self.stopped.subscribe()))
    }

    /// All followers end: the server stops.
    pub(crate) fn stop(&self) {
        self.stopped.send_replace(true);
    }
}

/// Whose entries are told; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) subscription: Option<SubscriptionId>,
    pub(crate) group: Option<GroupName>,
    pub(crate) collection: Option<CollectionName>,
    pub(crate) job: Option<JobName>,
}

impl Scope {
    pub(crate) fn holds(&self, path: &JobPath) -> bool {
        let group = &path.collection.group;
        self.subscription.as_ref().is_none_or(|own| *own == group.subscription)
            && self.group.as_ref().is_none_or(|own| *own == group.group)
            && self.collection.as_ref().is_none_or(|own| *own == path.collection.collection)
            && self.job.as_ref().is_none_or(|own| *own == path.job)
    }
}

/// How far a follower has come in one of the two sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The number of the last that was told or passed over.
    pub(crate) at: u64,
    /// Since when the hole behind it is there.
    hole_since: Option<Instant>,
}

/// What has a number in one of the two sequences that are followed.
pub(crate) trait Numbered {
    fn number(&self) -> u64;
    /// When it was decided; it was written a little later.
    fn at(&self) -> Instant;
}

/// An entry of history, with the job it is of.
pub(crate) type Entry = (JobPath, HistoryRecord);

impl Numbered for Entry {
    fn number(&self) -> u64 {
        self.1.sequence
    }

    fn at(&self) -> Instant {
        self.1.entry.ended
    }
}

/// A row of the ledger, with the job it is of.
pub(crate) type Closing = (JobPath, LedgerEvent);

impl Numbered for Closing {
    fn number(&self) -> u64 {
        self.1.number
    }

    fn at(&self) -> Instant {
        self.1.record.closed
    }
}

/// What a follower is told of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told<T> {
    One(T),
    /// What lies between these numbers is not there to be told.
    Gap {
        after: u64,
        before: u64,
    },
}

impl<T: Numbered> Told<T> {
    /// A gap comes as soon as it is known.
    fn at(&self) -> Instant {
        match self {
            Told::One(one) => one.at(),
            Told::Gap { .. } => Instant::MIN,
        }
    }
}

/// What a follower is told of either sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Entry(Told<Entry>),
    Closing(Told<Closing>),
}

/// Both sequences, each in its order, and between them as it happened: an attempt before what came
/// of it.
pub(crate) fn merge(entries: Vec<Told<Entry>>, closings: Vec<Told<Closing>>) -> Vec<Event> {
    let (mut entries, mut closings) =
        (entries.into_iter().peekable(), closings.into_iter().peekable());
    let mut events = Vec::with_capacity(entries.len() + closings.len());
    loop {
        let entry_is_next = match (entries.peek(), closings.peek()) {
            (Some(entry), Some(closing)) => entry.at() <= closing.at(),
            (entry, _) => entry.is_some(),
        };
        let next = match entry_is_next {
            true => entries.next().map(Event::Entry),
            false => closings.next().map(Event::Closing),
        };
        match next {
            Some(event) => events.push(event),
            None => return events,
        }
    }
}

impl Cursor {
    pub(crate) fn new(at: u64) -> Cursor {
        Cursor { at, hole_since: None }
    }

    /// What is told of what follows the position; the rest waits for the hole before it.
    pub(crate) fn take<T: Numbered>(&mut self, following: Vec<T>, now: Instant) -> Vec<Told<T>> {
        let mut told = Vec::new();
        for one in following {
            let (after, number) = (self.at, one.number());
            if number != after + 1 {
                if self.waits_for_hole(one.at(), now) {
                    break;
                }
                told.push(Told::Gap { after, before: number });
            }
            *self = Cursor::new(number);
            told.push(Told::One(one));
        }
        told
    }

    /// Whether the entries of a hole may still come; the one behind it ended then.
    fn waits_for_hole(&mut self, ended: Instant, now: Instant) -> bool {
        // The clock of who wrote it may be ahead.
        let is_young = |since: Instant| now < since.saturating_add(HOLE_PATIENCE);
        // A clock that was set back begins anew.
        let since = *self.hole_since.filter(|&since| since <= now).get_or_insert(now);
        self.hole_since = Some(since);
        is_young(ended) && is_young(since)
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::{
        ActionRole, AttemptStatus, Cause, CollectionPath, Disposition, GroupPath, HistoryEntry,
        LedgerRecord, Timing,
    };
    use kalends_store::JobFilterState;

    use super::*;

    fn at(second: u64) -> Instant {
        let start: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
        start.saturating_add(Duration::from_secs(second))
    }

    fn path(job: &str) -> JobPath {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
        let collection = CollectionPath { group, collection: CollectionName::new("jc").unwrap() };
        JobPath { collection, job: JobName::new(job).unwrap() }
    }

    fn entries(numbers: &[u64], ended: u64) -> Vec<(JobPath, HistoryRecord)> {
        let ended = at(ended);
        let entry = HistoryEntry {
            started: ended,
            ended,
            expected: ended,
            status: AttemptStatus::Completed,
            message: String::new(),
            retry: 0,
            repeat: 1,
            role: ActionRole::Main,
            timing: Timing::default(),
        };
        let record =
            |&sequence: &u64| (path("j"), HistoryRecord { sequence, entry: entry.clone() });
        numbers.iter().map(record).collect()
    }

    /// Takes at a second, and says what was told: numbers, and gaps as `a..b`.
    fn take(cursor: &mut Cursor, numbers: &[u64], ended: u64, now: u64) -> String {
        let told = cursor.take(entries(numbers, ended), at(now));
        let one = |told: &Told<Entry>| match told {
            Told::One(entry) => entry.number().to_string(),
            Told::Gap { after, before } => format!("{after}..{before}"),
        };
        told.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_follows_is_told_once() {
        let mut cursor = Cursor::new(4);
        assert_eq!(take(&mut cursor, &[5, 6, 7], 1, 1), "5 6 7");
        assert_eq!(take(&mut cursor, &[], 1, 1), "");
        assert_eq!(take(&mut cursor, &[8], 1, 1), "8");
    }

    #[test]
    fn an_entry_that_is_committed_late_is_waited_for() {
        let mut cursor = Cursor::new(4);
        assert_eq!(take(&mut cursor, &[5, 7], 1, 1), "5");
        assert_eq!(take(&mut cursor, &[7, 8], 1, 2), "");
        assert_eq!(take(&mut cursor, &[6, 7, 8], 1, 3), "6 7 8");
    }

    #[test]
    fn what_does_not_come_is_a_gap() {
        let mut cursor = Cursor::new(4);
        assert_eq!(take(&mut cursor, &[7], 10, 10), "");
        assert_eq!(take(&mut cursor, &[7], 10, 14), "");
        assert_eq!(take(&mut cursor, &[7], 10, 15), "4..7 7");
        assert_eq!(take(&mut cursor, &[9], 10, 60), "7..9 9", "who comes back later does not wait");
        assert_eq!(take(&mut cursor, &[11], 90, 60), "", "the clock of another node is ahead");
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_it() {
        let mut cursor = Cursor::new(4);
        assert_eq!(take(&mut cursor, &[6], 1_000, 1_000), "");
        assert_eq!(take(&mut cursor, &[6], 1_000, 10), "");
        assert_eq!(take(&mut cursor, &[6], 1_000, 15), "4..6 6");
    }

    fn closings(numbers: &[u64], closed: u64) -> Vec<Closing> {
        let closed = at(closed);
        let row = LedgerRecord {
            generation: 1,
            from: closed,
            to: closed,
            count: 1,
            cause: Cause::Scheduled,
            disposition: Disposition::Completed,
            closed,
        };
        let job_state = JobFilterState::Enabled;
        let record =
            |&number: &u64| (path("j"), LedgerEvent { number, record: row.clone(), job_state });
        numbers.iter().map(record).collect()
    }

    #[test]
    fn both_sequences_are_told_as_it_happened_and_each_in_its_order() {
        let mut cursors = [Cursor::new(0), Cursor::new(0)];
        let now = at(90);
        let later = entries(&[1], 20).into_iter().chain(entries(&[2], 10)).collect();
        let told = cursors[0].take(later, now);
        let rows = [closings(&[1], 20), closings(&[3], 21), closings(&[4], 5)].concat();
        let told = merge(told, cursors[1].take(rows, now));
        let one = |event: &Event| match event {
            Event::Entry(Told::One(one)) => format!("entry {}", one.number()),
            Event::Closing(Told::One(one)) => format!("row {}", one.number()),
            Event::Entry(gap) => format!("{gap:?}"),
            Event::Closing(Told::Gap { after, before }) => format!("no rows {after}..{before}"),
        };
        let told: Vec<_> = told.iter().map(one).collect();
        assert_eq!(told, ["entry 1", "entry 2", "row 1", "no rows 1..3", "row 3", "row 4"]);
    }

    #[test]
    fn scopes_hold_what_they_name_without_case() {
        let scope = Scope { job: Some(JobName::new("J").unwrap()), ..Scope::default() };
        assert!(Scope::default().holds(&path("x")) && scope.holds(&path("j")));
        assert!(!scope.holds(&path("k")));
        let group = Some(GroupName::new("other").unwrap());
        assert!(!Scope { group, ..Scope::default() }.holds(&path("j")));
    }
}
