//! Worlds made of seeds, and what is promised in each of them.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod mutants;
mod seeds;
