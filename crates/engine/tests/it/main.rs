//! The engine on a clock that is moved by hand, with the reference store and scripted targets.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod firing;
mod odd_times;
mod races;
mod world;
