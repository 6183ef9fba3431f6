//! The editor of a new or an existing job.

use super::PageResult;
use crate::address::JobAddress;
use crate::api::{Api, ApiFailure};
use crate::view::{PageRequest, View};

pub(super) async fn page(
    view: &mut View,
    _request: &PageRequest<'_>,
    job: Option<&JobAddress>,
    _api: &dyn Api,
) -> PageResult {
    view.title = job.map_or("New job".to_owned(), |job| format!("Edit {}", job.job));
    Err(ApiFailure { status: 404, message: "No editor".to_owned() })
}
