//! Tests of the engine with a manual clock, the in-memory store and scripted targets.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod claimed_ahead;
mod clocks_and_collections;
mod edits_before_the_due_time;
mod edits_of_open_runs;
mod faulty_store;
mod firing;
mod hanging_hosts;
mod kept_claims;
mod lease_renewal;
mod panics;
mod pauses;
mod races;
mod several_nodes;
mod skips;
mod status;
mod store_faults;
mod unreadable_jobs;
mod world;
