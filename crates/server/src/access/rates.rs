//! How often somebody may ask.
//!
//! Each who asks has a bucket that holds a minute's worth and fills evenly. Of a bucket one instant is
//! kept: when it will be full again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kalends_recurrence::{Instant, TICKS_PER_SECOND};

const MINUTE: i64 = 60 * TICKS_PER_SECOND;
/// Buckets that are kept. Those who come when there are more share one; one takes some hundred bytes.
const BUCKETS_MAX: usize = 10_000;

/// How often somebody may ask, a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// Reading requests of one token.
    pub reads: u32,
    /// Other requests of one token.
    pub writes: u32,
    /// Manual runs of the jobs of one collection.
    pub runs: u32,
    /// Failed authentications of one client address, and of one token.
    pub failures: u32,
}

impl Default for RateSettings {
    /// As many reads and writes as the resource manager allowed in an hour: a console that refreshes
    /// and a script that makes a thousand jobs stay below.
    fn default() -> RateSettings {
        RateSettings { reads: 12_000, writes: 1_200, runs: 600, failures: 30 }
    }
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// He may, and as often again at once.
    Left(u32),
    /// He may not before so many seconds have passed.
    Wait(u64),
}

/// The buckets of one kind of request.
pub(crate) struct Rates {
    per_minute: u32,
    full_at: Mutex<HashMap<Arc<str>, i64>>,
}

impl Rates {
    pub(crate) fn new(per_minute: u32) -> Rates {
        Rates { per_minute: per_minute.max(1), full_at: Mutex::default() }
    }

    /// Takes one from the bucket of `who`.
    pub(crate) fn take(&self, who: &Arc<str>, now: Instant) -> Rate {
        let now = now.ticks();
        let one = MINUTE / i64::from(self.per_minute);
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(who) {
            buckets.retain(|_, full_at| *full_at > now);
        }
        let has_room = buckets.len() < BUCKETS_MAX || buckets.contains_key(who);
        let who = if has_room { Arc::clone(who) } else { "".into() };
        let full_at = buckets.entry(who).or_insert(now);
        // A clock that was set back must not lock anybody out for longer than a minute.
        let missing = (*full_at - now).clamp(0, MINUTE);
        let after = missing + one;
        if after > MINUTE {
            let wait = (after - MINUTE + TICKS_PER_SECOND - 1) / TICKS_PER_SECOND;
            let wait = u64::try_from(wait).unwrap_or(60);
            return Rate::Wait(wait.max(1));
        }
        *full_at = now + after;
        Rate::Left(u32::try_from((MINUTE - after) / one).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Instant {
        Instant::from_unix_seconds(seconds).unwrap()
    }

    #[test]
    fn a_minutes_worth_may_be_taken_at_once_and_then_evenly() {
        let (rates, me) = (Rates::new(30), Arc::from("me"));
        for left in (0..30).rev() {
            assert_eq!(rates.take(&me, at(0)), Rate::Left(left));
        }
        assert_eq!(rates.take(&me, at(0)), Rate::Wait(2));
        assert_eq!(rates.take(&me, at(1)), Rate::Wait(1));
        assert_eq!(rates.take(&me, at(2)), Rate::Left(0));
        assert_eq!(rates.take(&Arc::from("you"), at(2)), Rate::Left(29), "each has his own");
        assert_eq!(rates.take(&me, at(100)), Rate::Left(29));
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out() {
        let (rates, me) = (Rates::new(1), Arc::from("me"));
        assert_eq!(rates.take(&me, at(1_000_000)), Rate::Left(0));
        assert_eq!(rates.take(&me, at(0)), Rate::Wait(60));
    }

    #[test]
    fn memory_is_bounded_and_who_finds_no_room_shares() {
        let rates = Rates::new(2);
        for number in 0..2 * BUCKETS_MAX {
            rates.take(&number.to_string().into(), at(0));
        }
        let kept = || rates.full_at.lock().unwrap().len();
        assert_eq!(kept(), BUCKETS_MAX + 1);
        assert_eq!(rates.take(&Arc::from("another"), at(0)), Rate::Wait(30));
        assert_eq!(rates.take(&Arc::from("0"), at(0)), Rate::Left(0), "who was there keeps his");
        rates.take(&Arc::from("later"), at(60));
        assert_eq!(kept(), 1, "full buckets need not be kept");
    }
}
