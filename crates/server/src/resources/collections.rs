//! Job collections: list, CRUD, enable and disable.

use http::{Method, StatusCode};
use kalends_domain::{
    AccessScope, Collection, CollectionName, CollectionPath, CollectionState, GroupName, GroupPath,
    Location, NewNote, Permission, Plan,
};
use kalends_store::record::CollectionRecord;
use kalends_store::{CollectionContext, CollectionWrite, Page, Scope, StoreError};
use kalends_wire::{
    ErrorDetail, Json, Version, keep_plan, patch_collection, read_collection, write_collection,
    write_list,
};

use super::{HandlerResult, RequestContext, missing_after_write, ok_empty};
use crate::access::Caller;
use crate::app::App;
use crate::edit::{Condition, decide_collection};
use crate::paging::PageRequest;
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

/// Page size of old API versions, which have no paging; a subscription has at most 200,000
/// collections.
const OLD_PAGE_MAX: usize = 200_000;

pub(super) async fn list(request: RequestContext, scope: Scope) -> HandlerResult {
    let version = request.query.version()?;
    let subscription = match &scope {
        Scope::Subscription(subscription) => subscription.clone(),
        Scope::Group(group) => group.subscription.clone(),
    };
    if version.is_old() {
        let records =
            readable(&request.app, &request.caller, scope, Page::first(OLD_PAGE_MAX)).await?;
        return Ok(list_response(&records, None, version));
    }
    let page_request = PageRequest::read(&request, version, OLD_PAGE_MAX, |position| {
        let (group, collection) = position.split_once('/')?;
        let group = GroupName::new(group).ok()?;
        let group = GroupPath { subscription: subscription.clone(), group };
        Some(CollectionPath { group, collection: CollectionName::new(collection).ok()? })
    })?;
    let mut records =
        readable(&request.app, &request.caller, scope, page_request.page.clone()).await?;
    let next = page_request.truncate(&mut records, |record| {
        format!("{}/{}", record.path.group.group, record.path.collection)
    });
    Ok(list_response(&records, next.as_deref(), version))
}

/// A page of the collections that the caller may read. Others are not read from the store, so that
/// neither the page nor the cursor reveals them.
async fn readable(
    app: &App,
    caller: &Caller,
    scope: Scope,
    page: Page<CollectionPath>,
) -> Result<Vec<CollectionRecord>, StoreError> {
    let store = &app.store;
    let access_scope = match &scope {
        Scope::Subscription(subscription) => AccessScope::Subscription(subscription.clone()),
        Scope::Group(group) => AccessScope::Group(group.clone()),
    };
    if caller.may(Permission::Read, &access_scope) {
        return store.collections(scope, page).await;
    }
    let skip = usize::try_from(page.skip).unwrap_or(usize::MAX);
    let limit = skip.saturating_add(page.limit).min(OLD_PAGE_MAX);
    let mut found = Vec::new();
    for inner in caller.readable_in(&access_scope) {
        match inner {
            AccessScope::Group(group) => {
                let all = Page { after: page.after.clone(), skip: 0, limit };
                found.extend(store.collections(Scope::Group(group.clone()), all).await?);
            }
            AccessScope::Collection(path) => found.extend(store.collection(path.clone()).await?),
            // A grant of the whole scope was handled above.
            AccessScope::Everything | AccessScope::Subscription(_) => {}
        }
    }
    found.retain(|record| page.after.as_ref().is_none_or(|after| record.path > *after));
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found.into_iter().skip(skip).take(page.limit).collect())
}

fn list_response(
    records: &[CollectionRecord],
    next: Option<&str>,
    version: Version,
) -> ApiResponse {
    let one = |record: &CollectionRecord| {
        write_collection(&record.path, &record.collection, version).into_owned()
    };
    ApiResponse::json(StatusCode::OK, &write_list(records.iter().map(one).collect(), next))
}

pub(super) async fn one(request: RequestContext, path: CollectionPath) -> HandlerResult {
    let version = request.query.version()?;
    match request.method {
        Method::GET => match request.app.store.collection(path.clone()).await? {
            Some(record) => Ok(collection_response(StatusCode::OK, &record, version)),
            None => Err(ErrorDetail::collection_not_found(&path).into()),
        },
        Method::PUT => put(request, path, version).await,
        Method::PATCH => patch(request, path, version).await,
        _ => {
            request.reject_note(version)?;
            let condition = Condition::of(&request.headers);
            let named = path.clone();
            let delete = move |context: CollectionContext<'_>| {
                let existing = context.existing.ok_or_else(|| not_found(&named))?;
                condition.check(Some(existing.version))?;
                Ok(CollectionWrite::Delete)
            };
            edit(&request.app, path, None, delete).await?;
            ok_empty()
        }
    }
}

