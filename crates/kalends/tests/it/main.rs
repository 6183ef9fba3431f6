//! The binary from outside, and the shape of the repository.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod api;
mod clocks;
mod connection;
mod crash;
mod following;
mod jobs_run;
mod next;
mod recorded;
mod recordings;
mod refused;
mod running;
mod shown;
mod store_tools;
mod target;
mod tidy;
mod timed;
mod transport;
