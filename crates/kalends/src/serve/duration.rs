//! Durations in settings.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use kalends_wire::{parse_duration, parse_short_duration, write_duration};

/// Parses `PT20S` or `20s`.
pub(super) fn duration(text: &str) -> anyhow::Result<Duration> {
    let parsed = parse_duration(text).or_else(|| parse_short_duration(text));
    parsed.context("must be a duration such as PT20S")
}

/// Parses a duration within a range.
pub(super) fn duration_in(text: &str, range: RangeInclusive<Duration>) -> anyhow::Result<Duration> {
    let parsed = duration(text)?;
    let [min, max] = [range.start(), range.end()].map(|limit| write_duration(*limit));
    ensure!(range.contains(&parsed), "must be between {min} and {max} (found {text:?})");
    Ok(parsed)
}
