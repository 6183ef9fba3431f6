//! Resource groups, as far as clients of the scheduler use them.

use http::{Method, StatusCode};
use kalends_domain::{AccessScope, GroupPath, Permission, SubscriptionId};
use kalends_store::record::GroupRecord;
use kalends_wire::{ErrorCode, ErrorDetails, GroupBody, Json, Version, read_group};

use super::{HandlerResult, RequestContext, ok_empty};
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

pub(super) async fn list(request: RequestContext, subscription: SubscriptionId) -> HandlerResult {
    let scope = AccessScope::Subscription(subscription.clone());
    let can_see_some = request.caller.may(Permission::Read, &scope)
        || request.caller.readable_in(&scope).next().is_some();
    let groups = match can_see_some {
        true => request.app.store.groups(subscription).await?,
        false => vec![],
    };
    let may_read = |group: &&GroupRecord| {
        request.caller.may(Permission::Read, &AccessScope::Group(group.path.clone()))
    };
    let values = groups.iter().filter(may_read).map(write).collect();
    Ok(ApiResponse::json(StatusCode::OK, &kalends_wire::write_list(values, None)))
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
