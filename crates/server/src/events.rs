//! Event subscriptions: new entries of the history and new rows of the ledger.
//!
//! Every subscriber polls the store from its own position, as fast as its client reads. The server
//! buffers nothing in between, and without subscribers it polls nothing. A position is a pair of
//! sequence numbers, one of the history and one of the ledger. Sequence numbers are consecutive
//! except for holes: records that another node has not committed yet, or that retention has removed.
//! A subscriber waits for a hole to fill until it stays empty for certain and then reports a gap.

use std::sync::Arc;

use kalends_domain::{CollectionName, GroupName, JobName, JobPath, SubscriptionId};
use kalends_recurrence::Instant;
use kalends_store::record::HistoryRecord;
use kalends_store::{LedgerEvent, NUMBERS_COMPLETE_AFTER};
use tokio::sync::watch;

use crate::access::{AccessControl, Caller};
use crate::capacity::{CapacityExceeded, CapacityPermit, ShareLimits, SharedCapacity};
use crate::client::ClientNetwork;

/// Concurrent subscribers: each has a connection, and polls the store twice a second.
const SUBSCRIBERS: ShareLimits = ShareLimits { total: 64, per_client: 16, per_caller: 8 };

/// The subscriptions to events: their limit and their stop signal.
#[derive(Clone, Debug)]
pub struct EventSubscriptions {
    capacity: Arc<SharedCapacity>,
    stopped: watch::Sender<bool>,
}

impl EventSubscriptions {
    /// No subscriptions yet. Callers have shares unless the server has a single user.
    pub fn new(access: &AccessControl) -> EventSubscriptions {
        let limits =
            if access.is_single_user() { SUBSCRIBERS.without_shares() } else { SUBSCRIBERS };
        let capacity = SharedCapacity::new(limits);
        EventSubscriptions { capacity, stopped: watch::Sender::new(false) }
    }

    /// A permit for a further subscriber, and its stop signal.
    pub(crate) fn subscribe(
        &self,
        client: ClientNetwork,
        caller: &Caller,
    ) -> Result<(CapacityPermit, watch::Receiver<bool>), CapacityExceeded> {
        let permit = self.capacity.acquire(client, Some(&caller.id))?;
        Ok((permit, self.stopped.subscribe()))
    }

    /// Ends all subscriptions when the server stops.
    pub(crate) fn stop(&self) {
        self.stopped.send_replace(true);
    }
}

/// Selects events by the path of their job. An absent member matches every name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFilter {
    pub(crate) subscription: Option<SubscriptionId>,
    pub(crate) group: Option<GroupName>,
    pub(crate) collection: Option<CollectionName>,
    pub(crate) job: Option<JobName>,
}

impl EventFilter {
    pub(crate) fn matches(&self, path: &JobPath) -> bool {
        let group = &path.collection.group;
        self.subscription.as_ref().is_none_or(|own| *own == group.subscription)
            && self.group.as_ref().is_none_or(|own| *own == group.group)
            && self.collection.as_ref().is_none_or(|own| *own == path.collection.collection)
            && self.job.as_ref().is_none_or(|own| *own == path.job)
    }
}

/// The position of a subscriber in one of the two sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Number of the last record that was passed on or skipped.
    pub(crate) position: u64,
    /// Time at which the hole after the position was found.
    hole_since: Option<Instant>,
}

/// A record of one of the two sequences.
pub(crate) trait Sequenced {
    fn number(&self) -> u64;
    /// Time of the event, slightly before its commit.
    fn at(&self) -> Instant;
}

/// A history entry with the path of its job.
pub(crate) type HistoryItem = (JobPath, HistoryRecord);

impl Sequenced for HistoryItem {
    fn number(&self) -> u64 {
        self.1.sequence
    }

    fn at(&self) -> Instant {
        self.1.entry.ended
    }
}

/// A ledger row with the path of its job.
pub(crate) type LedgerItem = (JobPath, LedgerEvent);

impl Sequenced for LedgerItem {
    fn number(&self) -> u64 {
        self.1.number
    }

    fn at(&self) -> Instant {
        self.1.record.closed
    }
}

/// A record of a sequence, or a gap in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamItem<T> {
    Record(T),
    /// There are no records between these numbers, exclusively.
    Gap {
        after: u64,
        before: u64,
    },
}

impl<T: Sequenced> StreamItem<T> {
    /// A gap has the earliest time, so that it is sent first.
    fn at(&self) -> Instant {
        match self {
            StreamItem::Record(record) => record.at(),
            StreamItem::Gap { .. } => Instant::MIN,
        }
    }
}

/// An item of either sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    History(StreamItem<HistoryItem>),
    Ledger(StreamItem<LedgerItem>),
}

/// Merges both sequences by time and keeps the order of each: an attempt precedes the closing of its
/// occurrence.
pub(crate) fn merge(
    entries: Vec<StreamItem<HistoryItem>>,
    closings: Vec<StreamItem<LedgerItem>>,
) -> Vec<Event> {
    let (mut entries, mut closings) =
        (entries.into_iter().peekable(), closings.into_iter().peekable());
    let mut events = Vec::with_capacity(entries.len() + closings.len());
    loop {
        let entry_is_next = match (entries.peek(), closings.peek()) {
            (Some(entry), Some(closing)) => entry.at() <= closing.at(),
            (entry, _) => entry.is_some(),
        };
        let next = match entry_is_next {
            true => entries.next().map(Event::History),
            false => closings.next().map(Event::Ledger),
        };
        match next {
            Some(event) => events.push(event),
            None => return events,
        }
    }
}

