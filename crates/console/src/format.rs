//! Times, durations and numbers as people read them.

use std::time::Duration;

use kalends_recurrence::{Instant, Zone, span};

/// A local time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// `2026-11-16T02:30:00+01:00`
    text: String,
    /// `Mon`
    pub(crate) weekday: &'static str,
}

pub(crate) fn local(at: Instant, zone: &Zone) -> Local {
    let weekday = short_weekday(zone.weekday(at).name());
    Local { text: zone.local(at.whole_second()), weekday }
}

impl Local {
    /// `2026-11-16`
    pub(crate) fn date(&self) -> &str {
        self.text.get(..10).unwrap_or_default()
    }

    /// `02:30:00`
    pub(crate) fn time(&self) -> &str {
        self.text.get(11..19).unwrap_or_default()
    }

    /// `+01:00`
    pub(crate) fn offset(&self) -> &str {
        self.text.get(19..).unwrap_or_default()
    }
}

fn short_weekday(name: &'static str) -> &'static str {
    name.get(..3).unwrap_or(name)
}

/// `Mon 2026-11-16 02:30`, with seconds where they are not zero.
pub(crate) fn date_time(at: Instant, zone: &Zone) -> String {
    let mut text = String::new();
    push_date_time(&mut text, at, zone);
    text
}

/// Appends [`date_time`] to a text.
pub(crate) fn push_date_time(text: &mut String, at: Instant, zone: &Zone) {
    let local = local(at, zone);
    let time = local.time();
    let time = time.strip_suffix(":00").unwrap_or(time);
    for part in [local.weekday, " ", local.date(), " ", time] {
        text.push_str(part);
    }
}

/// `02:30`
pub(crate) fn hour_minute(at: Instant, zone: &Zone) -> String {
    local(at, zone).time().chars().take(5).collect()
}

/// `0.3 ms`, `340 ms`, `1.2 s`, `3 min 4 s`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_micros() {
        0 if time.is_zero() => "0 ms".to_owned(),
        0..50 => "<0.1 ms".to_owned(),
        50..10_000 => format!("{:.1} ms", time.as_secs_f64() * 1_000.0),
        10_000..999_500 => format!("{:.0} ms", time.as_secs_f64() * 1_000.0),
        999_500..60_000_000 => format!("{:.1} s", time.as_secs_f64()),
        _ => span(time.as_secs()),
    }
}

/// Like [`duration`], with two significant digits: `1.2 ms`, `15 s`.
pub(crate) fn fine_duration(time: Duration) -> String {
    match time.as_micros() {
        10_000_000..60_000_000 => format!("{:.0} s", time.as_secs_f64()),
        _ => duration(time),
    }
}

/// A duration of the API in milliseconds, rounded to tenths at least.
pub(crate) fn milliseconds(milliseconds: f64) -> String {
    match Duration::try_from_secs_f64(milliseconds / 1_000.0) {
        Ok(Duration::ZERO) => "<0.1 ms".to_owned(),
        time => duration(time.unwrap_or_default()),
    }
}

/// Whole seconds of a time that goes on: `42 s`, `3 min 4 s`.
pub(crate) fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        0 => "0 s".to_owned(),
        seconds => span(seconds),
    }
}

/// A duration of the API, such as `PT1M30S`, as people read it; as it is if it cannot be read.
pub(crate) fn written_duration(text: &str) -> String {
    match kalends_wire::parse_duration(text) {
        Some(whole) if whole.subsec_nanos() == 0 && !whole.is_zero() => span(whole.as_secs()),
        Some(fraction) => duration(fraction),
        None => text.to_owned(),
    }
}

/// A number with separators of thousands: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `one job`, `12 jobs`: a number with its noun.
pub(crate) fn counted(number: u64, singular: &str, plural: &str) -> String {
    match number {
        1 => format!("1 {singular}"),
        _ => format!("{} {plural}", count(number)),
    }
}

/// A size in bytes: `1.2 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / *size as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(count(number), expected);
        }
        assert_eq!(counted(1, "job", "jobs"), "1 job");
        assert_eq!(counted(0, "job", "jobs"), "0 jobs");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (milliseconds, expected) in
            [(0, "0 ms"), (4, "4.0 ms"), (999, "999 ms"), (1_200, "1.2 s"), (184_000, "3 min 4 s")]
        {
            assert_eq!(duration(Duration::from_millis(milliseconds)), expected);
        }
        for (micros, expected) in [(1, "<0.1 ms"), (340, "0.3 ms")] {
            let time = Duration::from_micros(micros);
            assert_eq!((duration(time), fine_duration(time)), (expected.into(), expected.into()));
        }
        assert_eq!(duration(Duration::from_micros(999_800)), "1.0 s");
        assert_eq!(duration(Duration::from_micros(14_700)), "15 ms");
        let texts = [0.0, 0.1, 1.7, 2.0, 12.0, 1_200.0].map(super::milliseconds);
        assert_eq!(texts, ["<0.1 ms", "0.1 ms", "1.7 ms", "2.0 ms", "12 ms", "1.2 s"]);
    }

    #[test]
    fn times_are_shown_in_the_zone() {
        let at: Instant = "2026-11-16T01:30:00Z".parse().unwrap();
        let berlin = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(date_time(at, &berlin), "Mon 2026-11-16 02:30");
        assert_eq!(hour_minute(at, &berlin), "02:30");
        assert_eq!(local(at, &berlin).offset(), "+01:00");
    }
}
