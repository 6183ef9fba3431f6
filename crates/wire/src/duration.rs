//! Durations in .NET TimeSpan format, which clients of the retired service send, and in ISO 8601,
//! which its documentation specifies. A year has 365 days and a month 30, as in that service.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Digits of one number in a duration. Longer numbers are certainly errors.
const DIGITS_MAX: usize = 10;
/// Digits of a fraction of a second, which has nanosecond resolution.
const FRACTION_DIGITS_MAX: usize = 9;

/// Parses `[d.]hh:mm:ss[.fffffff]` or ISO 8601 such as `PT30S` and `P1DT12H`. `PT1D` is invalid
/// ISO 8601 but appears in the documentation of the retired service, and means one day.
pub fn parse_duration(text: &str) -> Option<Duration> {
    match text.strip_prefix('P') {
        Some(rest) => iso8601(rest),
        None => time_span(text),
    }
}

/// Parses the durations that people type: a number and a unit, such as `90d`, `2 weeks`, `15min` or
/// `30 seconds`.
pub fn parse_short_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (written, unit) = text.split_at(digits);
    let seconds = match unit.trim().to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "h" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7 * DAY,
        _ => return None,
    };
    number(written)?.checked_mul(seconds).map(Duration::from_secs)
}

/// The ISO 8601 form of a duration in the form that people type.
pub(crate) fn suggest_duration(text: &str) -> Option<String> {
    parse_short_duration(text).map(write_duration)
}

/// Formats a duration in ISO 8601, such as `PT30S` and `P1DT12H`. For values of the service;
/// durations of a definition keep the text of their author.
pub fn write_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let part = |value: u64, unit: char| match value {
        0 => String::new(),
        value => format!("{value}{unit}"),
    };
    let fraction = match duration.subsec_nanos() {
        0 => part(seconds % MINUTE, 'S'),
        nanos => {
            let digits = format!("{nanos:09}");
            format!("{}.{}S", seconds % MINUTE, digits.trim_end_matches('0'))
        }
    };
    let days = part(seconds / DAY, 'D');
    let hours = part(seconds % DAY / HOUR, 'H');
    let minutes = part(seconds % HOUR / MINUTE, 'M');
    let time = format!("{hours}{minutes}{fraction}");
    match (days.is_empty(), time.is_empty()) {
        (true, true) => "PT0S".to_owned(),
        (false, true) => format!("P{days}"),
        (_, false) => format!("P{days}T{time}"),
    }
}

/// Parses the text after the `P`.
fn iso8601(text: &str) -> Option<Duration> {
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    let days = parts(date, &[('Y', 365 * DAY), ('M', 30 * DAY), ('W', 7 * DAY), ('D', DAY)])?;
    let of_day = parts(time, &[('D', DAY), ('H', HOUR), ('M', MINUTE), ('S', 1)])?;
    match date.is_empty() && time.is_empty() {
        true => None,
        false => days.checked_add(of_day),
    }
}

/// Parses numbers with units. Each unit may appear once, in the order of `units`.
fn parts(mut text: &str, units: &[(char, u64)]) -> Option<Duration> {
    let mut units = units.iter();
    let mut sum = Duration::ZERO;
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (written, rest) = text.split_at(end);
        let mut rest = rest.chars();
        let unit = rest.next()?;
        text = rest.as_str();
        let (_, seconds) = units.find(|(known, _)| *known == unit)?;
        let part = match written.split_once('.') {
            None => Duration::from_secs(number(written)?.checked_mul(*seconds)?),
            Some((whole, digits)) if unit == 'S' => {
                Duration::from_secs(number(whole)?).checked_add(fraction(digits)?)?
            }
            Some(_) => return None,
        };
        sum = sum.checked_add(part)?;
    }
    Some(sum)
}

/// Parses `[d.]hh:mm:ss[.fffffff]`.
fn time_span(text: &str) -> Option<Duration> {
    let mut clock = text.splitn(3, ':');
    let (first, minute, second) = (clock.next()?, clock.next()?, clock.next()?);
    let (days, hour) = match first.split_once('.') {
        Some((days, hour)) => (number(days)?, hour),
        None => (0, first),
    };
    let (second, digits) = match second.split_once('.') {
        Some((second, digits)) => (second, fraction(digits)?),
        None => (second, Duration::ZERO),
    };
    let two_digits = |text: &str, max: u64| {
        number(text).filter(|&value| (1..=2).contains(&text.len()) && value <= max)
    };
    let of_day =
        two_digits(hour, 23)? * HOUR + two_digits(minute, 59)? * MINUTE + two_digits(second, 59)?;
    let seconds = days.checked_mul(DAY)?.checked_add(of_day)?;
    Some(Duration::from_secs(seconds).saturating_add(digits))
}

fn number(text: &str) -> Option<u64> {
    let is_number =
        (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn fraction(digits: &str) -> Option<Duration> {
    let value = number(digits).filter(|_| digits.len() <= FRACTION_DIGITS_MAX)?;
    let unit = 10_u64.pow(u32::try_from(FRACTION_DIGITS_MAX - digits.len()).ok()?);
    Some(Duration::from_nanos(value * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_a_short_duration() {
        for (text, seconds) in [
            ("90d", 90 * DAY),
            ("2w", 14 * DAY),
            ("1 week", 7 * DAY),
            ("15min", 15 * MINUTE),
            ("15m", 15 * MINUTE),
            ("12H", 12 * HOUR),
            ("30 seconds", 30),
        ] {
            assert_eq!(parse_short_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "90", "d", "-1d", "1.5h", "3 months", "99999999999d", "PT30S"] {
            assert_eq!(parse_short_duration(text), None, "{text}");
        }
        assert_eq!(suggest_duration("36 hours").as_deref(), Some("P1DT12H"));
    }

    #[test]
    fn both_formats_are_parsed() {
        let seconds = |text: &str| parse_duration(text).map(|duration| duration.as_secs_f64());
        for (text, expected) in [
            ("00:01:00", 60.0),
            ("30.00:00:00", 2_592_000.0),
            ("1.12:30:15.5", 131_415.5),
            ("00:00:00.0000001", 0.000_000_1),
            ("PT30S", 30.0),
            ("PT1M", 60.0),
            ("P1M", 2_592_000.0),
            ("P1Y2M3DT4H5M6.7S", 36_993_906.7),
            ("P2W", 1_209_600.0),
            ("P1D", 86_400.0),
            ("PT1D", 86_400.0),
            ("PT1D2H", 93_600.0),
            ("PT0S", 0.0),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "P1DT",
            "1D",
            "30 seconds",
            "-PT1M",
            "P-1D",
            "PT1.5M",
            "PT1S1M",
            "PT1M1M",
            "P1Y2M3DT4H5M6.7S8",
            "PT99999999999S",
            "pt1m",
            "00:00",
            "24:00:00",
            "00:60:00",
            "00:00:60",
            "-00:01:00",
            "1.2.00:00:00",
            "00:00:00.",
            "00:00:00.0000000001",
            "000:00:00",
            "30",
            "PT１M",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_formatted_without_empty_parts() {
        for (seconds, nanos, expected) in [
            (0, 0, "PT0S"),
            (30, 0, "PT30S"),
            (90, 0, "PT1M30S"),
            (86_400, 0, "P1D"),
            (129_600, 500_000_000, "P1DT12H0.5S"),
        ] {
            assert_eq!(write_duration(Duration::new(seconds, nanos)), expected);
        }
    }
}
