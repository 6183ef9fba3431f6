//! `GET …/history`: the history of a job.

use http::StatusCode;
use kalends_domain::JobPath;
use kalends_store::record::HistoryRecord;
use kalends_store::{HistoryFilter, StoreError};
use kalends_wire::{ErrorDetail, write_history_entry, write_list};

use super::{HandlerResult, RequestContext};
use crate::filter;
use crate::paging::PageRequest;
use crate::response::ApiResponse;

/// Page size of old API versions without `$top`.
const OLD_PAGE_DEFAULT: usize = 500;

pub(super) async fn list(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.query.version()?;
    let filter = request.query.filter()?.map(filter::history).transpose()?;
    let filter: HistoryFilter = filter.unwrap_or_default();
    let page_request =
        PageRequest::read(&request, version, OLD_PAGE_DEFAULT, |position| position.parse().ok())?;
    let page = page_request.page.clone();
    let mut history = match request.app.store.history(path.clone(), filter, page).await {
        Err(StoreError::NoCollection) => {
            return Err(ErrorDetail::collection_not_found(&path.collection).into());
        }
        history => history?.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?,
    };
    let next = page_request.truncate(&mut history, |record| record.sequence.to_string());
    let entry = |record: &HistoryRecord| {
        let number = request.app.position_key.pseudonym(record.sequence);
        write_history_entry(&path, &record.entry, number, version).into_owned()
    };
    let values = history.iter().map(entry).collect();
    Ok(ApiResponse::json(StatusCode::OK, &write_list(values, next.as_deref())))
}
