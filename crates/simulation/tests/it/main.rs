//! Seeded simulations whose guarantees are checked.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod mutants;
mod seeds;
