//! The server from outside, with a store in memory.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod crowds;
mod http2;
mod patience;
mod searches;
mod serving;
mod tls;
