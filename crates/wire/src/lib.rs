//! What users see as JSON, in every version of the API.
//!
//! Reading is strict about form and kind about spelling: member names and enum values are read
//! without regard to case, unknown members are ignored, a scalar stands for a list of one; but a
//! member given twice, a wrong type or a control character is refused with its path. Everything
//! that is wrong is collected, so that one answer names it all.
//!
//! Writing is exact: members in the order, the casing and the form in which the retired service
//! answered. Secrets are never in an answer.
//!
//! The crate refuses to know a clock, a connection or a store: what the service adds to a
//! definition comes in as values.

mod action;
mod collection;
mod duration;
mod enum_text;
mod error;
mod error_code;
mod history;
mod id;
mod job;
mod json;
mod list;
mod next;
mod node;
mod object;
mod patch;
mod recurrence;
mod tags;
mod timeline;
mod version;
mod write_options;

pub use collection::{keep_plan, read_collection, write_collection};
pub use duration::{parse_duration, write_duration};
pub use error::{ErrorDetail, ErrorDetails};
pub use error_code::{ErrorCode, old_code};
pub use history::write_history_entry;
pub use id::{collection_id, job_id};
pub use job::{JobRuntimeState, job_with_secrets, keep_extensions, read_job, write_job};
pub use json::{Json, Number};
pub use list::write_list;
pub use next::NextRequest;
pub use patch::{merge_patch, patch_collection, patch_job};
pub use recurrence::read_definition;
pub use timeline::{ExplainContext, write_closed_occurrence, write_explanation, write_occurrence};
pub use version::Version;
