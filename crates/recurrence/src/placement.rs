//! What becomes of a rule's points where local time jumps: the daylight-saving contract.
//!
//! | | local times that are skipped | local times that are shown twice |
//! |---|---|---|
//! | fixed times on the wall ([`Clock::Wall`]) | moved forward by what was skipped (02:30 → 03:30); points that then coincide are one | the first showing only |
//! | minute, hour, and minutes without hours ([`Clock::Real`]) | nothing | both |
//!
//! Both are the same search over *windows*: ranges of local time, each with the offset that takes
//! them to real time. A segment of the zone has one window, or two where a fixed time was skipped
//! at its start.

use crate::Zone;
use crate::expand::Pattern;
use crate::instant::{TICKS_PER_DAY, Ticks};
use crate::zone::{FAR_FUTURE, Segment};

/// More segments than 400 years have in any zone, past and special cases included. A rule with no
/// point in as many never has one, and the search gives up.
const SEGMENTS_SEARCHED_MAX: usize = 2_000;

/// No offset is larger, so an instant worked out with another offset than its own is off by less.
const OFFSETS_DIFFER_MAX: Ticks = 2 * TICKS_PER_DAY;

/// Up to this many points are walked one by one where the n-th is looked for.
const POINTS_WALKED_MAX: u64 = 16;

/// Which clock a rule follows when local time jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Fixed times on the wall.
    Wall,
    /// Real time.
    Real,
}

/// A pattern in a zone: points in real time.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub(crate) pattern: Pattern,
    pub(crate) zone: Zone,
    pub(crate) clock: Clock,
    /// The local time at which the period of the anchor begins. What lies before it belongs to no
    /// period of the rule, even where a clock change brings it after the anchor.
    first_local: Ticks,
    /// Whether local time is real time.
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
    /// The part of it between two instants.
    fn between(self, from: Ticks, to: Ticks) -> Window {
        Window {
            start: self.start.max(from + self.offset),
            end: self.end.min(to + self.offset),
            offset: self.offset,
        }
    }
}

impl Placement {
    pub(crate) fn new(pattern: Pattern, zone: Zone, clock: Clock, first_local: Ticks) -> Placement {
        let is_utc = zone.is_utc();
        Placement { pattern, zone, clock, first_local, is_utc }
    }

    /// The local times that are on show in a segment.
    pub(crate) fn shown(&self, segment: &Segment) -> Window {
        let repeated_until = match self.clock {
            Clock::Wall => segment.offset.max(segment.offset_before),
            Clock::Real => segment.offset,
        };
        Window {
            start: self.first_local.max(segment.start + repeated_until),
            end: segment.end + segment.offset,
            offset: segment.offset,
        }
    }

    /// The local times that were skipped at the start of a segment, and are made up for in it.
    pub(crate) fn made_up_for(&self, segment: &Segment) -> Option<Window> {
        let skipped = self.clock == Clock::Wall && segment.offset > segment.offset_before;
        skipped.then(|| Window {
            start: self.first_local.max(segment.start + segment.offset_before),
            end: segment.start + segment.offset,
            offset: segment.offset_before,
        })
    }

    /// The first point at or after an instant; `None` where there is none in 400 years.
    #[inline]
    pub(crate) fn at_or_after(&self, at: Ticks) -> Option<Ticks> {
        if self.is_utc { self.pattern.at_or_after(at, 0) } else { self.in_zone_at_or_after(at) }
    }

