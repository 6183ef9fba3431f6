//! The stored form of jobs and collections: JSON that is independent of the API format, so that
//! either can change without the other.
//!
//! Members that are or may contain secrets are encrypted individually, each bound to its job and
//! member.

mod action;
mod collection;
mod job;
mod recurrence;
mod text;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use job::read_schedule;

pub use collection::{read_collection, write_collection};
pub use job::{read_definition, write_definition};
pub use text::DefinitionCodec;

use crate::error::StoreError;

fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("a definition cannot be read: {error}"))
}
