//! The collections that a caller may read, of all subscriptions.

use std::ops::Bound;

use kalends_domain::{AccessScope, CollectionPath, Permission};
use kalends_store::{CollectionSummary, StoreError};

use crate::access::Caller;
use crate::app::App;

/// Collections of a page.
const PAGE: usize = 256;

/// The collections that a caller may read, in the order of their paths. Others are not read from the
/// store.
pub(super) struct ReadableCollections {
    scopes: Vec<AccessScope>,
    /// Start of the next page; `None` after the last one.
    from: Option<Bound<CollectionPath>>,
}

impl ReadableCollections {
    /// All collections that the caller may read, or only `within`.
    pub(super) fn new(
        caller: &Caller,
        within: Option<CollectionPath>,
        from: Bound<CollectionPath>,
    ) -> ReadableCollections {
        let within = within.map_or(AccessScope::Everything, AccessScope::Collection);
        let scopes = match caller.may(Permission::Read, &within) {
            true => vec![within],
            false => caller.readable_in(&within).cloned().collect(),
        };
        ReadableCollections { scopes, from: Some(from) }
    }

    /// The next page; empty after the last one.
    pub(super) async fn next(&mut self, app: &App) -> Result<Vec<CollectionSummary>, StoreError> {
        let Some(from) = self.from.take() else { return Ok(vec![]) };
        let mut page = Vec::new();
        for scope in &self.scopes {
            page.extend(app.store.collection_summaries(scope.clone(), from.clone(), PAGE).await?);
        }
        // Scopes may overlap.
        page.sort_by(|one, other| one.record.path.cmp(&other.record.path));
        page.dedup_by_key(|one| one.key);
        let is_last = page.len() < PAGE;
        page.truncate(PAGE);
        let last = page.last().filter(|_| !is_last);
        self.from = last.map(|last| Bound::Excluded(last.record.path.clone()));
        Ok(page)
    }
}
