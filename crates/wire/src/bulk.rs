//! Reading bulk requests: edits such as `{"action": "Disable", "names": ["a", "b"]}`, or `"filter"`
//! instead of `"names"`, and previews such as `{"jobs": [{"name": "a", "definition": {…}}]}`.

use kalends_domain::JobName;

use crate::enum_text::EnumText;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::Node;
use crate::shape;
use crate::unknown_members::reject_unknown_members;
use crate::version::Version;

/// An edit of many jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkEdit {
    /// The edit.
    pub action: BulkAction,
    /// The jobs that it applies to.
    pub jobs: BulkJobs,
}

/// The edit that is applied to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum BulkAction {
    Enable,
    Disable,
    Delete,
    Run,
}

/// The jobs of a bulk edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkJobs {
    /// Jobs by name.
    Names(Vec<JobName>),
    /// All jobs that match a filter.
    Filter(String),
}

const ACTIONS: &EnumText<BulkAction> = &[
    ("Enable", BulkAction::Enable),
    ("Disable", BulkAction::Disable),
    ("Delete", BulkAction::Delete),
    ("Run", BulkAction::Run),
];

impl BulkEdit {
    /// Jobs of one edit; no plan allows more in a collection.
    pub const JOBS_MAX: usize = 1_000;

    /// Reads a body.
    pub fn read(body: &Json<'_>) -> Result<BulkEdit, ErrorDetails> {
        let mut errors = ErrorDetails::default();
        let root = Node::root(body, &shape::BULK_EDIT, Version::V2026_11_01);
        reject_unknown_members(root, &mut errors);
        let edit = if root.is_object(&mut errors) { read(root, &mut errors) } else { None };
        edit.filter(|_| errors.is_empty()).ok_or(errors)
    }
}

fn read(root: Node<'_>, errors: &mut ErrorDetails) -> Option<BulkEdit> {
    let action = match root.member("action") {
        Some(node) => node.enum_value(ACTIONS.iter().copied(), errors),
        None => {
            let expected = "allowed are Enable, Disable, Delete, Run";
            root.missing("action", ErrorCode::InvalidRequestContent, expected, errors);
            None
        }
    };
    let jobs = match (root.member("names"), root.member("filter")) {
        (Some(names), None) => read_names(names, errors).map(BulkJobs::Names),
        (None, Some(filter)) => filter.text(errors).map(|text| BulkJobs::Filter(text.to_owned())),
        _ => {
            root.reject_any("must have either names or filter", errors);
            None
        }
    };
    Some(BulkEdit { action: action?, jobs: jobs? })
}

fn read_names(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Vec<JobName>> {
    let max = BulkEdit::JOBS_MAX;
    // A name outside a list is more likely an error than a list of one, and a deletion is final.
    if !matches!(node.value, Json::Array(names) if names.len() <= max) {
        node.reject_with_list_length(format!("must be a list of at most {max} names"), errors);
        return None;
    }
    node.list(errors, read_name)
}

fn read_name(node: Node<'_>, errors: &mut ErrorDetails) -> Option<JobName> {
    let name = JobName::new(node.text(errors)?);
    name.map_err(|error| node.with_code(error.into()).reject(error, errors)).ok()
}

/// Reads the names and the definitions of a preview of many jobs. The definitions are not validated.
pub fn read_bulk_preview(body: &Json<'_>) -> Result<Vec<(JobName, Json<'static>)>, ErrorDetails> {
    let mut errors = ErrorDetails::default();
    let root = Node::root(body, &shape::BULK_PREVIEW, Version::V2026_11_01);
    reject_unknown_members(root, &mut errors);
    let jobs = if root.is_object(&mut errors) { read_jobs(root, &mut errors) } else { None };
    jobs.filter(|_| errors.is_empty()).ok_or(errors)
}

fn read_jobs(root: Node<'_>, errors: &mut ErrorDetails) -> Option<Vec<(JobName, Json<'static>)>> {
    let max = BulkEdit::JOBS_MAX;
    let expected = format!("must be a list of at most {max} objects with name and definition");
    let Some(jobs) = root.member("jobs") else {
        root.missing("jobs", ErrorCode::InvalidRequestContent, expected, errors);
        return None;
    };
    if !matches!(jobs.value, Json::Array(jobs) if jobs.len() <= max) {
        jobs.reject_with_list_length(expected, errors);
        return None;
    }
    jobs.list(errors, |job, errors| {
        if !job.is_object(errors) {
            return None;
        }
        let required = |name, expected: &str, errors: &mut ErrorDetails| {
            job.missing(name, ErrorCode::InvalidRequestContent, expected, errors);
        };
        let name = match job.member("name") {
            Some(node) => read_name(node, errors),
            None => {
                required("name", "expected the name of a job", errors);
                None
            }
        };
        let definition = match job.member("definition") {
            Some(node) => node.is_object(errors).then(|| node.value.clone().into_owned()),
            None => {
                required("definition", "expected the definition of a job", errors);
                None
            }
        };
        Some((name?, definition?))
    })
}
