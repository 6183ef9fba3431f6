//! The audit log: one JSON line for every write and every denied request, with caller, operation and
//! status. It never contains a body, a token or a secret. Requests that are refused before their
//! permission is checked are counted: anybody can send them.

mod entry;
mod file;
mod log;
mod refusals;

pub(crate) use entry::AuditEntry;
pub(crate) use log::Wait;
pub use log::{AuditLog, AuditSettings, AuditTarget};
pub(crate) use refusals::Windows;
