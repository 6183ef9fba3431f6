//! Authorization: every operation of the OpenAPI document with every role in every kind of scope.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::connection::Connection;
use crate::tokens::{
    JOB, STANDARD, SUBSCRIPTION, code, collection, create, guarded, new, request_as,
};

/// The permission that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Requires {
    Nothing,
    Token,
    /// Reader with scope `/`.
    Everything,
    /// Operator with scope `/`; others know that the route exists.
    OperateEverything,
    /// A role in the group or in the collection, as its index in [`ROLES`].
    Group(usize),
    Collection(usize),
}

/// All operations, written independently of the implementation. A missing one fails the test.
const OPERATIONS: [(&str, &str, Requires); 57] = [
    ("GET", "/", Requires::Nothing),
    ("GET", "/livez", Requires::Nothing),
    ("GET", "/readyz", Requires::Nothing),
    ("GET", "/openapi.json", Requires::Nothing),
    ("GET", "/metrics", Requires::Everything),
    ("GET", "/events", Requires::Token),
    ("GET", "/api/me", Requires::Token),
    ("POST", "/api/session", Requires::Token),
    ("DELETE", "/api/session", Requires::Token),
    ("GET", "/api/node", Requires::Token),
    ("GET", "/api/runs", Requires::Token),
    ("GET", "/api/run-counts", Requires::Token),
    ("GET", "/api/jobs", Requires::Token),
    ("GET", "/api/pause", Requires::Token),
    ("POST", "/api/pause", Requires::OperateEverything),
    ("POST", "/api/resume", Requires::OperateEverything),
    ("GET", "/api/overview", Requires::Token),
    ("GET", "/api/attention", Requires::Token),
    ("GET", "/api/expected-runs", Requires::Token),
    ("GET", "/providers/Microsoft.Scheduler/operations", Requires::Token),
    ("GET", "/metadata/endpoints", Requires::Nothing),
    ("GET", "/subscriptions", Requires::Token),
    ("GET", "S", Requires::Token),
    ("GET", "S/providers/Microsoft.Scheduler", Requires::Token),
    ("POST", "S/providers/Microsoft.Scheduler/register", Requires::Token),
    ("GET", "S/resourceGroups", Requires::Token),
    ("GET", "S/providers/Microsoft.Scheduler/jobCollections", Requires::Token),
    ("GET", "G/providers/Microsoft.Scheduler/jobCollections", Requires::Token),
    ("GET", "G", Requires::Group(0)),
    ("HEAD", "G", Requires::Group(0)),
    ("PUT", "G", Requires::Group(2)),
    ("DELETE", "G", Requires::Group(3)),
    ("GET", "C", Requires::Collection(0)),
    ("PUT", "C", Requires::Collection(2)),
    ("PATCH", "C", Requires::Collection(2)),
    ("DELETE", "C", Requires::Collection(2)),
    ("POST", "C/enable", Requires::Collection(1)),
    ("POST", "C/disable", Requires::Collection(1)),
    ("GET", "C/jobs", Requires::Collection(0)),
    ("POST", "C/jobs/bulk", Requires::Collection(1)),
    ("POST", "C/jobs/preview", Requires::Collection(0)),
    ("GET", "C/jobs/J", Requires::Collection(0)),
    ("PUT", "C/jobs/J", Requires::Collection(2)),
    ("PATCH", "C/jobs/J", Requires::Collection(2)),
    ("DELETE", "C/jobs/J", Requires::Collection(2)),
    ("POST", "C/jobs/J/run", Requires::Collection(1)),
    ("POST", "C/jobs/J/skip", Requires::Collection(1)),
    ("DELETE", "C/jobs/J/skip", Requires::Collection(1)),
    ("GET", "C/jobs/J/history", Requires::Collection(0)),
    ("GET", "C/jobs/J/occurrences", Requires::Collection(0)),
    ("GET", "C/jobs/J/explain", Requires::Collection(0)),
    ("GET", "C/jobs/J/statistics", Requires::Collection(0)),
    ("GET", "C/jobs/J/definitions/1", Requires::Collection(0)),
    ("GET", "C/jobs/J/notes", Requires::Collection(0)),
    ("GET", "/api/notes", Requires::Token),
    ("POST", "C/jobs/J/preview", Requires::Collection(0)),
    ("POST", "C/jobs/J/test-run", Requires::Collection(2)),
];

const ROLES: [&str; 4] = ["reader", "operator", "contributor", "owner"];

/// Scopes, and whether each covers the group and the collection of the test.
fn scopes() -> [(String, bool, bool); 8] {
    let group = format!("{SUBSCRIPTION}/resourceGroups/g");
    [
        ("/".into(), true, true),
        (SUBSCRIPTION.to_uppercase(), true, true),
        (group.to_uppercase().replace("/RESOURCEGROUPS", "/resourceGroups"), true, true),
        (collection("G", "C"), false, true),
        ("/subscriptions/00000000-0000-0000-0000-000000000000".into(), false, false),
        (format!("{group}2"), false, false),
        (collection("g", "c2"), false, false),
        (collection("g2", "c"), false, false),
    ]
}

