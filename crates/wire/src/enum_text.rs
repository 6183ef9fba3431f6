//! Words of enums: read without regard to case, written in the casing of each version.

use kalends_recurrence::{Frequency, Weekday};

use crate::json::Json;
use crate::version::Version;

/// Words and what they mean, in the spelling of the newest version.
pub(crate) type EnumText<T> = [(&'static str, T)];

/// How the old versions write a word. The newest writes `PascalCase`.
#[derive(Clone, Copy)]
pub(crate) enum OldCasing {
    Lower,
    Camel,
    Pascal,
}

/// The word that means `value`, in the casing of `version`.
pub(crate) fn word<T: PartialEq>(
    words: &EnumText<T>,
    value: &T,
    old_casing: OldCasing,
    version: Version,
) -> Json<'static> {
    let found = words.iter().find(|(_, known)| known == value);
    cased(found.map_or("", |(word, _)| word), old_casing, version)
}

pub(crate) fn frequency(value: Frequency, version: Version) -> Json<'static> {
    cased(capitalised(value), OldCasing::Lower, version)
}

pub(crate) fn weekday(value: Weekday, version: Version) -> Json<'static> {
    cased(value.name(), OldCasing::Lower, version)
}

fn cased(word: &'static str, old_casing: OldCasing, version: Version) -> Json<'static> {
    match old_casing {
        OldCasing::Lower if version.is_old() => Json::from(word.to_ascii_lowercase()),
        OldCasing::Camel if version.is_old() => Json::from(camel(word)),
        _ => Json::from(word),
    }
}

/// `NetMessaging` is `netMessaging`, `AMQP` is `amqp`.
fn camel(word: &str) -> String {
    let capitals = word.chars().take_while(char::is_ascii_uppercase).count();
    let lowered = if capitals == word.len() { capitals } else { 1 };
    word.chars()
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
