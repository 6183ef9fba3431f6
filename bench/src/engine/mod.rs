//! The whole program, from the outside: a real server, a target in a process of its own, and the
//! clock. What is counted is what the target got.

pub mod client;
pub mod process;
pub mod sink;

/// What a run sends and what the bare client sends: as much as a small event.
pub const BODY_BYTES: usize = 256;
/// Connections of the bare client, and of who defines jobs.
pub const CONNECTIONS: usize = 64;
/// Jobs of one collection: what the largest plan allows.
pub const JOBS_PER_COLLECTION: usize = 1_000;