    fn in_zone_at_or_after(&self, at: Ticks) -> Option<Ticks> {
        let (mut index, mut segment) = self.zone.segment_at(at);
        let mut from = at;
        // The next point in local time, once it is known to lie past the segments searched so far.
        let mut ahead: Option<Ticks> = None;
        for _ in 0..SEGMENTS_SEARCHED_MAX {
            let shown = self.shown(&segment);
            let local = shown.start.max(from + shown.offset);
            let next = match ahead {
                Some(next) if next >= local => Some(next),
                _ => self.pattern.at_or_after(local, shown.offset),
            };
            let in_time = next.filter(|&next| next < shown.end).map(|next| next - shown.offset);
            let late = self.made_up_for(&segment).and_then(|window| self.first_in(window, from));
            if let Some(found) = in_time.into_iter().chain(late).min() {
                return Some(found);
            }
            if segment.end == FAR_FUTURE {
                return None;
            }
            index += 1;
            // Nothing in this segment, so nothing before `next`; except that the next segment may
            // show again what was shown before `from`.
            let all_searched = self.clock == Clock::Wall || from <= segment.start;
            if let (Pattern::Calendar(_), true) = (&self.pattern, all_searched) {
                ahead = Some(next?);
                let not_before = next? - shown.offset - OFFSETS_DIFFER_MAX;
                index = index.max(self.zone.segment_at(not_before).0);
            }
            segment = self.zone.segment(index);
            from = segment.start;
        }
        None
    }

    /// The last point at or before an instant, and not before `floor`.
    pub(crate) fn at_or_before(&self, at: Ticks, floor: Ticks) -> Option<Ticks> {
        if self.is_utc {
            return self.pattern.at_or_before(at, 0).filter(|&found| found >= floor);
        }
        let (mut index, mut segment) = self.zone.segment_at(at);
        let mut until = at;
        loop {
            let shown = self.shown(&segment);
            let local = (shown.end - 1).min(until + shown.offset);
            let last = self.pattern.at_or_before(local, shown.offset);
            let in_time = last.filter(|&last| last >= shown.start).map(|last| last - shown.offset);
            let late = self.made_up_for(&segment).and_then(|window| self.last_in(window, until));
            if let Some(found) = in_time.into_iter().chain(late).max() {
                return (found >= floor).then_some(found);
            }
            if segment.start <= floor {
                return None;
            }
            index = index.checked_sub(1)?;
            // As in the other direction: the segment before may have shown, earlier, local times
            // after that of `until`.
            let all_searched = until == segment.end - 1;
            if let (Pattern::Calendar(_), true) = (&self.pattern, all_searched) {
                let not_after = last? - shown.offset + OFFSETS_DIFFER_MAX;
                index = index.min(self.zone.segment_at(not_after).0);
            }
            segment = self.zone.segment(index);
            until = segment.end - 1;
        }
    }

    /// How many points lie in the instants `from..to`.
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
            let shown = self.shown(&segment).between(from, to);
            points += self.pattern.count(shown.start, shown.end, shown.offset);
            if let Some(window) = self.made_up_for(&segment) {
                points += self.count_made_up_for(window.between(from, to), &segment);
            }
            index += 1;
        }
    }

    /// The `number`-th point (from 1) at or after `from`; `None` where it lies past `limit`.
    pub(crate) fn nth(&self, number: u64, from: Ticks, limit: Ticks) -> Option<Ticks> {
        // Widen the range until it holds enough points, then narrow it until few are left to walk.
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
            // Points are spread evenly enough for a guess by proportion to come close. Every other
            // time the range is halved, so that no spread can make this long.
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

    /// Whether an instant fits the pattern, but in the second showing of its local time.
    pub(crate) fn shown_again(&self, at: Ticks) -> bool {
        let segment = self.zone.segment_at(at).1;
        let local = at + segment.offset;
        local < self.shown(&segment).start
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

    /// Skipped points that were made up for at an instant of their own.
    fn count_made_up_for(&self, window: Window, segment: &Segment) -> u64 {
        let mut points = 0;
        let mut from = window.start - window.offset;
        while let Some(at) = self.first_in(window, from) {
            let on_the_wall = at + segment.offset;
            let coincides =
                self.pattern.at_or_after(on_the_wall, segment.offset) == Some(on_the_wall);
            points += u64::from(!coincides);
            from = at + 1;
        }
        points
    }
}
