//! Reading bulk edits: `{"action": "Disable", "names": ["a", "b"]}`, or `"filter"` instead of
//! `"names"`.

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
    node.list(errors, |node, errors| {
        let name = JobName::new(node.text(errors)?);
        name.map_err(|error| node.with_code(error.into()).reject(error, errors)).ok()
    })
}
