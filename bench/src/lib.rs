//! Kalends measured against hand-written code and other libraries.
//!
//! A result is meaningful only relative to another one of the same run on the same machine, and only if
//! both compute the same. Each benchmark therefore checks first that all contenders agree, then times
//! them in interleaved [`rounds`]; `src/bin` has one program per benchmark.

pub mod api;
pub mod engine;
pub mod peers;
pub mod recurrence;
pub mod results;
pub mod rounds;
pub mod store;
