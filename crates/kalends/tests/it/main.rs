//! The binary from outside, and the shape of the repository.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod api;
mod config;
mod connection;
mod curl;
mod jobs_run;
mod next;
mod observed;
mod recorded;
mod recordings;
mod refused;
mod running;
mod store_tools;
mod tidy;
mod transport;
