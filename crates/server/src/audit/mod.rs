//! The audit log: one JSON line for every write and every denied request, with caller, operation and
//! status. It never contains a body, a token or a secret.

mod entry;
mod file;
mod log;

pub(crate) use entry::AuditEntry;
pub(crate) use log::Wait;
pub use log::{AuditLog, AuditSettings, AuditTarget};
