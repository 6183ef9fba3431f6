//! Authorization: one table of the permission that each route requires, and one check against it.
//!
//! The check runs before any lookup. Resources that the caller cannot read return 404 whether they
//! exist or not.

use http::Method;
use kalends_domain::{AccessScope, Permission, Role};
use kalends_wire::{ErrorCode, ErrorDetail, ErrorDetails};

use crate::access::Caller;
use crate::resources::group_not_found;
use crate::response::ApiError;
use crate::route::Route;

/// The requirement of a request on its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// No token: the response is the same for all callers and reveals nothing stored.
    Nothing,
    /// A valid token with any grant: the response holds only what the caller may read.
    Token,
    /// The same for a page: a caller without a token or session is led to the sign-in page.
    Page,
    /// A permission in a scope.
    Permission(Permission, AccessScope),
}

impl Requirement {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Requirement::Permission(permission, _) if *permission > Permission::Read)
    }
}

/// The requirement of a route, and the Azure operation name for the audit log and for 403 messages.
pub(crate) fn requirement(route: &Route, method: &Method) -> (Requirement, &'static str) {
    use Permission::{Operate, Own, Read, Write};
    let collection = |permission, path: &kalends_domain::CollectionPath| {
        Requirement::Permission(permission, AccessScope::Collection(path.clone()))
    };
    let reads = method.is_safe();
    let deletes = method == Method::DELETE;
    match route {
        Route::Asset(_) | Route::Live | Route::Ready | Route::OpenApi => {
            (Requirement::Nothing, "read")
        }
        Route::Console(screen) if screen.is_public() => (Requirement::Nothing, "read"),
        // The requests that a page makes have requirements of their own.
        Route::Console(_) => (Requirement::Page, "read"),
        Route::MetadataEndpoints => (Requirement::Nothing, "Microsoft.Resources/metadata/read"),
        Route::Subscriptions | Route::Subscription(_) => {
            (Requirement::Token, "Microsoft.Resources/subscriptions/read")
        }
        Route::Me => (Requirement::Token, "Microsoft.Scheduler/me/read"),
        // The responses cover the collections that the caller may read.
        Route::Runs => (Requirement::Token, "Microsoft.Scheduler/runs/read"),
        Route::RunCounts => (Requirement::Token, "Microsoft.Scheduler/runCounts/read"),
        // The handler leaves out what only readers of everything may see.
        Route::Node => (Requirement::Token, "Microsoft.Scheduler/node/read"),
        Route::SignIn(_) => (Requirement::Nothing, "Microsoft.Scheduler/sessions/write"),
        Route::Session if deletes => (Requirement::Token, "Microsoft.Scheduler/sessions/delete"),
        Route::Session => (Requirement::Token, "Microsoft.Scheduler/sessions/write"),
        // Each subscriber receives the events of the collections that it may read.
        Route::Events => (Requirement::Token, "Microsoft.Scheduler/events/read"),
        // Every caller may know why nothing runs.
        Route::Pause if reads => (Requirement::Token, "Microsoft.Scheduler/pause/read"),
        Route::Pause => (
            Requirement::Permission(Operate, AccessScope::Everything),
            "Microsoft.Scheduler/pause/action",
        ),
        Route::Resume => (
            Requirement::Permission(Operate, AccessScope::Everything),
            "Microsoft.Scheduler/resume/action",
        ),
        Route::Metrics => (
            Requirement::Permission(Read, AccessScope::Everything),
            "Microsoft.Scheduler/metrics/read",
        ),
        Route::Operations => (Requirement::Token, "Microsoft.Scheduler/operations/read"),
        Route::Provider { .. } => (Requirement::Token, "Microsoft.Scheduler/read"),
        Route::Register { .. } => (Requirement::Token, "Microsoft.Scheduler/register/action"),
        Route::Groups { .. } => {
            (Requirement::Token, "Microsoft.Resources/subscriptions/resourceGroups/read")
        }
        Route::CollectionsOfSubscription(_) | Route::CollectionsOfGroup(_) => {
            (Requirement::Token, "Microsoft.Scheduler/jobCollections/read")
        }
        Route::Group(path) => {
            let group =
                |permission| Requirement::Permission(permission, AccessScope::Group(path.clone()));
            match (reads, deletes) {
                (true, _) => (group(Read), "Microsoft.Resources/subscriptions/resourceGroups/read"),
                (_, true) => {
                    (group(Own), "Microsoft.Resources/subscriptions/resourceGroups/delete")
                }
                _ => (group(Write), "Microsoft.Resources/subscriptions/resourceGroups/write"),
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
        Route::Overview | Route::Attention => {
            (Requirement::Token, "Microsoft.Scheduler/overview/read")
        }
        Route::ExpectedRuns => (Requirement::Token, "Microsoft.Scheduler/expectedRuns/read"),
        // Each caller receives the jobs of the collections that it may read.
        Route::AllJobs => (Requirement::Token, "Microsoft.Scheduler/jobCollections/jobs/read"),
        Route::Jobs(path) => {
            (collection(Read, path), "Microsoft.Scheduler/jobCollections/jobs/read")
        }
        // The handler checks the additional permission of a bulk delete, which is in the body.
        Route::Bulk(path) => {
            (collection(Operate, path), "Microsoft.Scheduler/jobCollections/jobs/bulk/action")
        }
        Route::BulkPreview(path) => {
            (collection(Read, path), "Microsoft.Scheduler/jobCollections/jobs/preview/action")
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
        Route::Skip(path) => (
            collection(Operate, &path.collection),
            match *method == Method::DELETE {
                true => "Microsoft.Scheduler/jobCollections/jobs/skip/delete",
                false => "Microsoft.Scheduler/jobCollections/jobs/skip/action",
            },
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
        // Sends the stored secrets of the job, as saving and running it would.
        Route::TestRun(path) => (
            collection(Write, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/testRun/action",
        ),
        Route::Statistics(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/statistics/read",
        ),
        Route::Definition { job, .. } => (
            collection(Read, &job.collection),
            "Microsoft.Scheduler/jobCollections/jobs/definitions/read",
        ),
        Route::NotesOfJob(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/notes/read",
        ),
        // The list has the notes of the collections that the caller may read.
        Route::Notes => (Requirement::Token, "Microsoft.Scheduler/notes/read"),
        Route::Preview(path) => (
            collection(Read, &path.collection),
            "Microsoft.Scheduler/jobCollections/jobs/preview/action",
        ),
    }
}

/// Checks that a caller meets a requirement. The error is 404 where the caller may not read the
/// scope, and 403 otherwise.
pub(crate) fn check(
    caller: &Caller,
    requirement: &Requirement,
    operation: &str,
) -> Result<(), ApiError> {
    let Requirement::Permission(permission, scope) = requirement else { return Ok(()) };
    if caller.may(*permission, scope) {
        return Ok(());
    }
    let role = Role::needed_for(*permission);
    let message = match (caller.may(Permission::Read, scope), scope) {
        (true, _) => {
            format!("The caller may read {scope}, but {operation} requires the role {role} there")
        }
        // The existence of everything is no secret.
        (false, AccessScope::Everything) if requirement.is_write() => {
            format!("{operation} requires the role {role} of {scope}")
        }
        (false, _) => return Err(not_found(scope)),
    };
    Err(ErrorDetails::one(ErrorCode::AuthorizationFailed, "", message).into())
}

/// The error of a scope that does not exist.
fn not_found(scope: &AccessScope) -> ApiError {
    match scope {
        AccessScope::Group(path) => group_not_found(path),
        AccessScope::Collection(path) => ErrorDetail::collection_not_found(path).into(),
        AccessScope::Everything | AccessScope::Subscription(_) => {
            ErrorDetails::one(ErrorCode::ResourceNotFound, "", "The resource was not found").into()
        }
    }
}
