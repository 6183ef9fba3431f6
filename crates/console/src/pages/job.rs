//! One job.

use super::PageResult;
use crate::address::JobAddress;
use crate::api::{Api, ApiFailure, read};
use crate::view::{PageRequest, View};

pub(super) async fn page(
    view: &mut View,
    _request: &PageRequest<'_>,
    job: &JobAddress,
    api: &dyn Api,
) -> PageResult {
    view.title.clone_from(&job.job);
    let message = read(api, &job.api("", "")).await?.pretty();
    Err(ApiFailure { status: 500, message })
}
