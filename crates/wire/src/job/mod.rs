//! Reading and serialising jobs.

mod extensions;
mod read;
mod write;

pub use extensions::keep_extensions;
pub(crate) use read::job_node;
pub use read::{FinalState, JobBody, read_job};
pub use write::{JobRuntimeState, job_with_secrets, write_job, write_job_generation};
