//! Jobs: reading what clients define, writing what they are told.

mod extensions;
mod read;
mod write;

pub use extensions::keep_extensions;
pub(crate) use read::read_in;
pub use read::read_job;
pub use write::{JobRuntimeState, job_with_secrets, write_job};