impl Cursor {
    pub(crate) fn new(position: u64) -> Cursor {
        Cursor { position, hole_since: None }
    }

    /// Advances over the records that follow the position, up to a hole that may still fill.
    pub(crate) fn advance<T: Sequenced>(
        &mut self,
        following: Vec<T>,
        now: Instant,
    ) -> Vec<StreamItem<T>> {
        let mut items = Vec::new();
        for record in following {
            let (after, number) = (self.position, record.number());
            if number != after + 1 {
                if self.waits_for_hole(record.at(), now) {
                    break;
                }
                items.push(StreamItem::Gap { after, before: number });
            }
            *self = Cursor::new(number);
            items.push(StreamItem::Record(record));
        }
        items
    }

    /// Whether the hole may still fill. `next_at` is the time of the record after it.
    fn waits_for_hole(&mut self, next_at: Instant, now: Instant) -> bool {
        let is_recent = |since: Instant| now < since.saturating_add(NUMBERS_COMPLETE_AFTER);
        // If the clock was set back, the wait starts again.
        let since = *self.hole_since.filter(|&since| since <= now).get_or_insert(now);
        self.hole_since = Some(since);
        // Both: the clock of the node that wrote the record may be ahead.
        is_recent(next_at) && is_recent(since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            generation: Some(1),
        };
        let record =
            |&sequence: &u64| (path("j"), HistoryRecord { sequence, entry: entry.clone() });
        numbers.iter().map(record).collect()
    }

    /// Advances at a second. Returns the numbers, and gaps as `a..b`.
    fn advance(cursor: &mut Cursor, numbers: &[u64], ended: u64, now: u64) -> String {
        let items = cursor.advance(entries(numbers, ended), at(now));
        let text = |item: &StreamItem<HistoryItem>| match item {
            StreamItem::Record(entry) => entry.number().to_string(),
            StreamItem::Gap { after, before } => format!("{after}..{before}"),
        };
        items.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn consecutive_records_are_returned_once() {
        let mut cursor = Cursor::new(4);
        assert_eq!(advance(&mut cursor, &[5, 6, 7], 1, 1), "5 6 7");
        assert_eq!(advance(&mut cursor, &[], 1, 1), "");
        assert_eq!(advance(&mut cursor, &[8], 1, 1), "8");
    }

    #[test]
    fn a_late_commit_fills_its_hole() {
        let mut cursor = Cursor::new(4);
        assert_eq!(advance(&mut cursor, &[5, 7], 1, 1), "5");
        assert_eq!(advance(&mut cursor, &[7, 8], 1, 2), "");
        assert_eq!(advance(&mut cursor, &[6, 7, 8], 1, 3), "6 7 8");
    }

    #[test]
    fn a_hole_that_stays_becomes_a_gap() {
        let mut cursor = Cursor::new(4);
        assert_eq!(advance(&mut cursor, &[7], 10, 10), "");
        assert_eq!(advance(&mut cursor, &[7], 10, 24), "");
        assert_eq!(advance(&mut cursor, &[7], 10, 25), "4..7 7");
        assert_eq!(advance(&mut cursor, &[9], 10, 60), "7..9 9", "an old hole is not waited for");
        assert_eq!(advance(&mut cursor, &[11], 90, 60), "", "the clock of the other node is ahead");
    }

    #[test]
    fn a_clock_set_back_does_not_stall_the_cursor() {
        let mut cursor = Cursor::new(4);
        assert_eq!(advance(&mut cursor, &[6], 1_000, 1_000), "");
        assert_eq!(advance(&mut cursor, &[6], 1_000, 10), "");
        assert_eq!(advance(&mut cursor, &[6], 1_000, 25), "4..6 6");
    }

    fn closings(numbers: &[u64], closed: u64) -> Vec<LedgerItem> {
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
    fn sequences_are_merged_by_time_and_keep_their_order() {
        let mut cursors = [Cursor::new(0), Cursor::new(0)];
        let now = at(90);
        let later = entries(&[1], 20).into_iter().chain(entries(&[2], 10)).collect();
        let items = cursors[0].advance(later, now);
        let rows = [closings(&[1], 20), closings(&[3], 21), closings(&[4], 5)].concat();
        let events = merge(items, cursors[1].advance(rows, now));
        let text = |event: &Event| match event {
            Event::History(StreamItem::Record(entry)) => format!("entry {}", entry.number()),
            Event::Ledger(StreamItem::Record(row)) => format!("row {}", row.number()),
            Event::History(gap) => format!("{gap:?}"),
            Event::Ledger(StreamItem::Gap { after, before }) => {
                format!("no rows {after}..{before}")
            }
        };
        let events: Vec<_> = events.iter().map(text).collect();
        assert_eq!(events, ["entry 1", "entry 2", "row 1", "no rows 1..3", "row 3", "row 4"]);
    }

    #[test]
    fn filters_ignore_case() {
        let filter =
            EventFilter { job: Some(JobName::new("J").unwrap()), ..EventFilter::default() };
        assert!(EventFilter::default().matches(&path("x")) && filter.matches(&path("j")));
        assert!(!filter.matches(&path("k")));
        let group = Some(GroupName::new("other").unwrap());
        assert!(!EventFilter { group, ..EventFilter::default() }.matches(&path("j")));
    }
}
