//! What each route needs, in one table, and the one check against it. It comes before anything is
//! looked up: what somebody may not read is answered as if it were not there, whether it is or not.

use axum::http::{Method, StatusCode};
use kalends_domain::{AccessScope, Permission, Role};
use kalends_wire::{ErrorCode, ErrorDetail, ErrorDetails, Version};

use crate::access::Caller;
use crate::answer::{Answer, Refused};
use crate::resources::group_not_found;
use crate::route::Route;

/// What a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing, not even a token: what is answered is the same for everybody and says nothing of
    /// what is kept.
    Nothing,
    /// A token, whatever it allows: what is answered is cut to what its holder may read.
    Token,
    /// To be allowed something somewhere.
    Permission(Permission, AccessScope),
}

impl Need {
    /// Whether something may change.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Need::Permission(permission, _) if *permission > Permission::Read)
    }
}

/// What a route needs, and what the resource manager calls the operation, for the audit log and for who
/// may not.
pub(crate) fn need(route: &Route, method: &Method) -> (Need, &'static str) {
    use Permission::{Operate, Own, Read, Write};
    let collection = |permission, path: &kalends_domain::CollectionPath| {
        Need::Permission(permission, AccessScope::Collection(path.clone()))
    };
    let reads = method.is_safe();
    let deletes = method == Method::DELETE;
    match route {
        Route::Home | Route::Live | Route::Ready | Route::OpenApi => (Need::Nothing, "read"),
        // Of what happens a caller is told what he may read.
        Route::Events => (Need::Token, "Microsoft.Scheduler/events/read"),
        Route::Metrics => {
            (Need::Permission(Read, AccessScope::Everything), "Microsoft.Scheduler/metrics/read")
        }
        Route::Operations => (Need::Token, "Microsoft.Scheduler/operations/read"),
        Route::Provider { .. } => (Need::Token, "Microsoft.Scheduler/read"),
        Route::Register { .. } => (Need::Token, "Microsoft.Scheduler/register/action"),
        Route::Groups { .. } => {
            (Need::Token, "Microsoft.Resources/subscriptions/resourceGroups/read")
        }
        Route::CollectionsOfSubscription(_) | Route::CollectionsOfGroup(_) => {
            (Need::Token, "Microsoft.Scheduler/jobCollections/read")
        }
        Route::Group(path) => {
            let need = |permission| Need::Permission(permission, AccessScope::Group(path.clone()));
            match (reads, deletes) {
                (true, _) => (need(Read), "Microsoft.Resources/subscriptions/resourceGroups/read"),
                (_, true) => (need(Own), "Microsoft.Resources/subscriptions/resourceGroups/delete"),
                _ => (need(Write), "Microsoft.Resources/subscriptions/resourceGroups/write"),
            }
        }
        Route::Collection(path) => match (reads, deletes) {
            (true, _) => (collection(Read, path), "Microsoft.Scheduler/jobCollections/read"),
            (_, true) => (collection(Write, path), "Microsoft.Scheduler/jobCollections/delete"),
            _ => (collection(Write, path), "Microsoft.Scheduler/jobCollections/write"),
        },
        Route::SwitchCollection { collection: path, on } => {
            let operation = if *on {
                "Microsoft.Scheduler/jobCollections/enable/action"
            } else {
                "Microsoft.Scheduler/jobCollections/disable/action"
            };
            (collection(Operate, path), operation)
        }
        Route::Jobs(path) => {
            (collection(Read, path), "Microsoft.Scheduler/jobCollections/jobs/read")
        }
        // A bulk deletion needs more, which its body says.
        Route::Bulk(path) => {
            (collection(Operate, path), "Microsoft.Scheduler/jobCollections/jobs/bulk/action")
        }
        Route::Job(path) => match (reads, deletes) {
            (true, _) => {
                (collection(Read, &path.collection), "Microsoft.Scheduler/jobCollections/jobs/read")
            }
            (_, true) => (
                collection(Write, &path.collection),
                "Microsoft.Scheduler/jobCollections/jobs/delete",
            ),
            _ => (
                collection(Write, &path.collection),
                "Microsoft.Scheduler/jobCollections/jobs/write",
            ),
        },
        Route::Run(path) => (
            collection(Operate, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/run/action",
        ),
        Route::History(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/jobHistories/read",
        ),
        Route::Occurrences(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/occurrences/read",
        ),
        Route::Explain(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/explain/read",
        ),
        Route::Preview(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/preview/action",
        ),
    }
}

/// Why somebody may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unallowed {
    /// He may not even know of it.
    Hidden(AccessScope),
    /// He may see it, and do no more.
    Forbidden(Refused),
}

/// Whether a caller may.
pub(crate) fn check(caller: &Caller, need: &Need, operation: &str) -> Result<(), Unallowed> {
    let Need::Permission(permission, place) = need else { return Ok(()) };
    if caller.may(*permission, place) {
        return Ok(());
    }
    if !caller.may(Permission::Read, place) {
        return Err(Unallowed::Hidden(place.clone()));
    }
    let role = Role::needed_for(*permission);
    let message = format!(
        "the caller may see {place} but not do {operation} there; that needs the role {role}"
    );
    Err(Unallowed::Forbidden(ErrorDetails::one(ErrorCode::AuthorizationFailed, "", message).into()))
}

impl Unallowed {
    /// Why, told to who was allowed the route itself.
    pub(crate) fn refused(self) -> Refused {
        match self {
            Unallowed::Hidden(place) => missing(&place),
            Unallowed::Forbidden(refused) => refused,
        }
    }

    /// The answer: to who may not know of a thing, that of a thing that is not there.
    pub(crate) fn answer(&self, method: &Method, version: Version) -> Answer {
        match self {
            Unallowed::Hidden(AccessScope::Group(_)) if method == Method::HEAD => {
                Answer::empty(StatusCode::NOT_FOUND)
            }
            unallowed => unallowed.clone().refused().answer(version),
        }
    }
}

fn missing(place: &AccessScope) -> Refused {
    match place {
        AccessScope::Group(path) => group_not_found(path),
        AccessScope::Collection(path) => ErrorDetail::collection_not_found(path).into(),
        AccessScope::Everything | AccessScope::Subscription(_) => {
            ErrorDetails::one(ErrorCode::ResourceNotFound, "", "there is no such resource").into()
        }
    }
}
