//! Applies a pattern to a time zone. This module defines the DST behaviour of rules:
//!
//! | | DST gap | DST overlap |
//! |---|---|---|
//! | fixed local times ([`TimeBasis::WallClock`]) | moved forward by the length of the gap (02:30 → 03:30); points that then coincide fire once | the first pass only |
//! | minute, hour, and minutes without hours ([`TimeBasis::Elapsed`]) | no point | both passes |
//!
//! Both use the same search over *windows*: ranges of local time, each with its UTC offset. A segment
//! of the zone has one window, or two if it starts with a DST gap and local times are fixed.

use crate::Zone;
use crate::expand::Pattern;
use crate::instant::{TICKS_PER_DAY, Ticks};
use crate::zone::{FAR_FUTURE, Segment};

/// More than the number of segments that any zone has in 400 years, including historic transitions. A
/// rule without a point in this many segments never fires, so the search stops.
const SEGMENTS_SEARCHED_MAX: usize = 2_000;

/// Upper bound of the error of a UTC time that was computed with the offset of another segment.
const OFFSETS_DIFFER_MAX: Ticks = 2 * TICKS_PER_DAY;

/// [`ZonedPattern::nth`] iterates over at most this many points; a bisection covers the rest.
const POINTS_WALKED_MAX: u64 = 16;

/// The time scale that a rule follows across DST transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeBasis {
    /// Fixed local times.
    WallClock,
    /// Elapsed time.
    Elapsed,
}

/// A pattern in a time zone: a set of UTC times.
#[derive(Clone, Debug)]
pub(crate) struct ZonedPattern {
    pub(crate) pattern: Pattern,
    pub(crate) zone: Zone,
    pub(crate) basis: TimeBasis,
    /// Local start of the period that contains the reference time. Earlier local times belong to no
    /// period of the rule, even if a DST transition moves them after the reference time.
    first_local: Ticks,
    /// Whether the zone is UTC, which needs no search over segments.
    is_utc: bool,
}

/// The local times `start..end`, which are `offset` ahead of UTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
    pub(crate) offset: Ticks,
}

impl Window {
    /// The part of the window in the UTC times `from..to`.
    fn between(self, from: Ticks, to: Ticks) -> Window {
        Window {
            start: self.start.max(from + self.offset),
            end: self.end.min(to + self.offset),
            offset: self.offset,
        }
    }
}

impl ZonedPattern {
    pub(crate) fn new(
        pattern: Pattern,
        zone: Zone,
        basis: TimeBasis,
        first_local: Ticks,
    ) -> ZonedPattern {
        let is_utc = zone.is_utc();
        ZonedPattern { pattern, zone, basis, first_local, is_utc }
    }

    /// The local times of a segment at which points fire, without the second pass of a DST overlap
    /// if local times are fixed.
    pub(crate) fn window(&self, segment: &Segment) -> Window {
        let repeated_until = match self.basis {
            TimeBasis::WallClock => segment.offset.max(segment.offset_before),
            TimeBasis::Elapsed => segment.offset,
        };
        Window {
            start: self.first_local.max(segment.start + repeated_until),
            end: segment.end + segment.offset,
            offset: segment.offset,
        }
    }

    /// The local times in the DST gap at the start of a segment, with the offset that moves them
    /// past the gap; `None` if there is no gap or its points do not fire.
    pub(crate) fn gap_window(&self, segment: &Segment) -> Option<Window> {
        let skipped = self.basis == TimeBasis::WallClock && segment.offset > segment.offset_before;
        skipped.then(|| Window {
            start: self.first_local.max(segment.start + segment.offset_before),
            end: segment.start + segment.offset,
            offset: segment.offset_before,
        })
    }

    /// The first point at or after a UTC time; `None` if there is none in 400 years.
    #[inline]
    pub(crate) fn at_or_after(&self, at: Ticks) -> Option<Ticks> {
        if self.is_utc { self.pattern.at_or_after(at, 0) } else { self.in_zone_at_or_after(at) }
    }

    fn in_zone_at_or_after(&self, at: Ticks) -> Option<Ticks> {
        let (mut index, mut segment) = self.zone.segment_at(at);
        let mut from = at;
        // The next point in local time, once it is known to be after the segments searched so far.
        let mut ahead: Option<Ticks> = None;
        for _ in 0..SEGMENTS_SEARCHED_MAX {
            let window = self.window(&segment);
            let local = window.start.max(from + window.offset);
            let next = match ahead {
                Some(next) if next >= local => Some(next),
                _ => self.pattern.at_or_after(local, window.offset),
            };
            let in_time = next.filter(|&next| next < window.end).map(|next| next - window.offset);
            let late = self.gap_window(&segment).and_then(|gap| self.first_in(gap, from));
            if let Some(found) = in_time.into_iter().chain(late).min() {
                return Some(found);
            }
            if segment.end == FAR_FUTURE {
                return None;
            }
            index += 1;
            // This segment has no point, so there is none before `next`, unless the next segment
            // repeats local times (DST overlap) that this one reached before `from`.
            let all_searched = self.basis == TimeBasis::WallClock || from <= segment.start;
            if let (Pattern::Calendar(_), true) = (&self.pattern, all_searched) {
                ahead = Some(next?);
                let not_before = next? - window.offset - OFFSETS_DIFFER_MAX;
                index = index.max(self.zone.segment_at(not_before).0);
            }
            segment = self.zone.segment(index);
            from = segment.start;
        }
        None
    }

