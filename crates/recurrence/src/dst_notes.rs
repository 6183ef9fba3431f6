//! Reports the effect of DST transitions on a rule.

use std::fmt;

use crate::instant::{Fraction, Ticks, write_date_and_time};
use crate::zone::Segment;
use crate::zoned_pattern::{TimeBasis, Window, ZonedPattern};
use crate::{Instant, Rule, Zone};

/// Maximum number of affected local times that a note lists; it counts the rest.
const TIMES_LISTED_MAX: usize = 3;

/// A DST transition that affects occurrences of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DstNote {
    /// Time of the transition.
    pub at: Instant,
    /// The effect on the rule, in one English sentence.
    pub text: String,
}

impl fmt::Display for DstNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// The DST transitions in `after < t <= until` that move, drop or repeat an occurrence.
    /// Elapsed-time rules without a schedule are never affected.
    pub fn dst_notes(&self, after: Instant, until: Instant) -> Vec<DstNote> {
        let Some(points) = self.zoned_pattern() else {
            return vec![];
        };
        let mut notes = Vec::new();
        let mut index = points.zone.segment_at(after.ticks()).0 + 1;
        loop {
            let segment = points.zone.segment(index);
            if segment.start > until.ticks() {
                return notes;
            }
            notes.extend(self.note_at(points, &segment));
            index += 1;
        }
    }

    fn note_at(&self, points: &ZonedPattern, segment: &Segment) -> Option<DstNote> {
        let at = Instant::from_ticks(segment.start)?;
        let is_gap = segment.offset > segment.offset_before;
        let (first, last) = if is_gap {
            (segment.offset_before, segment.offset)
        } else {
            (segment.offset, segment.offset_before)
        };
        // The offset before the transition maps the affected local times to UTC: those in a gap to
        // the times they move to, those in an overlap to their first pass.
        let window = Window {
            start: segment.start + first,
            end: segment.start + last,
            offset: segment.offset_before,
        };
        let (listed, count) = self.local_times_in(points, window)?;
        let effect = match (is_gap, points.basis) {
            (true, TimeBasis::WallClock) => {
                let moved = |local: Ticks| local + segment.offset - segment.offset_before;
                let moved: Vec<_> = listed.iter().map(|&local| time_of(moved(local))).collect();
                let verb = if count == 1 { "runs" } else { "run" };
                format!("{} {verb} at {}", times(&listed, count), with_more(&moved, count))
            }
            (true, TimeBasis::Elapsed) => {
                let verb = if count == 1 { "does" } else { "do" };
                format!("{} {verb} not exist and {verb} not run", times(&listed, count))
            }
            (false, TimeBasis::WallClock) => {
                let verb = if count == 1 { "runs" } else { "run" };
                format!("{} {verb} once, the first time", times(&listed, count))
            }
            (false, TimeBasis::Elapsed) => {
                let verb = if count == 1 { "runs" } else { "run" };
                format!("{} {verb} both times", times(&listed, count))
            }
        };
        Some(DstNote { at, text: format!("{}: {effect}", headline(&points.zone, window, is_gap)) })
    }

    /// The first points of the rule in a window, up to [`TIMES_LISTED_MAX`], and the number of points.
    fn local_times_in(&self, points: &ZonedPattern, window: Window) -> Option<(Vec<Ticks>, u64)> {
        let count = points.pattern.count(window.start, window.end, window.offset);
        let mut listed = Vec::new();
        let mut from = window.start;
        while listed.len() < TIMES_LISTED_MAX {
            let next = points.pattern.at_or_after(from, window.offset);
            let Some(local) = next.filter(|&local| local < window.end) else {
                break;
            };
            listed.push(local);
            from = local + 1;
        }
        let first = listed.first()? - window.offset;
        let not_ended =
            self.last_at_or_before(Instant::MAX).is_none_or(|last| last.ticks() >= first);
        let started = self.first().is_some_and(|begin| begin.ticks() <= first);
        (started && not_ended).then_some((listed, count))
    }
}

/// `On 2027-03-28 Europe/Berlin skips 02:00 to 03:00`
fn headline(zone: &Zone, window: Window, is_gap: bool) -> String {
    let start = write_date_and_time(window.start, Fraction::Never);
    let date = start.as_str().split_once('T').map_or("", |(date, _)| date);
    let (first, last) = (time_of(window.start), time_of(window.end));
    match is_gap {
        true => format!("On {date} {} skips {first} to {last}", zone.name()),
        false => format!("On {date} {} shows {first} to {last} twice", zone.name()),
    }
}

fn times(listed: &[Ticks], count: u64) -> String {
    let listed: Vec<_> = listed.iter().map(|&local| time_of(local)).collect();
    with_more(&listed, count)
}

fn with_more(listed: &[String], count: u64) -> String {
    match (count as usize).saturating_sub(listed.len()) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn time_of(local: Ticks) -> String {
    let text = write_date_and_time(local, Fraction::Never);
    let time = text.as_str().split_once('T').map_or("", |(_, time)| time);
    time.strip_suffix(":00").unwrap_or(time).to_owned()
}
