//! Reading and serialising jobs.

mod extensions;
mod read;
mod write;

pub use extensions::keep_extensions;
pub use read::read_job;
pub(crate) use read::read_job_with;
pub use write::{JobRuntimeState, job_with_secrets, write_job};
