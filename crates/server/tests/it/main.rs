//! The server over real connections, with a store in memory.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

#[path = "../../../wire/tests/it/catalogue.rs"]
mod catalogue;
mod connection_limits;
mod edits;
mod error_messages;
mod http2;
mod notes;
mod overview;
mod search;
mod test_server;
mod timeouts;
mod tls;
