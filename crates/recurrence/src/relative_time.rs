//! Times and spans in words.

use crate::instant::Instant;

const SECONDS_PER_DAY: u64 = 86_400;

/// A time relative to now: `in 4 d 18 h`, `12 min ago`, `now`.
pub fn relative_time(at: Instant, now: Instant) -> String {
    let seconds = at.unix_seconds() - now.unix_seconds();
    match (span(seconds.unsigned_abs()), seconds) {
        (_, 0) => "now".to_owned(),
        (text, 1..) => format!("in {text}"),
        (text, _) => format!("{text} ago"),
    }
}

/// A number of seconds in its two largest units: `4 d 18 h`.
pub fn span(seconds: u64) -> String {
    let parts = [
        (seconds / SECONDS_PER_DAY, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let shown = parts.iter().skip_while(|(amount, _)| *amount == 0).take(2);
    let shown = shown.filter(|(amount, _)| *amount > 0);
    shown.map(|(amount, unit)| format!("{amount} {unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_times_have_at_most_two_units() {
        let now: Instant = "2026-11-15T00:00:00Z".parse().unwrap();
        for (at, expected) in [
            ("2026-11-15T00:00:00Z", "now"),
            ("2026-11-15T00:00:42Z", "in 42 s"),
            ("2026-11-15T01:00:00Z", "in 1 h"),
            ("2026-11-19T18:30:10Z", "in 4 d 18 h"),
            ("2026-11-19T00:30:10Z", "in 4 d"),
            ("2026-11-14T23:48:00Z", "12 min ago"),
        ] {
            assert_eq!(relative_time(at.parse().unwrap(), now), expected, "{at}");
        }
    }
}
