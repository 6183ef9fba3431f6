//! Times for people: relative, and absolute in their time zone.

use std::path::PathBuf;

use kalends_recurrence::{Instant, Zone};

use super::Output;

const SECONDS_PER_DAY: i64 = 86_400;

/// The time zone of the user.
pub(crate) struct TimeZoneOfUser;

impl TimeZoneOfUser {
    /// The zone in `TZ`, else that of `/etc/localtime`, else UTC.
    pub(crate) fn read() -> Zone {
        let variable = std::env::var("TZ").ok();
        let link = std::fs::read_link("/etc/localtime").ok();
        TimeZoneOfUser::of(variable.as_deref(), link).unwrap_or_else(Zone::utc)
    }

    fn of(variable: Option<&str>, link: Option<PathBuf>) -> Option<Zone> {
        if let Some(text) = variable.filter(|text| !text.is_empty()) {
            let name = text.strip_prefix(':').unwrap_or(text);
            let name = name.split_once("zoneinfo/").map_or(name, |(_, name)| name);
            return Zone::named(name).ok();
        }
        let path = link?.to_string_lossy().into_owned();
        Zone::named(path.split_once("zoneinfo/")?.1).ok()
    }
}

/// A time of the API, absolute and relative: `2026-11-17 02:30:00+01:00 (in 16 h)`. Other texts are
/// returned unchanged.
pub(crate) fn date_time(text: &str, output: &Output) -> String {
    match text.parse::<Instant>() {
        Ok(at) => {
            format!("{} ({})", absolute(at, &output.zone), relative_time(at, output.now))
        }
        Err(_) => text.to_owned(),
    }
}

impl Output {
    /// A time of the API in the time zone of the user; empty if there is none.
    pub(crate) fn absolute(&self, text: &str) -> String {
        text.parse().map_or_else(|_| text.to_owned(), |at| absolute(at, &self.zone))
    }

    /// A time of the API, relative to now; empty if there is none.
    pub(crate) fn relative(&self, text: &str) -> String {
        text.parse().map_or_else(|_| text.to_owned(), |at| relative_time(at, self.now))
    }
}

fn absolute(at: Instant, zone: &Zone) -> String {
    let local = zone.local(at.whole_second());
    let local = if matches!(zone.name(), "UTC" | "Etc/UTC") {
        at.whole_second().to_string()
    } else {
        local
    };
    local.replacen('T', " ", 1)
}

/// `in 4 d 18 h`, `12 min ago`, `now`: the two largest units.
pub fn relative_time(at: Instant, now: Instant) -> String {
    let seconds = at.unix_seconds() - now.unix_seconds();
    let size = seconds.abs();
    let parts = [
        (size / SECONDS_PER_DAY, "d"),
        (size / 3_600 % 24, "h"),
        (size / 60 % 60, "min"),
        (size % 60, "s"),
    ];
    let mut shown = parts.iter().skip_while(|(amount, _)| *amount == 0).take(2);
    let shown = shown.by_ref().filter(|(amount, _)| *amount > 0);
    let text: Vec<_> = shown.map(|(amount, unit)| format!("{amount} {unit}")).collect();
    match (text.join(" "), seconds) {
        (_, 0) => "now".to_owned(),
        (text, 1..) => format!("in {text}"),
        (text, _) => format!("{text} ago"),
    }
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

    #[test]
    fn the_time_zone_is_that_of_the_variable_or_of_the_machine() {
        let zone = |variable: Option<&str>, link: Option<&str>| {
            TimeZoneOfUser::of(variable, link.map(PathBuf::from)).map(|zone| zone.name())
        };
        let berlin = Some("/usr/share/zoneinfo/Europe/Berlin");
        assert_eq!(zone(Some("Asia/Tokyo"), berlin), Some("Asia/Tokyo"));
        assert_eq!(zone(Some(":Asia/Tokyo"), berlin), Some("Asia/Tokyo"));
        assert_eq!(zone(None, berlin), Some("Europe/Berlin"));
        assert_eq!(zone(Some(""), berlin), Some("Europe/Berlin"));
        assert_eq!(zone(Some("EST5EDT,M3.2.0,M11.1.0"), berlin), None);
        assert_eq!(zone(None, None), None);
    }

    #[test]
    fn absolute_times_are_in_the_zone_of_the_user() {
        let at: Instant = "2026-11-17T01:30:00.5Z".parse().unwrap();
        assert_eq!(absolute(at, &Zone::utc()), "2026-11-17 01:30:00Z");
        let berlin = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(absolute(at, &berlin), "2026-11-17 02:30:00+01:00");
    }
}
