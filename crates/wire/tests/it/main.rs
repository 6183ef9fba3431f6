//! JSON bodies of jobs and collections, and the occurrences of their schedules.

#![cfg(test)] // lets clippy accept `unwrap` in helpers too

mod bad_input;
mod catalogue;
mod collected_definitions;
mod cron;
mod documented_schedules;
mod exchange;
mod invalid_definitions;
mod patching;
mod properties;
mod recorded_vectors;
mod recording_files;
mod recordings;
mod responses;
mod stored_secrets;
mod strategies;
mod unknown_members;
mod variants;
mod wall_times;
mod worked_examples;

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_wire::{ErrorDetails, Json, read_definition};

/// Builds the rule of a definition in JSON, created at `created`.
fn rule(text: &str, created: &str) -> Result<Rule, ErrorDetails> {
    let body = Json::parse(text.as_bytes())?;
    let definition = read_definition(&body, created.parse().unwrap())?;
    let rule = Rule::new(definition, &Settings::default());
    rule.map_err(|errors| errors.0.into_iter().map(Into::into).collect())
}

/// Parses `03-04 12:30` as a time in 2026, or a full date such as `2027-01-29 08:00`.
fn instant(text: &str) -> Instant {
    let (date, time) = text.split_once(' ').expect("a date and a time");
    let year = if date.len() == 5 { "2026-" } else { "" };
    format!("{year}{date}T{time}:00Z").parse().expect(text)
}