    /// The last point at or before a UTC time and not before `floor`.
    pub(crate) fn at_or_before(&self, at: Ticks, floor: Ticks) -> Option<Ticks> {
        if self.is_utc {
            return self.pattern.at_or_before(at, 0).filter(|&found| found >= floor);
        }
        let (mut index, mut segment) = self.zone.segment_at(at);
        let mut until = at;
        loop {
            let window = self.window(&segment);
            let local = (window.end - 1).min(until + window.offset);
            let last = self.pattern.at_or_before(local, window.offset);
            let in_time =
                last.filter(|&last| last >= window.start).map(|last| last - window.offset);
            let late = self.gap_window(&segment).and_then(|gap| self.last_in(gap, until));
            if let Some(found) = in_time.into_iter().chain(late).max() {
                return (found >= floor).then_some(found);
            }
            if segment.start <= floor {
                return None;
            }
            index = index.checked_sub(1)?;
            // As in the other direction: in a DST overlap the previous segment reached local times
            // later than that of `until`.
            let all_searched = until == segment.end - 1;
            if let (Pattern::Calendar(_), true) = (&self.pattern, all_searched) {
                let not_after = last? - window.offset + OFFSETS_DIFFER_MAX;
                index = index.min(self.zone.segment_at(not_after).0);
            }
            segment = self.zone.segment(index);
            until = segment.end - 1;
        }
    }

    /// Number of points in the UTC times `from..to`.
    pub(crate) fn count(&self, from: Ticks, to: Ticks) -> u64 {
        if self.is_utc {
            return self.pattern.count(from, to, 0);
        }
        let mut points = 0;
        let mut index = self.zone.segment_at(from).0;
        loop {
            let segment = self.zone.segment(index);
            if segment.start >= to {
                return points;
            }
            let window = self.window(&segment).between(from, to);
            points += self.pattern.count(window.start, window.end, window.offset);
            if let Some(gap) = self.gap_window(&segment) {
                points += self.count_moved_from_gap(gap.between(from, to), &segment);
            }
            index += 1;
        }
    }

    /// The `number`-th point (from 1) at or after `from`; `None` if it is after `limit`.
    pub(crate) fn nth(&self, number: u64, from: Ticks, limit: Ticks) -> Option<Ticks> {
        // Widen the range until it contains enough points, then narrow it until few are left.
        let (mut low, mut passed) = (from, 0);
        let (mut high, mut at_high) = (from, 0);
        let mut reach = TICKS_PER_DAY;
        while at_high < number && number - passed > POINTS_WALKED_MAX && high < limit {
            (low, passed) = (high, at_high);
            high = low.saturating_add(reach).min(limit);
            at_high = passed + self.count(low, high);
            reach = reach.saturating_mul(8);
        }
        let mut halve = false;
        while number - passed > POINTS_WALKED_MAX {
            if at_high < number || high - low < 2 {
                return None;
            }
            // Points are usually evenly spread, so interpolation comes close. Every other step
            // bisects, which bounds the number of steps for any distribution.
            let share = i128::from(number - passed) * i128::from(high - low);
            let proportional = low + (share / i128::from(at_high - passed)) as Ticks;
            let halfway = low + (high - low) / 2;
            let middle = if halve { halfway } else { proportional.clamp(low + 1, high - 1) };
            halve = !halve;
            let at_middle = passed + self.count(low, middle);
            if at_middle < number {
                (low, passed) = (middle, at_middle);
            } else {
                (high, at_high) = (middle, at_middle);
            }
        }
        let mut point = self.at_or_after(low)?;
        for _ in passed + 1..number {
            point = self.at_or_after(point + 1)?;
        }
        (point <= limit).then_some(point)
    }

    /// Whether a UTC time matches the pattern but is in the second pass of a DST overlap.
    pub(crate) fn is_second_pass(&self, at: Ticks) -> bool {
        let segment = self.zone.segment_at(at).1;
        let local = at + segment.offset;
        local < self.window(&segment).start
            && self.pattern.at_or_after(local, segment.offset) == Some(local)
    }

    fn first_in(&self, window: Window, from: Ticks) -> Option<Ticks> {
        let local = window.start.max(from + window.offset);
        if local >= window.end {
            return None;
        }
        let found = self.pattern.at_or_after(local, window.offset)?;
        (found < window.end).then(|| found - window.offset)
    }

    fn last_in(&self, window: Window, until: Ticks) -> Option<Ticks> {
        let local = (window.end - 1).min(until + window.offset);
        if local < window.start {
            return None;
        }
        let found = self.pattern.at_or_before(local, window.offset)?;
        (found >= window.start).then(|| found - window.offset)
    }

    /// Number of points moved out of a DST gap that do not coincide with another point.
    fn count_moved_from_gap(&self, window: Window, segment: &Segment) -> u64 {
        let mut points = 0;
        let mut from = window.start - window.offset;
        while let Some(at) = self.first_in(window, from) {
            let local = at + segment.offset;
            let coincides = self.pattern.at_or_after(local, segment.offset) == Some(local);
            points += u64::from(!coincides);
            from = at + 1;
        }
        points
    }
}
