//! `GET /api/me`: the caller, its roles, and its permissions in a scope or anywhere.

use http::StatusCode;
use kalends_domain::{AccessScope, CollectionName, CollectionPath, GroupPath, Permission};
use kalends_wire::{CallerDescription, ErrorDetails, quoted, write_caller};

use super::{HandlerResult, RequestContext};
use crate::request::invalid;
use crate::response::ApiResponse;

pub(super) fn describe(request: &RequestContext) -> HandlerResult {
    request.new_version()?;
    let caller = &request.caller;
    let scope = match request.query.text("scope")? {
        None => None,
        Some(text) => Some(parse_scope(text, &request.app.settings.default_group)?),
    };
    let may = |permission| match &scope {
        Some(scope) => caller.may(permission, scope),
        None => caller.may_anywhere(permission),
    };
    let described = CallerDescription {
        id: &caller.id,
        name: caller.name.as_deref().unwrap_or(&caller.id),
        authentication: caller.credential.as_str(),
        grants: caller.grants(),
        may_read: may(Permission::Read),
        may_write: may(Permission::Write),
        may_run: may(Permission::Operate),
        // A pause holds all jobs, so it needs the role in all scopes.
        may_pause: caller.may(Permission::Operate, &AccessScope::Everything),
    };
    Ok(ApiResponse::json(StatusCode::OK, &write_caller(&described)))
}

/// Parses a scope: a path of Azure Resource Manager, or the short path of a collection.
fn parse_scope(text: &str, default_group: &GroupPath) -> Result<AccessScope, ErrorDetails> {
    let malformed = |error: &dyn std::fmt::Display| {
        invalid(
            "scope",
            format!(
                "must be the path of a collection, a resource group or a subscription, or / ({error}; found {})",
                quoted(text)
            ),
        )
    };
    const SHORT: &str = "/api/collections/";
    let short = text.get(..SHORT.len()).filter(|start| start.eq_ignore_ascii_case(SHORT));
    match short.and_then(|_| text.get(SHORT.len()..)) {
        Some(name) => {
            let collection = CollectionName::new(name).map_err(|error| malformed(&error))?;
            let path = CollectionPath { group: default_group.clone(), collection };
            Ok(AccessScope::Collection(path))
        }
        None => AccessScope::parse(text).map_err(|error| malformed(&error)),
    }
}
