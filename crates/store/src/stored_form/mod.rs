//! The stored form of definitions: JSON of its own, apart from what users see, so that either can
//! change without the other.
//!
//! Texts that are secret, or may hold one, are sealed one by one, each bound to its job and member.

mod action;
mod collection;
mod job;
mod recurrence;
mod text;

pub use collection::{read_collection, write_collection};
pub use job::{read_definition, write_definition};
pub use text::DefinitionCodec;

use crate::error::StoreError;

fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("a definition cannot be read: {error}"))
}
