//! Definitions as clients write them, and when they are due.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod answers;
mod catalogue;
mod exchange;
mod generate;
mod patching;
mod properties;
mod real_jobs;
mod recorded_vectors;
mod recordings;
mod refused;
mod seed_schedules;
mod shared;
mod variants;
mod worked_examples;

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_wire::{ErrorDetails, Json, read_definition};

/// The rule of a JSON text that was created at an instant.
fn rule(text: &str, created: &str) -> Result<Rule, ErrorDetails> {
    let body = Json::parse(text.as_bytes())?;
    let definition = read_definition(&body, created.parse().unwrap())?;
    let rule = Rule::new(definition, &Settings::default());
    rule.map_err(|problems| problems.0.into_iter().map(Into::into).collect())
}

/// `03-04 12:30` in 2026, or a whole date such as `2027-01-29 08:00`.
fn instant(text: &str) -> Instant {
    let (date, time) = text.split_once(' ').expect("a date and a time");
    let year = if date.len() == 5 { "2026-" } else { "" };
    format!("{year}{date}T{time}:00Z").parse().expect(text)
}
