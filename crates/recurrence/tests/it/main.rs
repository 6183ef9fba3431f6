//! Schedules to instants, through the public interface.

// Tells the lints that what is outside the test functions is for tests too.
#![cfg(test)]

mod definitions;
mod dst_notes;
mod leap_years;
mod naive;
mod odd_zones;
mod properties;
