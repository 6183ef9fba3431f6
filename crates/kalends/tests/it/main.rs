//! The binary from outside, and the shape of the repository.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod connection;
mod next;
mod recorded;
mod recordings;
mod running;
mod store_tools;
mod tidy;
