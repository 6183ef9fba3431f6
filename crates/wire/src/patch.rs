//! PATCH: applies a JSON merge patch to the stored definition, including its secrets.
//!
//! Names are case-insensitive. `null` removes a member. In the old versions it does so only for
//! [`OLD_REMOVABLE`], because their clients send `null` for every member that they leave unchanged.

use std::borrow::Cow;

use kalends_domain::{
    Collection, CollectionPath, JobDefinition, JobPath, Lifecycle, Limits, SecretHeaders,
};

use crate::action::foreign_payloads;
use crate::collection::{complete_collection, keep_plan, read_collection};
use crate::error::ErrorDetails;
use crate::id::{collection_id, job_id, job_name};
use crate::job::{JobBody, job_node, job_with_secrets, keep_extensions};
use crate::json::Json;
use crate::node::{Context, Node, Strictness};
use crate::recurrence::INTERVAL_MEMBERS;
use crate::shape;
use crate::stored_secrets::{
    check_kept_secrets, has_stored_placeholder, keep_certificates, keep_stored_secrets,
};
use crate::unknown_members::reject_unknown_members;
use crate::version::Version;

type Object<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// Members that `null` removes in the old versions.
const OLD_REMOVABLE: [&str; 6] =
    ["authentication", "recurrence", "errorAction", "retryPolicy", "tags", "body"];
/// Objects with arbitrary names. The old versions replace them as a whole, because their clients
/// cannot remove a single entry.
const OLD_REPLACED: [&str; 3] = ["headers", "tags", "customMessageProperties"];

/// Returns the definition of a job after a patch. Secrets that the patch does not send are kept for
/// the same recipient only.
pub fn patch_job(
    path: &JobPath,
    stored: &JobDefinition,
    patch: Json<'_>,
    version: Version,
    limits: &Limits,
    secret_headers: &SecretHeaders,
) -> Result<JobDefinition, ErrorDetails> {
    let full_name = job_name(path);
    check(job_node(&patch, version), &job_id(path), &[path.job.as_str(), &full_name])?;
    let before = job_with_secrets(stored, version);
    let mut context = Context::new(version, limits);
    // An incomplete definition, created through an old version, must remain patchable, for example
    // to disable the job.
    if JobBody::read_with(&before, context).is_err() {
        context.strictness = Strictness::Lenient;
    }
    let patch = normalise(patch);
    let merged = merge(before, patch.clone(), version);
    let mut patched = JobBody::read_with(&merged, context)?.for_new_job()?;
    check_kept_secrets(stored, &patched, &patch, secret_headers)?;
    if version.is_old() {
        keep_extensions(stored, &mut patched);
    } else if has_stored_placeholder(&patch) {
        keep_stored_secrets(Some(stored), &mut patched, limits, secret_headers)?;
    }
    keep_certificates(stored, &mut patched);
    Ok(patched)
}

/// Removes `state` from a patch of the newest version if it repeats the final state of the job:
/// clients send back what they read.
pub fn ignore_final_state<'a>(patch: Json<'a>, present: Lifecycle, version: Version) -> Json<'a> {
    let state = match present {
        Lifecycle::Active => return patch,
        Lifecycle::Completed => "Completed",
        Lifecycle::Faulted => "Faulted",
    };
    let mut patch = normalise(patch);
    if let Json::Object(root) = &mut patch
        && let Some(Json::Object(properties)) = get_mut(root, "properties")
        && !version.is_old()
    {
        let is_repeated = |value: &Json<'_>| matches!(value, Json::String(text) if text.eq_ignore_ascii_case(state));
        properties
            .retain(|(name, value)| !name.eq_ignore_ascii_case("state") || !is_repeated(value));
    }
    patch
}

/// Returns a collection after a patch.
pub fn patch_collection(
    path: &CollectionPath,
    stored: &Collection,
    patch: Json<'_>,
    version: Version,
    limits: &Limits,
) -> Result<Collection, ErrorDetails> {
    let root = Node::root(&patch, &shape::COLLECTION, version);
    check(root, &collection_id(path), &[path.collection.as_str()])?;
    let merged = merge_patch(complete_collection(stored, version), patch, version);
    let mut patched = read_collection(&merged, version, limits)?;
    keep_plan(stored, &mut patched, version);
    Ok(patched)
}

