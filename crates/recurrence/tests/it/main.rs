//! Tests of recurrence rules through the public API.

// Makes the lints treat helpers outside test functions as test code.
#![cfg(test)]

mod cron_peer;
mod dst_notes;
mod dst_transitions;
mod leap_years;
mod naive;
mod properties;
mod strategies;
