//! The audit log: a line for every write and every refusal, who asked for what and what came of it.
//! Never a body, a token or a secret.

mod entry;
mod file;
mod log;

pub(crate) use entry::Entry;
pub(crate) use log::Wait;
pub use log::{AuditLog, AuditSettings, AuditTarget};
