//! The server over real connections, with a store in memory.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod connection_limits;
mod edits;
mod http2;
mod search;
mod test_server;
mod timeouts;
mod tls;
