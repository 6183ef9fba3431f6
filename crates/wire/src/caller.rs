//! The caller of a request, as `GET /api/me` describes it. Newest API version only.

use kalends_domain::{Grant, Role};

use crate::json::Json;
use crate::object::{ObjectBuilder, list};

/// A caller with its roles and permissions.
#[derive(Clone, Copy, Debug)]
pub struct CallerDescription<'a> {
    /// The id in the audit log.
    pub id: &'a str,
    /// Display name, or the id of a caller without one.
    pub name: &'a str,
    /// `None`, `Token`, `Oidc` or `Session`.
    pub authentication: &'a str,
    /// Roles with their scopes.
    pub grants: &'a [Grant],
    /// May read jobs, their history and runs.
    pub may_read: bool,
    /// May create, change and delete jobs.
    pub may_write: bool,
    /// May run, enable and disable jobs.
    pub may_run: bool,
    /// May pause all jobs.
    pub may_pause: bool,
}

/// Serialises a caller.
pub fn write_caller<'a>(caller: &CallerDescription<'a>) -> Json<'a> {
    let roles = caller.grants.iter().map(|grant| {
        ObjectBuilder::new()
            .put("role", role_text(grant.role))
            .put("scope", grant.scope.to_string())
    });
    let permissions = ObjectBuilder::new()
        .put("readJobs", caller.may_read)
        .put("writeJobs", caller.may_write)
        .put("runJobs", caller.may_run)
        .put("pause", caller.may_pause);
    ObjectBuilder::new()
        .put("id", caller.id)
        .put("name", caller.name)
        .put("authentication", caller.authentication)
        .put("roles", list(roles))
        .put("permissions", permissions)
        .into()
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Reader => "Reader",
        Role::Operator => "Operator",
        Role::Contributor => "Contributor",
        Role::Owner => "Owner",
    }
}
