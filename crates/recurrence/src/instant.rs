//! A UTC timestamp with a resolution of 100 ns, the precision that clients of this API send and expect
//! back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::civil;
use crate::zone::Zone;

/// A number of ticks of 100 ns: a UTC time since 1970-01-01T00:00Z, a local time since
/// 1970-01-01T00:00 local time, or a duration.
pub(crate) type Ticks = i64;

/// Ticks of 100 ns in a second.
pub const TICKS_PER_SECOND: i64 = 10_000_000;
pub(crate) const TICKS_PER_MINUTE: Ticks = 60 * TICKS_PER_SECOND;
pub(crate) const TICKS_PER_HOUR: Ticks = 60 * TICKS_PER_MINUTE;
pub(crate) const TICKS_PER_DAY: Ticks = 24 * TICKS_PER_HOUR;

/// Converts a duration to ticks of 100 ns, rounded down and capped at `i64::MAX`.
pub fn duration_to_ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX)
}

/// Converts ticks of 100 ns to a duration. Negative values become zero.
pub fn ticks_to_duration(ticks: i64) -> Duration {
    let ticks = ticks.max(0).unsigned_abs();
    let per_second = TICKS_PER_SECOND.unsigned_abs();
    Duration::new(ticks / per_second, (ticks % per_second) as u32 * 100)
}

/// A UTC timestamp from year 1 to year 9999 with a resolution of 100 ns.
///
/// `Display` writes `YYYY-MM-DDTHH:MM:SS[.fffffff]Z` without trailing zeros. `FromStr` reads ISO 8601:
/// a date, or a date and a time with optional seconds, fraction and offset. The offset defaults to
/// UTC. A fraction of more than seven digits is rounded.
///
/// ```
/// # use kalends_recurrence::Instant;
/// let start: Instant = "2019-07-07T07:07:07.1234567-07:00".parse().unwrap();
/// assert_eq!(start.to_string(), "2019-07-07T14:07:07.1234567Z");
/// assert_eq!("2026-11-04".parse::<Instant>().unwrap().to_string(), "2026-11-04T00:00:00Z");
/// assert!("2030-02-30T00:00Z".parse::<Instant>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Ticks);

impl Instant {
    /// 0001-01-01T00:00:00Z.
    pub const MIN: Instant = Instant(civil::day_number(1, 1, 1) * TICKS_PER_DAY);
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: Instant = Instant(civil::day_number(10_000, 1, 1) * TICKS_PER_DAY - 1);

    /// Creates an instant from ticks of 100 ns since 1970-01-01T00:00Z. Returns `None` outside
    /// [`Instant::MIN`] to [`Instant::MAX`].
    pub const fn from_ticks(ticks: i64) -> Option<Instant> {
        if ticks < Instant::MIN.0 || ticks > Instant::MAX.0 { None } else { Some(Instant(ticks)) }
    }

    /// Creates an instant from seconds since 1970-01-01T00:00Z. Returns `None` outside
    /// [`Instant::MIN`] to [`Instant::MAX`].
    pub const fn from_unix_seconds(seconds: i64) -> Option<Instant> {
        match seconds.checked_mul(TICKS_PER_SECOND) {
            Some(ticks) => Instant::from_ticks(ticks),
            None => None,
        }
    }

    /// Reads the same text as `FromStr`, except that a time without an offset is a wall time of
    /// `zone`. A wall time in a DST gap is moved forward by the length of the gap; one in a DST
    /// overlap is that of the first pass. A date alone is 00:00 of that day.
    ///
    /// ```
    /// # use kalends_recurrence::{Instant, Zone};
    /// let berlin = Zone::named("Europe/Berlin").unwrap();
    /// let start = Instant::parse_in("2026-11-20T02:30:00", &berlin).unwrap();
    /// assert_eq!(start.to_string(), "2026-11-20T01:30:00Z");
    /// ```
    pub fn parse_in(text: &str, zone: &Zone) -> Result<Instant, InstantError> {
        let (local, offset) = parse_date_time(text)?;
        let ticks = match offset {
            Some(offset) => local - offset,
            None => zone.time_of_wall_time(local),
        };
        Instant::from_ticks(ticks).ok_or(InstantError::OutOfRange)
    }

    /// Ticks of 100 ns since 1970-01-01T00:00Z.
    pub const fn ticks(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970-01-01T00:00Z, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(TICKS_PER_SECOND)
    }

