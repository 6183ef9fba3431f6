//! Conformance and driver-specific tests of the stores.

#![cfg(test)] // clippy allows unwrap in tests; helpers of an integration test count as tests

mod dump_sample;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod repair;
mod sample;
mod sqlite;
mod unreadable;

use std::future::Future;

/// Runs a future to completion.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}
