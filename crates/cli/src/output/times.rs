//! Times for people: relative, and absolute in their time zone.

use std::path::PathBuf;

use kalends_recurrence::{Instant, Zone, relative_time};

use super::Output;

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

#[cfg(test)]
mod tests {
    use super::*;

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