    /// Converts to a `jiff` timestamp. Returns `None` in the last days of year 9999, which `jiff` does
    /// not represent.
    pub fn timestamp(self) -> Option<jiff::Timestamp> {
        let nanoseconds = self.0.rem_euclid(TICKS_PER_SECOND) * 100;
        jiff::Timestamp::new(self.unix_seconds(), nanoseconds as i32).ok()
    }

    /// Truncates the fraction of a second.
    pub const fn whole_second(self) -> Instant {
        Instant(self.0 - self.0.rem_euclid(TICKS_PER_SECOND))
    }

    /// Adds a duration, capped at [`Instant::MAX`].
    pub fn saturating_add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(duration_to_ticks(duration))).min(Instant::MAX)
    }

    /// Subtracts a duration, capped at [`Instant::MIN`].
    pub fn saturating_sub(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(duration_to_ticks(duration))).max(Instant::MIN)
    }

    /// The instant one tick earlier, capped at [`Instant::MIN`].
    pub fn previous_tick(self) -> Instant {
        Instant(self.0 - 1).max(Instant::MIN)
    }

    /// The instant one tick later, capped at [`Instant::MAX`].
    pub fn next_tick(self) -> Instant {
        Instant(self.0 + 1).min(Instant::MAX)
    }

    /// The time elapsed since `other`; zero if `other` is later.
    pub fn since(self, other: Instant) -> Duration {
        ticks_to_duration(self.0.saturating_sub(other.0))
    }

    /// Adds calendar months. If the target month is too short for the day of the month, its last
    /// day is used.
    pub(crate) fn plus_months(self, months: i64) -> Ticks {
        let (month, day) = civil::Month::of_day(self.0.div_euclid(TICKS_PER_DAY));
        let target = civil::Month::new(month.number + months);
        let day_number = target.first_day() + day.min(target.length()) - 1;
        day_number * TICKS_PER_DAY + self.0.rem_euclid(TICKS_PER_DAY)
    }
}

