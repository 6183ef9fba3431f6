//! History of jobs.

use axum::http::{Method, StatusCode};
use kalends_domain::JobPath;
use kalends_store::record::HistoryRecord;
use kalends_store::{HistoryFilter, Page, StoreError};
use kalends_wire::{Error, write_history_entry, write_list};

use super::{Asked, Done, not_allowed};
use crate::answer::Answer;
use crate::filter;

/// As many entries are answered when `$top` does not say, and when it does at most.
const PAGE_DEFAULT: usize = 500;
const PAGE_MAX: usize = 100;

pub(super) async fn list(asked: Asked, path: JobPath) -> Done {
    let version = asked.query.version()?;
    if asked.method != Method::GET {
        return not_allowed("GET");
    }
    let filter = asked.query.filter()?.map(filter::history).transpose()?;
    let limit = asked.query.top(PAGE_DEFAULT, PAGE_MAX)?;
    let page = Page { after: None, skip: asked.query.skip()?, limit };
    let filter: HistoryFilter = filter.unwrap_or_default();
    let history = match asked.app.store.history(path.clone(), filter, page).await {
        Err(StoreError::NoCollection) => {
            return Err(Error::collection_not_found(&path.collection).into());
        }
        history => history?.ok_or_else(|| Error::job_not_found(&path.job))?,
    };
    let one = |record: &HistoryRecord| {
        write_history_entry(&path, &record.entry, record.sequence, version).into_owned()
    };
    Ok(Answer::json(StatusCode::OK, &write_list(history.iter().map(one).collect(), None)))
}