/// Rejects a patch that has unknown members, names another resource or sets `status`, which belongs to
/// the service.
fn check(root: Node<'_>, id: &str, names: &[&str]) -> Result<(), ErrorDetails> {
    let mut errors = ErrorDetails::default();
    reject_unknown_members(root, &mut errors);
    if root.is_object(&mut errors) {
        for (member, allowed) in [("id", &[id][..]), ("name", names)] {
            let Some(node) = root.member(member) else { continue };
            let Some(text) = node.text(&mut errors) else { continue };
            if !allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
                let own = allowed.first().copied().unwrap_or_default();
                node.reject(format!("must be {own:?} or be left out"), &mut errors);
            }
        }
        let properties = root.member("properties");
        for node in [&root].into_iter().chain(&properties) {
            if let Some(status) = node.member("status") {
                status.reject_any("is set by the service; leave it out", &mut errors);
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Merges a patch into a stored value.
///
/// Objects are merged member by member, other values are replaced. A patch that changes the `type`
/// of an action or of an authentication discards the members of the former type, so that no secret
/// is carried over to another type.
pub fn merge_patch<'a>(stored: Json<'a>, patch: Json<'a>, version: Version) -> Json<'a> {
    merge(stored, normalise(patch), version)
}

fn merge<'a>(stored: Json<'a>, patch: Json<'a>, version: Version) -> Json<'a> {
    let Json::Object(changes) = patch else { return patch };
    let mut members = match stored {
        Json::Object(members) => members,
        _ => Vec::new(),
    };
    for (name, change) in changes {
        let position = members.iter().position(|(other, _)| other.eq_ignore_ascii_case(&name));
        if change == Json::Null {
            if let Some(position) = position.filter(|_| is_removable(&name, version)) {
                members.remove(position);
            }
            continue;
        }
        match position.and_then(|position| members.get_mut(position)) {
            Some((_, value)) => {
                let before = std::mem::replace(value, Json::Null);
                *value = merge(merge_base(&name, before, &change, version), change, version);
            }
            None => members.push((name, merge(Json::Null, change, version))),
        }
    }
    Json::Object(members)
}

fn is_removable(name: &str, version: Version) -> bool {
    let among = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    match version.is_old() {
        true => among(&OLD_REMOVABLE),
        // A job without `state` is enabled, so removing it would enable a disabled job.
        false => !among(&["state"]),
    }
}

/// Returns the part of a stored member that a change is merged into.
fn merge_base<'a>(name: &str, before: Json<'a>, change: &Json<'a>, version: Version) -> Json<'a> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    if version.is_old() && OLD_REPLACED.iter().any(|known| is(known)) {
        return Json::Null;
    }
    if is("recurrence") {
        return without_replaced_pattern(before, change);
    }
    let new_type = match (text_of(&before, "type"), text_of(change, "type")) {
        (Some(old), Some(new)) if !old.eq_ignore_ascii_case(new) => new,
        _ => return before,
    };
    match before {
        _ if is("authentication") => Json::Null,
        Json::Object(mut members) if is("action") || is("errorAction") => {
            for foreign in foreign_payloads(new_type) {
                members.retain(|(member, _)| !member.eq_ignore_ascii_case(foreign));
            }
            Json::Object(members)
        }
        before => before,
    }
}

/// Removes frequency, interval and schedule if a change sets `cron`, and the other way round.
fn without_replaced_pattern<'a>(before: Json<'a>, change: &Json<'a>) -> Json<'a> {
    let (Json::Object(mut members), Json::Object(changes)) = (before, change) else {
        return Json::Null;
    };
    let is_in = |names: &[&str], name: &str| names.iter().any(|of| of.eq_ignore_ascii_case(name));
    let sets = |names: &[&str]| {
        changes.iter().any(|(name, value)| is_in(names, name) && *value != Json::Null)
    };
    let (by_cron, by_interval) = (sets(&["cron"]), sets(&INTERVAL_MEMBERS));
    members.retain(|(name, _)| {
        !(by_cron && is_in(&INTERVAL_MEMBERS, name) || by_interval && is_in(&["cron"], name))
    });
    Json::Object(members)
}

fn text_of<'j>(value: &'j Json<'_>, name: &str) -> Option<&'j str> {
    let Json::Object(members) = value else { return None };
    match members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        Some((_, Json::String(text))) => Some(text),
        _ => None,
    }
}

/// Moves members to their documented position: `action` into `properties`, `retryPolicy` and
/// `errorAction` into `action`.
fn normalise(patch: Json<'_>) -> Json<'_> {
    let Json::Object(mut root) = patch else { return patch };
    if position(&root, "properties").is_none() && position(&root, "action").is_some() {
        root = vec![(Cow::Borrowed("properties"), Json::Object(root))];
    }
    if let Some(Json::Object(properties)) = get_mut(&mut root, "properties") {
        for name in ["retryPolicy", "errorAction"] {
            let Some(value) = take(properties, name) else { continue };
            if get_mut(properties, "action").is_none() {
                properties.push((Cow::Borrowed("action"), Json::Object(Vec::new())));
            }
            put_if_absent(get_mut(properties, "action"), name, value);
        }
        move_retry_policy(get_mut(properties, "action"));
        if let Some(Json::Object(action)) = get_mut(properties, "action") {
            move_retry_policy(get_mut(action, "errorAction"));
        }
    }
    Json::Object(root)
}

/// Moves `retryPolicy` from `request` to the action.
fn move_retry_policy(action: Option<&mut Json<'_>>) {
    let Some(Json::Object(action)) = action else { return };
    let Some(Json::Object(request)) = get_mut(action, "request") else { return };
    let Some(policy) = take(request, "retryPolicy") else { return };
    if position(action, "retryPolicy").is_none() {
        action.push((Cow::Borrowed("retryPolicy"), policy));
    }
}

fn position(members: &Object<'_>, name: &str) -> Option<usize> {
    members.iter().position(|(other, _)| other.eq_ignore_ascii_case(name))
}

fn get_mut<'m, 'a>(members: &'m mut Object<'a>, name: &str) -> Option<&'m mut Json<'a>> {
    let position = position(members, name)?;
    members.get_mut(position).map(|(_, value)| value)
}

fn take<'a>(members: &mut Object<'a>, name: &str) -> Option<Json<'a>> {
    position(members, name).map(|position| members.remove(position).1)
}

fn put_if_absent<'a>(object: Option<&mut Json<'a>>, name: &'static str, value: Json<'a>) {
    if let Some(Json::Object(members)) = object
        && position(members, name).is_none()
    {
        members.push((Cow::Borrowed(name), value));
    }
}
