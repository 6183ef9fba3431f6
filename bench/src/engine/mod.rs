//! End-to-end measurements of the server with a target in its own process. Results count the requests
//! that the target received.

pub mod client;
pub mod process;
pub mod sink;

/// Request body of runs and of the bare client, the size of a small event.
pub const BODY_BYTES: usize = 256;
/// Number of connections of the bare client and of the client that creates jobs.
pub const CONNECTIONS: usize = 64;
/// Number of jobs per collection: the limit of the largest plan.
pub const JOBS_PER_COLLECTION: usize = 1_000;