impl From<jiff::Timestamp> for Instant {
    /// Rounds down to 100 ns and clamps to [`Instant::MIN`] and [`Instant::MAX`].
    fn from(timestamp: jiff::Timestamp) -> Instant {
        let ticks = timestamp.as_second() * TICKS_PER_SECOND
            + i64::from(timestamp.subsec_nanosecond()).div_euclid(100);
        Instant(ticks.clamp(Instant::MIN.0, Instant::MAX.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = write_date_and_time(self.0, Fraction::AsNeeded);
        text.push(b'Z');
        f.write_str(text.as_str())
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether [`write_date_and_time`] writes the fraction of a second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fraction {
    AsNeeded,
    Never,
}

/// A stack buffer that holds `YYYY-MM-DDTHH:MM:SS.fffffff±HH:MM`, to format without allocating.
pub(crate) struct TimestampText {
    bytes: [u8; 33],
    length: usize,
}

impl TimestampText {
    pub(crate) fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    pub(crate) fn push_number(&mut self, value: i64, digits: u32) {
        let mut unit = 10_i64.pow(digits - 1);
        while unit > 0 {
            self.push(b'0' + (value / unit % 10) as u8);
            unit /= 10;
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        let written = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default()
    }
}

/// Formats a local or UTC time as `YYYY-MM-DDTHH:MM:SS[.fffffff]`.
pub(crate) fn write_date_and_time(ticks: Ticks, fraction: Fraction) -> TimestampText {
    let (year, month, day) = civil::date(ticks.div_euclid(TICKS_PER_DAY));
    let of_day = ticks.rem_euclid(TICKS_PER_DAY);
    let mut text = TimestampText { bytes: [0; 33], length: 0 };
    text.push_number(year, 4);
    text.push(b'-');
    text.push_number(month, 2);
    text.push(b'-');
    text.push_number(day, 2);
    text.push(b'T');
    text.push_number(of_day / TICKS_PER_HOUR, 2);
    text.push(b':');
    text.push_number(of_day / TICKS_PER_MINUTE % 60, 2);
    text.push(b':');
    text.push_number(of_day / TICKS_PER_SECOND % 60, 2);
    let mut rest = of_day % TICKS_PER_SECOND;
    if rest != 0 && fraction == Fraction::AsNeeded {
        let mut digits = 7;
        while rest % 10 == 0 {
            rest /= 10;
            digits -= 1;
        }
        text.push(b'.');
        text.push_number(rest, digits);
    }
    text
}

/// Error of parsing an [`Instant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstantError {
    /// The text is not an ISO 8601 date or date-time.
    #[error("must be an ISO 8601 date-time such as 2026-11-20T09:30:00Z")]
    Malformed,
    /// A component is out of range, such as 30 February or hour 25.
    #[error(
        "must be a date, time and UTC offset that exist; hours are 00 to 23 and seconds 00 to 59"
    )]
    NotOnCalendar,
    /// The year, after conversion to UTC, is outside 0001 to 9999.
    #[error("must be a date-time in the years 0001 to 9999")]
    OutOfRange,
}

impl FromStr for Instant {
    type Err = InstantError;

    fn from_str(text: &str) -> Result<Instant, InstantError> {
        let (local, offset) = parse_date_time(text)?;
        Instant::from_ticks(local - offset.unwrap_or(0)).ok_or(InstantError::OutOfRange)
    }
}

/// Parses a date or date-time: its local time, and its UTC offset if it has one.
fn parse_date_time(text: &str) -> Result<(Ticks, Option<Ticks>), InstantError> {
    let mut rest = Cursor(text.as_bytes());
    let year = rest.number(4)?;
    rest.expect(b'-')?;
    let month = rest.number(2)?;
    rest.expect(b'-')?;
    let day = rest.number(2)?;
    if year == 0 {
        return Err(InstantError::OutOfRange);
    }
    if !(1..=12).contains(&month) || day < 1 || day > civil::days_in_month(year, month) {
        return Err(InstantError::NotOnCalendar);
    }
    let midnight = civil::day_number(year, month, day) * TICKS_PER_DAY;
    if rest.is_empty() {
        return Ok((midnight, None));
    }
    rest.expect_one_of(b"Tt ")?;
    let local = midnight + rest.time_of_day()?;
    Ok((local, rest.offset()?))
}

/// The unparsed rest of the input.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take_if(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        wanted(first).then(|| {
            self.0 = rest;
            first
        })
    }

    fn expect(&mut self, byte: u8) -> Result<(), InstantError> {
        self.take_if(|found| found == byte).map(drop).ok_or(InstantError::Malformed)
    }

    fn expect_one_of(&mut self, bytes: &[u8]) -> Result<u8, InstantError> {
        self.take_if(|found| bytes.contains(&found)).ok_or(InstantError::Malformed)
    }

    fn number(&mut self, digits: usize) -> Result<i64, InstantError> {
        (0..digits).try_fold(0, |value, _| {
            let digit = self.take_if(|byte| byte.is_ascii_digit());
            digit.map(|digit| value * 10 + i64::from(digit - b'0')).ok_or(InstantError::Malformed)
        })
    }

    /// Parses `HH:MM[:SS[.f…]]`.
    fn time_of_day(&mut self) -> Result<Ticks, InstantError> {
        let hour = self.number(2)?;
        self.expect(b':')?;
        let minute = self.number(2)?;
        let mut second = 0;
        let mut fraction = 0;
        if self.take_if(|byte| byte == b':').is_some() {
            second = self.number(2)?;
            if self.take_if(|byte| byte == b'.').is_some() {
                fraction = self.fraction()?;
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return Err(InstantError::NotOnCalendar);
        }
        Ok(hour * TICKS_PER_HOUR + minute * TICKS_PER_MINUTE + second * TICKS_PER_SECOND + fraction)
    }

    /// Parses one or more digits. Seven are significant; the eighth rounds the seventh.
    fn fraction(&mut self) -> Result<Ticks, InstantError> {
        let mut unit = TICKS_PER_SECOND;
        let mut ticks = 0;
        let mut digits = 0;
        while let Some(digit) = self.take_if(|byte| byte.is_ascii_digit()) {
            let digit = i64::from(digit - b'0');
            digits += 1;
            unit /= 10;
            ticks += match digits {
                1..=7 => digit * unit,
                8 if digit >= 5 => 1,
                _ => 0,
            };
        }
        if digits == 0 { Err(InstantError::Malformed) } else { Ok(ticks) }
    }

    /// Parses `Z`, `±HH:MM`, `±HHMM`, `±HH` or the empty string, up to the end of the input.
    fn offset(&mut self) -> Result<Option<Ticks>, InstantError> {
        if self.is_empty() {
            return Ok(None);
        }
        let ticks = match self.expect_one_of(b"Zz+-")? {
            b'Z' | b'z' => 0,
            sign => {
                let hours = self.number(2)?;
                let colon = self.take_if(|byte| byte == b':').is_some();
                let minutes = if colon || !self.is_empty() { self.number(2)? } else { 0 };
                if minutes > 59 || hours * 60 + minutes > 14 * 60 {
                    return Err(InstantError::NotOnCalendar);
                }
                let ticks = hours * TICKS_PER_HOUR + minutes * TICKS_PER_MINUTE;
                if sign == b'-' { -ticks } else { ticks }
            }
        };
        if self.is_empty() { Ok(Some(ticks)) } else { Err(InstantError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(text.parse::<Instant>().map(|at| at.to_string()), Ok(expected.to_owned()));
    }

    #[test]
    fn timestamps_of_real_clients_are_parsed() {
        check("2016-04-04T00:00:00Z", "2016-04-04T00:00:00Z");
        check("2016-07-22T22:24:16.6617338Z", "2016-07-22T22:24:16.6617338Z");
        check("2016-07-22T22:24:16.9049999999999999Z", "2016-07-22T22:24:16.905Z");
        check("2015-07-01T00:00:32.104381", "2015-07-01T00:00:32.104381Z");
        check("2012-08-04T00:00Z", "2012-08-04T00:00:00Z");
        check("2012-11-04", "2012-11-04T00:00:00Z");
        check("2013-01-09T09:30:00-08:00", "2013-01-09T17:30:00Z");
        check("2013-01-09t09:30:00z", "2013-01-09T09:30:00Z");
        check("2013-01-09T09:30:00+0530", "2013-01-09T04:00:00Z");
        check("1999-12-31T23:59:59.99999995Z", "2000-01-01T00:00:00Z");
    }

    #[test]
    fn years_1_to_9999_are_accepted_and_others_rejected() {
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
        check("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z");
        for beyond in ["0000-01-01", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.99999999Z"] {
            assert_eq!(beyond.parse::<Instant>(), Err(InstantError::OutOfRange), "{beyond}");
        }
    }

    #[test]
    fn malformed_and_impossible_dates_are_rejected() {
        for text in ["", "yesterday", "2030", "2030-1-1", "+12030-01-01", "2030-01-01T", "20300101"]
        {
            assert_eq!(text.parse::<Instant>(), Err(InstantError::Malformed), "{text}");
        }
        for text in ["2030-01-01T00:00Zx", "2030-01-01T00:00:00.Z", "2030-01-01T00:00:00+1"] {
            assert_eq!(text.parse::<Instant>(), Err(InstantError::Malformed), "{text}");
        }
        for text in ["2030-02-30", "2030-13-01", "2030-01-01T24:00:00Z", "2030-01-01T23:59:60Z"] {
            assert_eq!(text.parse::<Instant>(), Err(InstantError::NotOnCalendar), "{text}");
        }
        let offset = "2030-01-01T00:00:00+25:00".parse::<Instant>();
        assert_eq!(offset, Err(InstantError::NotOnCalendar));
    }

    #[test]
    fn adding_months_clamps_to_the_last_day_of_the_month() {
        let later = |text: &str, months| {
            let at: Instant = text.parse().unwrap();
            Instant::from_ticks(at.plus_months(months)).unwrap().to_string()
        };
        assert_eq!(later("2026-08-31T10:00Z", 18), "2028-02-29T10:00:00Z");
        assert_eq!(later("2026-01-15T10:00Z", 12), "2027-01-15T10:00:00Z");
    }

    #[test]
    fn arithmetic_saturates_at_the_ends_of_the_range() {
        let at: Instant = "2026-01-01T00:00:01Z".parse().unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(at.saturating_sub(second).to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(at.previous_tick().next_tick(), at);
        for low in [Instant::MIN.saturating_sub(second), at.saturating_sub(Duration::MAX)] {
            assert_eq!(low, Instant::MIN);
        }
        assert_eq!(at.saturating_add(Duration::MAX), Instant::MAX);
        assert_eq!(Instant::MIN.previous_tick(), Instant::MIN);
        assert_eq!(Instant::MAX.next_tick(), Instant::MAX);
        assert_eq!(Instant::from_unix_seconds(at.unix_seconds()), Some(at));
        assert_eq!(Instant::from_unix_seconds(i64::MAX), None);
        assert_eq!(at.since(at.saturating_add(second)), Duration::ZERO);
    }

    #[test]
    fn durations_convert_to_ticks_and_back() {
        for (duration, ticks) in
            [(Duration::from_nanos(199), 1), (Duration::from_secs(2), 20_000_000)]
        {
            assert_eq!(duration_to_ticks(duration), ticks);
        }
        assert_eq!(duration_to_ticks(Duration::MAX), i64::MAX);
        assert_eq!(ticks_to_duration(15_000_001), Duration::new(1, 500_000_100));
        assert_eq!(ticks_to_duration(-1), Duration::ZERO);
        assert_eq!(Instant::MAX.since(Instant::MIN).as_secs(), 315_537_897_599);
    }
}