/// `POST …/enable` and `…/disable`.
pub(super) async fn switch(
    request: RequestContext,
    path: CollectionPath,
    on: bool,
) -> HandlerResult {
    let version = request.query.version()?;
    let note = request.note(version)?;
    let condition = Condition::of(&request.headers);
    let state = if on { CollectionState::Enabled } else { CollectionState::Disabled };
    let named = path.clone();
    let switch = move |context: CollectionContext<'_>| {
        let existing = context.existing.ok_or_else(|| not_found(&named))?;
        condition.check(Some(existing.version))?;
        let collection = Collection { state, ..existing.collection.clone() };
        match collection == existing.collection {
            true => Ok(CollectionWrite::Keep),
            false => Ok(CollectionWrite::Put(collection)),
        }
    };
    edit(&request.app, path, note, switch).await?;
    ok_empty()
}

/// Azure Scheduler returned 201 for every PUT of a collection.
async fn put(mut request: RequestContext, path: CollectionPath, version: Version) -> HandlerResult {
    let note = request.note(version)?;
    let body = read_json(&mut request).await?;
    let settings = request.app.settings.clone();
    let collection = read_collection(&body, version, &settings.limits)?;
    let condition = Condition::of(&request.headers);
    let put = move |context: CollectionContext<'_>| {
        let mut collection = collection.clone();
        if let Some(existing) = context.existing {
            keep_plan(&existing.collection, &mut collection, version);
        }
        decide_collection(collection, &settings, &condition, &context)
    };
    let record = edit(&request.app, path, note, put).await?;
    Ok(collection_response(StatusCode::CREATED, &record.ok_or_else(missing_after_write)?, version))
}

async fn patch(
    mut request: RequestContext,
    path: CollectionPath,
    version: Version,
) -> HandlerResult {
    let note = request.note(version)?;
    let body = read_json(&mut request).await?;
    let settings = request.app.settings.clone();
    let condition = Condition::of(&request.headers);
    let named = path.clone();
    let patch = move |context: CollectionContext<'_>| {
        let existing = context.existing.ok_or_else(|| not_found(&named))?;
        let stored = &existing.collection;
        let patched =
            patch_collection(&existing.path, stored, body.clone(), version, &settings.limits)?;
        decide_collection(patched, &settings, &condition, &context)
    };
    let record = edit(&request.app, path, note, patch).await?;
    Ok(collection_response(StatusCode::OK, &record.ok_or_else(missing_after_write)?, version))
}

/// The collection without plan limits that the first job of a short path creates; `None` if there is
/// one already.
pub(super) async fn missing(
    app: &App,
    path: &CollectionPath,
) -> Result<Option<CollectionRecord>, ApiError> {
    if app.store.collection(path.clone()).await?.is_some() {
        return Ok(None);
    }
    let collection = Collection {
        location: Location::local(),
        tags: None,
        plan: Plan::StandardUnlimited,
        state: CollectionState::Enabled,
        quota: None,
    };
    let now = app.now();
    let (path, created, enabled_since) = (path.clone(), now, now);
    Ok(Some(CollectionRecord { path, collection, created, enabled_since, version: 0 }))
}

/// Creates a collection unless it exists.
pub(super) async fn create(app: &App, record: CollectionRecord) -> Result<(), ApiError> {
    let CollectionRecord { path, collection, .. } = record;
    let create = move |context: CollectionContext<'_>| match context.existing {
        Some(_) => Ok(CollectionWrite::Keep),
        None => Ok(CollectionWrite::Put(collection.clone())),
    };
    edit(app, path, None, create).await.map(drop)
}

async fn edit(
    app: &App,
    path: CollectionPath,
    note: Option<NewNote>,
    mut decide: impl FnMut(CollectionContext<'_>) -> Result<CollectionWrite, ApiError> + Send + 'static,
) -> Result<Option<CollectionRecord>, ApiError> {
    let decide = Box::new(move |context: CollectionContext<'_>| Ok(decide(context)?));
    let edited = app.store.edit_collection_with_note(path, decide, note).await?;
    (app.on_edit)();
    app.overview.note_change();
    Ok(edited.after)
}

fn not_found(path: &CollectionPath) -> ApiError {
    ErrorDetail::collection_not_found(path).into()
}

fn collection_response(
    status: StatusCode,
    record: &CollectionRecord,
    version: Version,
) -> ApiResponse {
    let body: Json<'_> = write_collection(&record.path, &record.collection, version);
    ApiResponse::json(status, &body).with_etag(record.version, version)
}
