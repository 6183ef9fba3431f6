//! Rate limits: one token bucket for each key, with a capacity of one minute's rate. The state of a
//! bucket is the time at which it is full again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kalends_recurrence::{Instant, TICKS_PER_SECOND};

const MINUTE: i64 = 60 * TICKS_PER_SECOND;
/// Buckets of a limiter, of about a hundred bytes each. Further keys share one bucket.
const BUCKETS_MAX: usize = 10_000;

/// Rate limits, in requests per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// GET and HEAD requests of one token.
    pub reads: u32,
    /// Other requests of one token.
    pub writes: u32,
    /// Manual runs of the jobs of one collection.
    pub runs: u32,
    /// Failed authentications of one client address, and of one token.
    pub failures: u32,
}

impl Default for RateSettings {
    /// Reads and writes per minute equal the hourly limits of Azure Resource Manager: a console that
    /// refreshes and a script that creates a thousand jobs stay below.
    fn default() -> RateSettings {
        RateSettings { reads: 12_000, writes: 1_200, runs: 600, failures: 30 }
    }
}

/// Whether a request is within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateDecision {
    Allowed {
        /// Requests that the bucket still holds.
        remaining: u32,
    },
    Exceeded {
        /// Seconds until the bucket holds a request again; at least 1.
        retry_after: u64,
    },
}

/// Token buckets with one rate, by key.
pub(crate) struct RateLimiter {
    per_minute: u32,
    full_at: Mutex<HashMap<Arc<str>, i64>>,
}

impl RateLimiter {
    pub(crate) fn new(per_minute: u32) -> RateLimiter {
        RateLimiter { per_minute: per_minute.max(1), full_at: Mutex::default() }
    }

    /// Takes one request from the bucket of a key.
    pub(crate) fn take(&self, key: &Arc<str>, now: Instant) -> RateDecision {
        let now = now.ticks();
        let one = MINUTE / i64::from(self.per_minute);
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(key) {
            buckets.retain(|_, full_at| *full_at > now);
        }
        let has_own = buckets.len() < BUCKETS_MAX || buckets.contains_key(key);
        let key = if has_own { Arc::clone(key) } else { "".into() };
        let full_at = buckets.entry(key).or_insert(now);
        // After the clock was set back, no bucket stays empty for longer than a minute.
        let missing = (*full_at - now).clamp(0, MINUTE);
        let after = missing + one;
        if after > MINUTE {
            let wait = (after - MINUTE + TICKS_PER_SECOND - 1) / TICKS_PER_SECOND;
            let wait = u64::try_from(wait).unwrap_or(60);
            return RateDecision::Exceeded { retry_after: wait.max(1) };
        }
        *full_at = now + after;
        let remaining = u32::try_from((MINUTE - after) / one).unwrap_or(0);
        RateDecision::Allowed { remaining }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Instant {
        Instant::from_unix_seconds(seconds).unwrap()
    }

    fn allowed(remaining: u32) -> RateDecision {
        RateDecision::Allowed { remaining }
    }

    fn exceeded(retry_after: u64) -> RateDecision {
        RateDecision::Exceeded { retry_after }
    }

    #[test]
    fn a_bucket_holds_a_minutes_rate_and_refills_evenly() {
        let (limiter, me) = (RateLimiter::new(30), Arc::from("me"));
        for left in (0..30).rev() {
            assert_eq!(limiter.take(&me, at(0)), allowed(left));
        }
        assert_eq!(limiter.take(&me, at(0)), exceeded(2));
        assert_eq!(limiter.take(&me, at(1)), exceeded(1));
        assert_eq!(limiter.take(&me, at(2)), allowed(0));
        assert_eq!(
            limiter.take(&Arc::from("you"), at(2)),
            allowed(29),
            "each key has its own bucket"
        );
        assert_eq!(limiter.take(&me, at(100)), allowed(29));
    }

    #[test]
    fn a_clock_set_back_blocks_a_key_for_at_most_a_minute() {
        let (limiter, me) = (RateLimiter::new(1), Arc::from("me"));
        assert_eq!(limiter.take(&me, at(1_000_000)), allowed(0));
        assert_eq!(limiter.take(&me, at(0)), exceeded(60));
    }

    #[test]
    fn buckets_are_bounded_and_further_keys_share_one() {
        let limiter = RateLimiter::new(2);
        for number in 0..2 * BUCKETS_MAX {
            limiter.take(&number.to_string().into(), at(0));
        }
        let buckets = || limiter.full_at.lock().unwrap().len();
        assert_eq!(buckets(), BUCKETS_MAX + 1);
        assert_eq!(limiter.take(&Arc::from("another"), at(0)), exceeded(30));
        assert_eq!(limiter.take(&Arc::from("0"), at(0)), allowed(0), "an existing bucket is kept");
        limiter.take(&Arc::from("later"), at(60));
        assert_eq!(buckets(), 1, "full buckets are removed");
    }
}
