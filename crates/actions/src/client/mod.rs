//! HTTP over kept connections: one request, one answer.
//!
//! [`Client::send`] takes a [`Request`] through the door and gives an [`Answer`] whose head and body
//! are bounded, whatever the target sends. It follows no redirects, keeps no cookies and
//! decompresses nothing. HTTP/1.1 is read and written here (`http1`, `head`, `body`): its limits
//! are ours to the byte, and it costs a third less than a general library. HTTP/2, where both sides
//! like it, is hyper's (`http2`), under limits of ours for what comes in (`allowance`).
//!
//! A request is sent again only where it is certain that the target did not see it: nothing of it
//! was written, or HTTP/2 says so. How long all of it may take is the caller's to bound.

mod allowance;
mod answer;
mod body;
mod failure;
mod head;
mod http1;
mod http2;
mod pool;
mod request;
mod send;

pub(crate) use answer::Answer;
pub(crate) use failure::Failure;
pub(crate) use request::{Headers, Request};
pub(crate) use send::Client;

/// A status line and headers are not longer, and an attempt does not hold more of them.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// An answer does not have more headers.
const HEADERS_MAX: usize = 100;
/// As many interim answers (1xx) come before the answer at most.
const INTERIM_MAX: usize = 8;
/// Bytes of a body that are read at most; then the connection is closed.
const BODY_BYTES_READ_MAX: usize = 64 * 1024;
