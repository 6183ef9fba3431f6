//! The echo target: a small HTTP server for first jobs and experiments. Its path selects the status of
//! the response, and the response shows the request, without its secrets.
//!
//! It has a listener of its own on a loopback address and reads nothing but the request: no store, no
//! settings, no other host.

mod directive;
mod listener;

pub use listener::EchoTarget;
