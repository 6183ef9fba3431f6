//! Resource groups, as far as clients need them.

use axum::http::{Method, StatusCode};
use kalends_domain::{AccessScope, GroupPath, Location, Permission, SubscriptionId};
use kalends_store::record::GroupRecord;
use kalends_wire::{ErrorCode, ErrorDetails, Json};

use super::{Asked, Done, done};
use crate::answer::{Answer, Refused};
use crate::request::read_json;

/// Tags of a group; more is not kept.
const TAGS_MAX: usize = 15;

pub(super) async fn list(asked: Asked, subscription: SubscriptionId) -> Done {
    let place = AccessScope::Subscription(subscription.clone());
    let sees_some = asked.caller.may(Permission::Read, &place)
        || asked.caller.readable_in(&place).next().is_some();
    let groups = match sees_some {
        true => asked.app.store.groups(subscription).await?,
        false => vec![],
    };
    let may_read = |group: &&GroupRecord| {
        asked.caller.may(Permission::Read, &AccessScope::Group(group.path.clone()))
    };
    let values = groups.iter().filter(may_read).map(write).collect();
    Ok(Answer::json(StatusCode::OK, &kalends_wire::write_list(values, None)))
}

pub(super) async fn one(mut asked: Asked, path: GroupPath) -> Done {
    let store = asked.app.store.clone();
    match asked.method {
        Method::GET => match store.group(path.clone()).await? {
            Some(group) => Ok(Answer::json(StatusCode::OK, &write(&group))),
            None => Err(not_found(&path)),
        },
        Method::HEAD => match store.group(path).await? {
            Some(_) => Ok(Answer::empty(StatusCode::NO_CONTENT)),
            None => Ok(Answer::empty(StatusCode::NOT_FOUND)),
        },
        Method::PUT => {
            let body = read_json(&mut asked).await?;
            let group = read(path.clone(), &body)?;
            let is_new = store.put_group(group).await?;
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            match store.group(path.clone()).await? {
                Some(group) => Ok(Answer::json(status, &write(&group))),
                None => Err(not_found(&path)),
            }
        }
        _ => match store.delete_group(path.clone()).await? {
            true => done(),
            false => Err(not_found(&path)),
        },
    }
}

pub(crate) fn not_found(path: &GroupPath) -> Refused {
    let message = format!("Resource group '{}' could not be found.", path.group);
    Refused::from(ErrorDetails::one(ErrorCode::ResourceNotFound, "", message))
}

fn read(path: GroupPath, body: &Json<'_>) -> Result<GroupRecord, Refused> {
    let refuse = |member: &str, message: &str| {
        Refused::from(ErrorDetails::one(ErrorCode::InvalidRequestContent, member, message))
    };
    let Json::Object(members) = body else { return Err(refuse("", "expected an object")) };
    let member = |name: &str| {
        members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let location = match member("location") {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => {
            let location =
                Location::new(text).map_err(|fault| refuse("location", &fault.message))?;
            Some(location.as_str().to_owned())
        }
        Some(_) => return Err(refuse("location", "expected a string")),
    };
    let tags = match member("tags") {
        None | Some(Json::Null) => vec![],
        Some(Json::Object(tags)) if tags.len() <= TAGS_MAX => {
            let tag = |(name, value): &(std::borrow::Cow<'_, str>, Json<'_>)| match value {
                Json::String(value) => Ok((name.to_string(), value.to_string())),
                _ => Err(refuse("tags", "expected strings")),
            };
            tags.iter().map(tag).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(refuse("tags", "expected an object of at most 15 strings")),
    };
    Ok(GroupRecord { path, location, tags })
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
