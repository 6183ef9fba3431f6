//! Resource groups, as far as clients of the scheduler use them.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use kalends_domain::{AccessScope, GroupName, GroupPath, Permission, SubscriptionId};
use kalends_store::record::GroupRecord;
use kalends_store::{Page, StoreError};
use kalends_wire::{ErrorCode, ErrorDetails, GroupBody, Json, Version, read_group};

use super::{HandlerResult, RequestContext, ok_empty};
use crate::access::Caller;
use crate::app::App;
use crate::paging::{PAGE_MAX, PageRequest};
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

/// The API version of links. Clients list groups with versions of Azure Resource Manager, all of
/// which have pages.
const LINK_VERSION: Version = Version::V2026_11_01;

pub(super) async fn list(request: RequestContext, subscription: SubscriptionId) -> HandlerResult {
    let page_request =
        PageRequest::read(&request, LINK_VERSION, PAGE_MAX, |name| GroupName::new(name).ok())?;
    let page = page_request.page.clone();
    let mut groups = readable(&request.app, &request.caller, subscription, page).await?;
    let next = page_request.truncate(&mut groups, |group| group.path.group.to_string());
    let values = groups.iter().map(write).collect();
    Ok(ApiResponse::json(StatusCode::OK, &kalends_wire::write_list(values, next.as_deref())))
}

/// A page of the groups that the caller may read. Others are not read from the store, so that
/// neither the page nor the cursor reveals them.
async fn readable(
    app: &App,
    caller: &Caller,
    subscription: SubscriptionId,
    page: Page<GroupName>,
) -> Result<Vec<GroupRecord>, StoreError> {
    let scope = AccessScope::Subscription(subscription.clone());
    if caller.may(Permission::Read, &scope) {
        return app.store.groups(subscription, page).await;
    }
    let granted = caller.readable_in(&scope).filter_map(|scope| match scope {
        AccessScope::Group(path) => Some(path),
        _ => None,
    });
    let is_after = |path: &&GroupPath| page.after.as_ref().is_none_or(|after| path.group > *after);
    let paths: BTreeSet<_> = granted.filter(is_after).collect();
    let mut skip = page.skip;
    let mut groups = Vec::new();
    for path in paths {
        if groups.len() >= page.limit {
            break;
        }
        match app.store.group(path.clone()).await? {
            Some(_) if skip > 0 => skip -= 1,
            found => groups.extend(found),
        }
    }
    Ok(groups)
}

pub(super) async fn one(mut request: RequestContext, path: GroupPath) -> HandlerResult {
    let store = request.app.store.clone();
    match request.method {
        Method::GET => match store.group(path.clone()).await? {
            Some(group) => Ok(ApiResponse::json(StatusCode::OK, &write(&group))),
            None => Err(not_found(&path)),
        },
        Method::HEAD => match store.group(path).await? {
            Some(_) => Ok(ApiResponse::empty(StatusCode::NO_CONTENT)),
            None => Ok(ApiResponse::empty(StatusCode::NOT_FOUND)),
        },
        Method::PUT => {
            let body = read_json(&mut request).await?;
            // Clients of the Resource Manager send versions that the scheduler does not have.
            let version = request.query.version().unwrap_or(Version::V2016_03_01);
            let GroupBody { location, tags } =
                read_group(&body, version, &request.app.settings.limits)?;
            let group = GroupRecord { path: path.clone(), location, tags };
            let is_new = store.put_group(group).await?;
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            match store.group(path.clone()).await? {
                Some(group) => Ok(ApiResponse::json(status, &write(&group))),
                None => Err(not_found(&path)),
            }
        }
        _ => match store.delete_group(path.clone()).await? {
            true => ok_empty(),
            false => Err(not_found(&path)),
        },
    }
}

pub(crate) fn not_found(path: &GroupPath) -> ApiError {
    let message = format!("Resource group '{}' could not be found.", path.group);
    ApiError::from(ErrorDetails::one(ErrorCode::ResourceNotFound, "", message))
}

fn write(group: &GroupRecord) -> Json<'_> {
    let GroupPath { subscription, group: name } = &group.path;
    let mut members: Vec<(std::borrow::Cow<'_, str>, Json<'_>)> = vec![
        ("id".into(), format!("/subscriptions/{subscription}/resourceGroups/{name}").into()),
        ("name".into(), name.as_str().into()),
    ];
    members.extend(group.location.as_deref().map(|location| ("location".into(), location.into())));
    if !group.tags.is_empty() {
        let tag = |(name, value): &(String, String)| (name.clone().into(), value.clone().into());
        members.push(("tags".into(), Json::Object(group.tags.iter().map(tag).collect())));
    }
    let state = vec![("provisioningState".into(), "Succeeded".into())];
    members.push(("properties".into(), Json::Object(state)));
    Json::Object(members)
}
