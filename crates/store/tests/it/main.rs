//! Every store passes one suite.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod memory;
mod mended;
#[cfg(feature = "postgres")]
mod postgres;
mod sample;
mod sqlite;

use std::future::Future;

/// Runs a future to its end.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}
