//! HTTP client with keep-alive connections.
//!
//! [`Client::send`] sends a [`Request`] and returns a [`Response`] with a bounded head and body,
//! whatever the target sends. It follows no redirects, stores no cookies and decompresses nothing.
//! HTTP/1.1 is implemented here (`http1`, `head`, `body`): the limits are exact to the byte, and it
//! costs a third less than a general library. HTTP/2 uses hyper (`http2`), with limits on received
//! frames (`receive_budget`).
//!
//! A request is resent only if the target certainly did not see it: no byte of it was written, or
//! HTTP/2 reports it as unprocessed. The caller limits the total time.

mod body;
mod error;
mod head;
mod http1;
mod http2;
mod pool;
mod receive_budget;
mod request;
mod response;
mod send;

pub(crate) use error::ClientError;
pub(crate) use request::{Headers, Request};
pub(crate) use response::Response;
pub(crate) use send::Client;

/// Bytes of a status line and headers: an attempt buffers no more.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Headers of a response.
const HEADERS_MAX: usize = 100;
/// Interim responses (1xx) before the final one.
const INTERIM_MAX: usize = 8;
/// Bytes of a body that are read; the connection is closed if there are more.
const BODY_BYTES_READ_MAX: usize = 64 * 1024;
