//! The binary from outside, and the shape of the repository.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod access;
mod api;
mod audit;
mod clocks;
mod config;
mod connection;
mod crash;
mod curl;
mod following;
mod forwarder;
mod hostile;
mod jobs_run;
mod language;
mod matrix;
mod next;
mod observed;
mod oidc;
mod provider;
mod rates;
mod recorded;
mod recordings;
mod refused;
mod rehearse;
mod running;
mod shown;
mod store_tools;
mod target;
mod tidy;
mod timed;
mod tokens;
mod transport;
mod trouble;
