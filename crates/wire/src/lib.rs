//! JSON bodies of the REST API, in every API version.
//!
//! Parsing is strict about structure and lenient about spelling. Member names and enum values are
//! case-insensitive, and a scalar is accepted as a list of one. The old versions ignore unknown
//! members, the newest rejects them. A duplicate member, a wrong type or a NUL character is an error
//! with the path of the member. All errors of a body are collected, so that one response reports them
//! together.
//!
//! Serialisation is exact: member order, casing and format are those of the retired service.
//! Responses never contain secrets.
//!
//! The crate is pure: no clock, no I/O, no store. Runtime state that a response includes is passed
//! in by the caller.

mod action;
mod bulk;
mod caller;
mod collection;
mod duration;
mod enum_text;
mod error;
mod error_code;
mod group;
mod history;
mod id;
mod job;
mod json;
mod json_text;
mod list;
mod next;
mod node;
mod node_status;
mod note;
mod object;
mod overview;
mod patch;
mod pause;
mod quoting;
mod recurrence;
mod run;
mod shape;
mod stored_secrets;
mod tags;
mod timeline;
mod unknown_members;
mod version;
mod write_options;

pub use action::keep_type_spelling;
pub use bulk::{BulkAction, BulkEdit, BulkJobs, read_bulk_preview};
pub use caller::{CallerDescription, write_caller};
pub use collection::{keep_plan, read_collection, write_collection};
pub use duration::{parse_duration, parse_short_duration, write_duration};
pub use error::{ErrorDetail, ErrorDetails};
pub use error_code::ErrorCode;
pub use group::{GroupBody, read_group};
pub use history::{TestRun, write_history_entry, write_test_run};
pub use id::{collection_id, job_id};
pub use job::{
    FinalState, JobBody, JobRuntimeState, job_with_secrets, keep_extensions, read_job, write_job,
    write_job_generation,
};
pub use json::{Json, Number};
pub use list::write_list;
pub use next::NextRequest;
pub use node_status::{
    LimitsStatus, LoadStatus, NodeStatus, RetentionStatus, StoreStatus, write_node,
};
pub use note::write_note;
pub use overview::{
    AttentionEntry, Counted, ExpectedBucket, JobCounts, ListedJob, OverviewCollection,
    OverviewNumbers, write_attention, write_expected_runs, write_job_list, write_listed_job,
    write_overview,
};
pub use patch::{ignore_final_state, merge_patch, patch_collection, patch_job};
pub use pause::{PauseRequest, write_pause};
pub use quoting::quoted;
pub use recurrence::{read_definition, write_recurrence};
pub use run::{
    JobOfRun, NewestRunsOfJob, OUTCOMES_MAX, OpenRunDescription, RunCountsOfTime, write_closed_run,
    write_open_run, write_run_counts, write_statistics,
};
pub use stored_secrets::{STORED, has_stored_placeholder, keep_stored_secrets};
pub use timeline::{ExplainContext, write_closed_occurrence, write_explanation, write_occurrence};
pub use unknown_members::nearest_name;
pub use version::Version;
