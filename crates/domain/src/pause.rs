//! Times in which a job does not run because it, its collection or all jobs are switched off.

use kalends_recurrence::Instant;

use crate::occurrence::CloseReason;

/// A pause of all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Start of the pause.
    pub since: Instant,
    /// Its end, in the past or in the future.
    pub end: PauseEnd,
}

/// The end of a pause. One time, not a planned and an actual one: Rust 1.87 to 1.97.0 misread
/// `resumed.or(until)` of an absent pause on x86-64, which crashed the process (rust-lang/rust#159035).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// Only a request ends it.
    OnRequest,
    /// It ends by itself at this time.
    At(Instant),
    /// A request ended it at this time.
    Resumed(Instant),
}

impl Pause {
    /// A pause that ends by itself at `until`, or only by a request.
    pub fn new(since: Instant, until: Option<Instant>) -> Pause {
        Pause { since, end: until.map_or(PauseEnd::OnRequest, PauseEnd::At) }
    }

    /// The pause after a request ended it.
    pub fn resumed(self, at: Instant) -> Pause {
        Pause { end: PauseEnd::Resumed(at), ..self }
    }

    /// Whether the pause has not ended at `now`. One that a request ended stays ended, also if the
    /// clock is set back.
    pub fn is_active(&self, now: Instant) -> bool {
        match self.end {
            PauseEnd::OnRequest => true,
            PauseEnd::At(until) => now < until,
            PauseEnd::Resumed(_) => false,
        }
    }

    /// Time of the end, if it has one.
    pub fn end_time(&self) -> Option<Instant> {
        match self.end {
            PauseEnd::OnRequest => None,
            PauseEnd::At(end) | PauseEnd::Resumed(end) => Some(end),
        }
    }

    /// Time at which it ends by itself.
    pub fn until(&self) -> Option<Instant> {
        match self.end {
            PauseEnd::At(until) => Some(until),
            PauseEnd::OnRequest | PauseEnd::Resumed(_) => None,
        }
    }

    /// Time at which a request ended it.
    pub fn resumed_at(&self) -> Option<Instant> {
        match self.end {
            PauseEnd::Resumed(at) => Some(at),
            PauseEnd::OnRequest | PauseEnd::At(_) => None,
        }
    }
}

/// The newest pause of all jobs, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRecord {
    /// Its times.
    pub pause: Pause,
    /// Why its author paused all jobs: a [`NoteText`](crate::NoteText).
    pub reason: String,
    /// The caller who paused them last, as in the audit log.
    pub by: String,
}

/// The times in which a job could not run: until `enabled_since`, it or its collection may have been
/// disabled, and during a pause no job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffTimes {
    /// Time at which the job or its collection was last enabled.
    pub enabled_since: Instant,
    /// The newest pause of all jobs.
    pub pause: Option<Pause>,
}

/// A time in which a job could not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffTime {
    /// Why it could not run.
    pub reason: CloseReason,
    /// End of that time: an occurrence at this time runs.
    pub end: Instant,
}

impl OffTimes {
    /// The time that `start` passed in, if the job could not run then. An end in the future means that
    /// the clock was set back since: nothing is known about the time before.
    pub fn passed(&self, start: Instant, now: Instant) -> Option<OffTime> {
        let is_passed = |end: Instant| start < end && end <= now;
        let disabled = Some(self.enabled_since).filter(|&end| is_passed(end));
        let paused = self.pause.and_then(|pause| Some((pause.since, pause.end_time()?)));
        match (disabled, paused.filter(|&(_, end)| is_passed(end))) {
            (None, None) => None,
            // Disabled before the pause, or without one.
            (Some(end), Some((since, _))) if start < since => {
                Some(OffTime { reason: CloseReason::Disabled, end: end.min(since) })
            }
            (Some(end), None) => Some(OffTime { reason: CloseReason::Disabled, end }),
            (_, Some((_, end))) => Some(OffTime { reason: CloseReason::Paused, end }),
        }
    }

    /// The time at which the job could run again, if `start` passed while it could not.
    pub fn over_since(&self, start: Instant, now: Instant) -> Option<Instant> {
        let ends = [Some(self.enabled_since), self.pause.and_then(|pause| pause.end_time())];
        ends.into_iter().flatten().filter(|&end| start < end && end <= now).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: u32) -> Instant {
        format!("2026-01-01T{hour:02}:00:00Z").parse().unwrap()
    }

    #[test]
    fn a_pause_ends_at_its_time_or_on_request_and_stays_ended_then() {
        let pause = Pause::new(at(1), Some(at(5)));
        assert!(pause.is_active(at(4)) && !pause.is_active(at(5)));
        let resumed = pause.resumed(at(3));
        assert!(!resumed.is_active(at(4)));
        assert!(!resumed.is_active(at(2)), "the clock was set back");
        assert_eq!((pause.end_time(), resumed.end_time()), (Some(at(5)), Some(at(3))));
        assert_eq!((pause.until(), pause.resumed_at()), (Some(at(5)), None));
        assert_eq!((resumed.until(), resumed.resumed_at()), (None, Some(at(3))));
        assert_eq!(Pause::new(at(1), None).end_time(), None);
    }

    #[test]
    fn a_start_that_passed_while_off_is_over_when_all_of_it_has_ended() {
        let pause = Some(Pause::new(at(1), None).resumed(at(5)));
        let off = OffTimes { enabled_since: at(7), pause };
        assert_eq!(off.over_since(at(2), at(9)), Some(at(7)));
        assert_eq!(off.over_since(at(2), at(6)), Some(at(5)), "the clock was set back");
        assert_eq!(off.over_since(at(7), at(9)), None);
        assert_eq!(OffTimes { pause: None, ..off }.passed(at(7), at(9)), None);
    }
}
