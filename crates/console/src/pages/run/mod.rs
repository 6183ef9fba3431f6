//! One run of a job.

use super::PageResult;
use crate::address::JobAddress;
use crate::api::{Api, ApiFailure};
use crate::view::View;

pub(super) async fn page(
    view: &mut View,
    job: &JobAddress,
    time: &str,
    _api: &dyn Api,
) -> PageResult {
    view.title.clone_from(&job.job);
    Err(ApiFailure { status: 404, message: format!("No run at {time}") })
}
