//! The binary from outside, and the shape of the repository.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod access;
mod api;
mod audit;
mod config;
mod connection;
mod curl;
mod forwarder;
mod jobs_run;
mod matrix;
mod next;
mod observed;
mod oidc;
mod provider;
mod rates;
mod recorded;
mod recordings;
mod refused;
mod running;
mod store_tools;
mod tidy;
mod tokens;
mod transport;
mod trouble;
