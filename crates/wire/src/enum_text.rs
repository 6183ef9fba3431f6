//! Text of enum values: case-insensitive when read, written in the casing of the API version.

use kalends_recurrence::{Frequency, Weekday};

use crate::json::Json;
use crate::version::Version;

/// Values of an enum with their text in the newest version.
pub(crate) type EnumText<T> = [(&'static str, T)];

/// Casing in the old versions. The newest version writes `PascalCase`.
#[derive(Clone, Copy)]
pub(crate) enum OldCasing {
    Lower,
    Camel,
    Pascal,
}

/// Returns the text of `value` in the casing of `version`.
pub(crate) fn enum_text<T: PartialEq>(
    texts: &EnumText<T>,
    value: &T,
    old_casing: OldCasing,
    version: Version,
) -> Json<'static> {
    let found = texts.iter().find(|(_, known)| known == value);
    cased(found.map_or("", |(text, _)| text), old_casing, version)
}

pub(crate) fn frequency(value: Frequency, version: Version) -> Json<'static> {
    cased(capitalised(value), OldCasing::Lower, version)
}

pub(crate) fn weekday(value: Weekday, version: Version) -> Json<'static> {
    cased(value.name(), OldCasing::Lower, version)
}

fn cased(text: &'static str, old_casing: OldCasing, version: Version) -> Json<'static> {
    match old_casing {
        OldCasing::Lower if version.is_old() => Json::from(text.to_ascii_lowercase()),
        OldCasing::Camel if version.is_old() => Json::from(camel(text)),
        _ => Json::from(text),
    }
}

/// `NetMessaging` becomes `netMessaging`, `AMQP` becomes `amqp`.
fn camel(text: &str) -> String {
    let capitals = text.chars().take_while(char::is_ascii_uppercase).count();
    let lowered = if capitals == text.len() { capitals } else { 1 };
    text.chars()
        .enumerate()
        .map(|(position, c)| if position < lowered { c.to_ascii_lowercase() } else { c })
        .collect()
}

fn capitalised(frequency: Frequency) -> &'static str {
    match frequency {
        Frequency::Minute => "Minute",
        Frequency::Hour => "Hour",
        Frequency::Day => "Day",
        Frequency::Week => "Week",
        Frequency::Month => "Month",
        Frequency::Year => "Year",
    }
}
