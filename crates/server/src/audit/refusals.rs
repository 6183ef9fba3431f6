//! Counts of refused requests, which the audit log has in place of one line each: a client without
//! credentials must not be able to rotate the entries of writes away.

use std::collections::HashMap;
use std::sync::Arc;

use kalends_recurrence::{Instant, TICKS_PER_SECOND};
use kalends_wire::ErrorCode;

use crate::audit::entry::{AuditEntry, RefusalCount};

/// Time between two lines of one source and reason.
const WINDOW_TICKS: i64 = 60 * TICKS_PER_SECOND;
/// Sources and reasons that are counted separately; the others share one line per reason.
const WINDOWS_MAX: usize = 1_000;

/// The client, or the caller, of refused requests, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// `None` for all sources above [`WINDOWS_MAX`].
    source: Option<Arc<str>>,
    reason: ErrorCode,
}

/// The refusals of one source and reason since its last line.
struct Window {
    since: Instant,
    count: u64,
    last: AuditEntry,
}

/// Refused requests that the log does not contain yet.
#[derive(Default)]
pub(super) struct Refusals(HashMap<Key, Window>);

impl Refusals {
    /// Counts a refused request. Returns its entry if it is the first of its source and reason.
    pub(super) fn add(
        &mut self,
        source: Arc<str>,
        reason: ErrorCode,
        entry: AuditEntry,
    ) -> Option<AuditEntry> {
        let mut key = Key { source: Some(source), reason };
        let mut entry = entry.with_short_path();
        if self.0.len() >= WINDOWS_MAX && !self.0.contains_key(&key) {
            key.source = None;
            entry.client = None;
        }
        match self.0.get_mut(&key) {
            Some(window) => {
                window.count += 1;
                window.last = entry;
                None
            }
            None => {
                let window = Window { since: entry.time, count: 0, last: entry.clone() };
                self.0.insert(key, window);
                Some(entry)
            }
        }
    }

    /// The counts of the windows that have ended by `now`, or of all windows.
    pub(super) fn take_counts(&mut self, now: Instant, which: Windows) -> Vec<AuditEntry> {
        let mut counts = Vec::new();
        self.0.retain(|_, window| {
            let is_due = (now.ticks() - window.since.ticks()).abs() >= WINDOW_TICKS;
            if which == Windows::Ended && !is_due {
                return true;
            }
            if window.count == 0 {
                return false;
            }
            let refusals = RefusalCount { since: window.since, count: window.count };
            counts.push(AuditEntry { refusals: Some(refusals), ..window.last.clone() });
            (window.since, window.count) = (now, 0);
            true
        });
        counts
    }
}

/// The windows whose counts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// Those that have lasted a minute.
    Ended,
    /// All, when the server stops.
    All,
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn entry(second: i64) -> AuditEntry {
        AuditEntry {
            time: at(second),
            request: "r".into(),
            caller: None,
            client: None,
            method: Method::GET,
            operation: None,
            path: "/x".into(),
            status: 401,
            refusals: None,
        }
    }

    fn at(second: i64) -> Instant {
        Instant::from_ticks(second * TICKS_PER_SECOND).unwrap()
    }

    fn add(refusals: &mut Refusals, source: &str, reason: ErrorCode, second: i64) -> bool {
        refusals.add(source.into(), reason, entry(second)).is_some()
    }

    fn counts(refusals: &mut Refusals, second: i64, which: Windows) -> Vec<u64> {
        let counts = refusals.take_counts(at(second), which);
        counts.iter().map(|entry| entry.refusals.unwrap().count).collect()
    }

    #[test]
    fn the_first_refusal_has_a_line_and_the_others_one_count_per_minute() {
        let mut refusals = Refusals::default();
        let (wrong, often) = (ErrorCode::AuthenticationFailed, ErrorCode::TooManyRequests);
        assert!(add(&mut refusals, "a", wrong, 0));
        assert!(add(&mut refusals, "b", wrong, 0) && add(&mut refusals, "a", often, 0));
        assert!((1..=7).all(|second| !add(&mut refusals, "a", wrong, second)));
        assert_eq!(counts(&mut refusals, 59, Windows::Ended), [0; 0]);
        assert_eq!(counts(&mut refusals, 60, Windows::Ended), [7]);
        assert!(!add(&mut refusals, "a", wrong, 61), "its source was seen a minute ago");
        assert_eq!(counts(&mut refusals, 62, Windows::All), [1]);
        assert_eq!(counts(&mut refusals, 200, Windows::Ended), [0; 0]);
        assert!(add(&mut refusals, "a", wrong, 201), "a quiet minute ended its windows");
    }

    #[test]
    fn sources_above_the_limit_share_a_count() {
        let mut refusals = Refusals::default();
        let reason = ErrorCode::AuthenticationFailed;
        for number in 0..WINDOWS_MAX {
            assert!(add(&mut refusals, &number.to_string(), reason, 0));
        }
        assert!(add(&mut refusals, "other", reason, 0));
        assert!(!add(&mut refusals, "another", reason, 0));
        assert!(!add(&mut refusals, "0", reason, 0));
        let mut counts = counts(&mut refusals, 60, Windows::Ended);
        counts.sort_unstable();
        assert_eq!(counts, [1, 1]);
    }
}
