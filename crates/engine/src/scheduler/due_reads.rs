//! Reads of due jobs in flight, whose responses are handled in the order of the reads: runs start in the
//! order of their due times, although a later read may respond first.

use std::collections::BTreeMap;
use std::time::Duration;

/// A response waits for that of an earlier read until the earlier one has taken this long. A connection
/// that hangs must not hold up the others.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Reads by their numbers. `R` is the response to a read.
pub(super) struct DueReads<R> {
    begun: u64,
    /// Uptimes of the starts of reads without a response.
    in_flight: BTreeMap<u64, Duration>,
    /// Responses that wait for those of earlier reads.
    waiting: BTreeMap<u64, R>,
}

impl<R> DueReads<R> {
    pub(super) fn new() -> DueReads<R> {
        DueReads { begun: 0, in_flight: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Number of reads whose response is not handled yet.
    pub(super) fn len(&self) -> usize {
        self.in_flight.len() + self.waiting.len()
    }

    /// Records the start of a read and returns its number.
    pub(super) fn begin(&mut self, now: Duration) -> u64 {
        self.begun += 1;
        self.in_flight.insert(self.begun, now);
        self.begun
    }

    /// Records the response to a read.
    pub(super) fn respond(&mut self, number: u64, response: R) {
        self.in_flight.remove(&number);
        self.waiting.insert(number, response);
    }

    /// Removes and returns the next response to handle.
    pub(super) fn next_response(&mut self, now: Duration) -> Option<R> {
        if self.next_overdue().is_some_and(|at| now < at) {
            return None;
        }
        self.waiting.pop_first().map(|(_, response)| response)
    }

    /// Uptime at which the first response is handled even if an earlier read has not responded.
    pub(super) fn next_overdue(&self) -> Option<Duration> {
        let (first, _) = self.waiting.first_key_value()?;
        self.in_flight.range(..first).map(|(_, began)| *began + WAIT_MAX).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Duration = Duration::from_secs(7);

    #[test]
    fn a_response_waits_for_that_of_an_earlier_read_and_not_for_later_ones() {
        let mut reads = DueReads::new();
        let (first, second) = (reads.begin(BEGIN), reads.begin(BEGIN));
        reads.respond(second, "second");
        assert_eq!(reads.next_response(BEGIN), None);
        assert_eq!((reads.len(), reads.next_overdue()), (2, Some(BEGIN + WAIT_MAX)));
        let third = reads.begin(BEGIN);
        reads.respond(first, "first");
        assert_eq!(reads.next_overdue(), None);
        assert_eq!(reads.next_response(BEGIN), Some("first"));
        assert_eq!(reads.next_response(BEGIN), Some("second"));
        assert_eq!((reads.next_response(BEGIN), reads.len()), (None, 1));
        reads.respond(third, "third");
        assert_eq!(reads.next_response(BEGIN), Some("third"));
    }

    #[test]
    fn a_read_that_takes_too_long_holds_up_no_others() {
        let mut reads = DueReads::new();
        let (slow, second) = (reads.begin(BEGIN), reads.begin(BEGIN));
        reads.respond(second, "second");
        let later = BEGIN + WAIT_MAX;
        assert_eq!(reads.next_response(later), Some("second"));
        let third = reads.begin(later);
        reads.respond(third, "third");
        assert_eq!(reads.next_response(later), Some("third"));
        reads.respond(slow, "slow");
        assert_eq!((reads.next_response(later), reads.len()), (Some("slow"), 0));
    }
}
