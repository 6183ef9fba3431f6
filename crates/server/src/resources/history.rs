//! History of jobs.

use axum::http::StatusCode;
use kalends_domain::JobPath;
use kalends_store::record::HistoryRecord;
use kalends_store::{HistoryFilter, StoreError};
use kalends_wire::{ErrorDetail, write_history_entry, write_list};

use super::{Asked, Done};
use crate::answer::Answer;
use crate::filter;
use crate::paging::AskedPage;

/// As many entries the old versions show when `$top` does not say.
const OLD_PAGE_DEFAULT: usize = 500;

pub(super) async fn list(asked: Asked, path: JobPath) -> Done {
    let version = asked.query.version()?;
    let filter = asked.query.filter()?.map(filter::history).transpose()?;
    let filter: HistoryFilter = filter.unwrap_or_default();
    let asked_page =
        AskedPage::read(&asked, version, OLD_PAGE_DEFAULT, |position| position.parse().ok())?;
    let page = asked_page.page.clone();
    let mut history = match asked.app.store.history(path.clone(), filter, page).await {
        Err(StoreError::NoCollection) => {
            return Err(ErrorDetail::collection_not_found(&path.collection).into());
        }
        history => history?.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?,
    };
    let next = asked_page.cut(&mut history, |record| record.sequence.to_string());
    let one = |record: &HistoryRecord| {
        write_history_entry(&path, &record.entry, record.sequence, version).into_owned()
    };
    let values = history.iter().map(one).collect();
    Ok(Answer::json(StatusCode::OK, &write_list(values, next.as_deref())))
}