/// A path of the document, in the short form of [`OPERATIONS`] and as requested.
fn path(template: &str) -> (String, String) {
    let real = template
        .replace("{subscriptionId}", "6c55a6f0-6593-472f-9b3e-a51a9a757b40")
        .replace("{resourceGroupName}", "g")
        .replace("{jobCollectionName}", "c")
        .replace("{jobName}", "j")
        .replace("{generation}", "1");
    assert!(!real.contains('{'), "{template}: unknown parameter");
    let group = format!("{SUBSCRIPTION}/resourceGroups/g");
    let collections = "/providers/Microsoft.Scheduler/jobCollections";
    let short = real
        .replace("/api/collections", &format!("{group}{collections}"))
        .replace("/resourcegroups/g", "/resourceGroups/g")
        .replace(&collection("g", "c"), "C")
        .replace(&group, "G")
        .replace(SUBSCRIPTION, "S")
        .replace("/j/", "/J/");
    let short = short.strip_suffix("/j").map(|start| format!("{start}/J")).unwrap_or(short);
    (short, real)
}

fn create_resources(connection: &mut Connection, owner: &str) {
    let (scope, job) = (collection("g", "c"), format!("{}/jobs/j", collection("g", "c")));
    assert_eq!(request_as(connection, owner, "PUT", &new(&scope), Some(STANDARD)).status, 201);
    assert_eq!(request_as(connection, owner, "PUT", &new(&job), Some(JOB)).status, 201);
}

/// Sends a request that changes nothing even if it is allowed: with a truncated body, or with an ETag
/// that does not match.
fn probe(
    connection: &mut Connection,
    token: Option<&str>,
    method: &str,
    path: &str,
) -> (u16, String) {
    let bearer = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
    let mut headers = vec![("Authorization", bearer.as_str())];
    if method == "DELETE" {
        headers.push(("If-Match", "\"0\""));
    }
    let has_body = matches!(method, "PUT" | "PATCH")
        || ["/bulk", "/preview", "/api/pause"].iter().any(|end| path.ends_with(end));
    // An invalid id ends an allowed event stream immediately.
    let wrong = if path == "/events" { "&lastEventId=none" } else { "" };
    let target = format!("{}{wrong}", new(path));
    let response = connection.request_with(method, &target, &headers, has_body.then_some("{"));
    (response.status, response.body)
}

#[test]
fn every_operation_is_allowed_exactly_for_the_documented_roles_and_scopes() {
    let (server, owner) = guarded(&[
        ("KALENDS_FAILURES_PER_MINUTE", "100000"),
        ("KALENDS_API_SUBSCRIPTION", SUBSCRIPTION.trim_start_matches("/subscriptions/")),
        ("KALENDS_API_GROUP", "g"),
    ]);
    let mut connection = server.connect();
    create_resources(&mut connection, &owner);
    let document = connection.request("GET", "/openapi.json", None).body;
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut operations = Vec::new();
    let mut seen = BTreeSet::new();
    for (template, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase());
        for method in methods.filter(|method| method != "PARAMETERS") {
            let (short, real) = path(template);
            let operation =
                OPERATIONS.iter().find(|operation| (operation.0, operation.1) == (&method, &short));
            let operation =
                operation.unwrap_or_else(|| panic!("add {method} {short} to OPERATIONS"));
            seen.insert((operation.0, operation.1));
            operations.push((method, real, operation.2));
        }
    }
    assert_eq!(seen.len(), OPERATIONS.len(), "an operation is missing in the document");

    for (method, path, requires) in &operations {
        let (status, _) = probe(&mut connection, None, method, path);
        assert_eq!(status == 401, *requires != Requires::Nothing, "{method} {path}: {status}");
    }
    for (scope, covers_group, covers_collection) in scopes() {
        for (rank, role) in ROLES.into_iter().enumerate() {
            let token = create(server.folder(), role, &scope, &[]);
            for (method, path, requires) in &operations {
                let (status, body) = probe(&mut connection, Some(&token), method, path);
                let (covers, required) = match requires {
                    Requires::Nothing | Requires::Token => (true, 0),
                    Requires::Everything => (scope == "/", 0),
                    Requires::OperateEverything => (true, if scope == "/" { 1 } else { 4 }),
                    Requires::Group(required) => (covers_group, *required),
                    Requires::Collection(required) => (covers_collection, *required),
                };
                let context = format!("{role} of {scope}: {method} {path}: {status} {body}");
                match (covers, rank >= required) {
                    (false, _) => assert_eq!(status, 404, "{context}"),
                    (true, false) => assert_eq!(status, 403, "{context}"),
                    (true, true) => {
                        assert!(
                            matches!(status, 200 | 201 | 204 | 400 | 409 | 412 | 415),
                            "{context}"
                        );
                    }
                }
                if status == 200 && method == "DELETE" {
                    create_resources(&mut connection, &owner);
                }
            }
        }
    }
    let refused = request_as(&mut connection, &owner, "GET", &new(&collection("g", "c3")), None);
    assert_eq!(code(&refused).0, 404);
}
