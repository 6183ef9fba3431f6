//! The binary from outside, and the shape of the repository.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod api;
mod connection;
mod jobs_run;
mod next;
mod recorded;
mod recordings;
mod refused;
mod rehearse;
mod running;
mod store_tools;
mod tidy;
mod transport;
