//! What the nights on which clocks change do to a rule.

use std::fmt;

use crate::instant::{Fraction, Ticks, write_date_and_time};
use crate::placement::{Clock, Placement, Window};
use crate::zone::Segment;
use crate::{Instant, Rule, Zone};

/// As many occurrences of one night are named; the rest are counted.
const TIMES_NAMED_MAX: usize = 3;

/// A change of the clocks that touches occurrences of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DstNote {
    /// When the clocks change.
    pub at: Instant,
    /// What happens to the rule, in one sentence.
    pub text: String,
}

impl fmt::Display for DstNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Every change of the clocks after `after` and not after `until` that moves, drops or repeats
    /// an occurrence. A rule that only counts elapsed time is never touched.
    pub fn dst_notes(&self, after: Instant, until: Instant) -> Vec<DstNote> {
        let Some(points) = self.placement() else {
            return vec![];
        };
        let mut changes = Vec::new();
        let mut index = points.zone.segment_at(after.ticks()).0 + 1;
        loop {
            let segment = points.zone.segment(index);
            if segment.start > until.ticks() {
                return changes;
            }
            changes.extend(self.change_at(points, &segment));
            index += 1;
        }
    }

    fn change_at(&self, points: &Placement, segment: &Segment) -> Option<DstNote> {
        let at = Instant::from_ticks(segment.start)?;
        let skipped = segment.offset > segment.offset_before;
        let (first, last) = if skipped {
            (segment.offset_before, segment.offset)
        } else {
            (segment.offset, segment.offset_before)
        };
        // Offsets before the change lead from the local times in question to real time: to the
        // instants that skipped ones are moved to, and to the first showing of repeated ones.
        let window = Window {
            start: segment.start + first,
            end: segment.start + last,
            offset: segment.offset_before,
        };
        let touched = self.local_times_in(points, window);
        let (named, count) = touched?;
        let what = match (skipped, points.clock) {
            (true, Clock::Wall) => {
                let moved = |local: Ticks| local + segment.offset - segment.offset_before;
                let moved: Vec<_> = named.iter().map(|&local| time_of(moved(local))).collect();
                let verb = if count == 1 { "runs" } else { "run" };
                format!("{} {verb} at {}", times(&named, count), with_more(&moved, count))
            }
            (true, Clock::Real) => {
                let verb = if count == 1 { "does" } else { "do" };
                format!("{} {verb} not exist and {verb} not run", times(&named, count))
            }
            (false, Clock::Wall) => {
                let verb = if count == 1 { "runs" } else { "run" };
                format!("{} {verb} once, the first time", times(&named, count))
            }
            (false, Clock::Real) => {
                let verb = if count == 1 { "runs" } else { "run" };
                format!("{} {verb} both times", times(&named, count))
            }
        };
        Some(DstNote { at, text: format!("{}: {what}", headline(&points.zone, window, skipped)) })
    }

    /// The first few points of the rule in a window, and how many there are.
    fn local_times_in(&self, points: &Placement, window: Window) -> Option<(Vec<Ticks>, u64)> {
        let count = points.pattern.count(window.start, window.end, window.offset);
        let mut named = Vec::new();
        let mut from = window.start;
        while named.len() < TIMES_NAMED_MAX {
            let next = points.pattern.at_or_after(from, window.offset);
            let Some(local) = next.filter(|&local| local < window.end) else {
                break;
            };
            named.push(local);
            from = local + 1;
        }
        let first = named.first()? - window.offset;
        let last = self.last_at_or_before(Instant::MAX).is_none_or(|last| last.ticks() >= first);
        let begun = self.first().is_some_and(|begin| begin.ticks() <= first);
        (begun && last).then_some((named, count))
    }
}

/// `On 2027-03-28 Europe/Berlin skips 02:00 to 03:00`
fn headline(zone: &Zone, window: Window, skipped: bool) -> String {
    let start = write_date_and_time(window.start, Fraction::Never);
    let date = start.as_str().split_once('T').map_or("", |(date, _)| date);
    let (first, last) = (time_of(window.start), time_of(window.end));
    match skipped {
        true => format!("On {date} {} skips {first} to {last}", zone.name()),
        false => format!("On {date} {} shows {first} to {last} twice", zone.name()),
    }
}

fn times(named: &[Ticks], count: u64) -> String {
    let named: Vec<_> = named.iter().map(|&local| time_of(local)).collect();
    with_more(&named, count)
}

fn with_more(named: &[String], count: u64) -> String {
    match (count as usize).saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn time_of(local: Ticks) -> String {
    let text = write_date_and_time(local, Fraction::Never);
    let time = text.as_str().split_once('T').map_or("", |(_, time)| time);
    time.strip_suffix(":00").unwrap_or(time).to_owned()
}
