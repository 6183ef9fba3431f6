//! Who may do what: every operation that the OpenAPI document tells of, by every role, held in every
//! kind of place.

use serde_json::Value;

use crate::connection::Connection;
use crate::tokens::{JOB, STANDARD, SUBSCRIPTION, ask, code, collection, create, guarded, new};

/// What an operation needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Nothing,
    Token,
    /// To read everything.
    Everything,
    /// The rank of a role, from 0 for a reader, in the group or in the collection.
    Group(usize),
    Collection(usize),
}

/// The operations, told once more and by hand. One that is missing here fails the test.
const OPERATIONS: [(&str, &str, Needs); 33] = [
    ("GET", "/", Needs::Nothing),
    ("GET", "/livez", Needs::Nothing),
    ("GET", "/readyz", Needs::Nothing),
    ("GET", "/openapi.json", Needs::Nothing),
    ("GET", "/metrics", Needs::Everything),
    ("GET", "/events", Needs::Token),
    ("GET", "/providers/Microsoft.Scheduler/operations", Needs::Token),
    ("GET", "S/providers/Microsoft.Scheduler", Needs::Token),
    ("POST", "S/providers/Microsoft.Scheduler/register", Needs::Token),
    ("GET", "S/resourceGroups", Needs::Token),
    ("GET", "S/providers/Microsoft.Scheduler/jobCollections", Needs::Token),
    ("GET", "G/providers/Microsoft.Scheduler/jobCollections", Needs::Token),
    ("GET", "G", Needs::Group(0)),
    ("HEAD", "G", Needs::Group(0)),
    ("PUT", "G", Needs::Group(2)),
    ("DELETE", "G", Needs::Group(3)),
    ("GET", "C", Needs::Collection(0)),
    ("PUT", "C", Needs::Collection(2)),
    ("PATCH", "C", Needs::Collection(2)),
    ("DELETE", "C", Needs::Collection(2)),
    ("POST", "C/enable", Needs::Collection(1)),
    ("POST", "C/disable", Needs::Collection(1)),
    ("GET", "C/jobs", Needs::Collection(0)),
    ("POST", "C/jobs/bulk", Needs::Collection(1)),
    ("GET", "C/jobs/J", Needs::Collection(0)),
    ("PUT", "C/jobs/J", Needs::Collection(2)),
    ("PATCH", "C/jobs/J", Needs::Collection(2)),
    ("DELETE", "C/jobs/J", Needs::Collection(2)),
    ("POST", "C/jobs/J/run", Needs::Collection(1)),
    ("GET", "C/jobs/J/history", Needs::Collection(0)),
    ("GET", "C/jobs/J/occurrences", Needs::Collection(0)),
    ("GET", "C/jobs/J/explain", Needs::Collection(0)),
    ("POST", "C/jobs/J/preview", Needs::Collection(0)),
];

const ROLES: [&str; 4] = ["reader", "operator", "contributor", "owner"];

/// Where a role is held, and whether that covers the group and the collection of the test.
fn places() -> [(String, bool, bool); 8] {
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

/// A path of the document in the short form of the table, and as it is asked for.
fn path(template: &str) -> (String, String) {
    let real = template
        .replace("{subscriptionId}", "6c55a6f0-6593-472f-9b3e-a51a9a757b40")
        .replace("{resourceGroupName}", "g")
        .replace("{jobCollectionName}", "c")
        .replace("{jobName}", "j");
    assert!(!real.contains('{'), "{template}: what is that?");
    let group = format!("{SUBSCRIPTION}/resourceGroups/g");
    let short = real
        .replace("/resourcegroups/g", "/resourceGroups/g")
        .replace(&collection("g", "c"), "C")
        .replace(&group, "G")
        .replace(SUBSCRIPTION, "S")
        .replace("/j/", "/J/");
    let short = short.strip_suffix("/j").map(|start| format!("{start}/J")).unwrap_or(short);
    (short, real)
}

fn make(connection: &mut Connection, owner: &str) {
    let (place, job) = (collection("g", "c"), format!("{}/jobs/j", collection("g", "c")));
    assert_eq!(ask(connection, owner, "PUT", &new(&place), Some(STANDARD)).status, 201);
    assert_eq!(ask(connection, owner, "PUT", &new(&job), Some(JOB)).status, 201);
}

/// Asks so that who is allowed to changes nothing: with half a body, or of a version that there
/// never was.
fn try_it(
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
    let has_body =
        matches!(method, "PUT" | "PATCH") || path.ends_with("/bulk") || path.ends_with("/preview");
    // Who is allowed to follow events is not to wait for any.
    let wrong = if path == "/events" { "&lastEventId=none" } else { "" };
    let target = format!("{}{wrong}", new(path));
    let answer = connection.ask_with(method, &target, &headers, has_body.then_some("{"));
    (answer.status, answer.body)
}

#[test]
fn every_operation_is_allowed_to_whom_it_should_be_and_to_nobody_else() {
    let (server, owner) = guarded(&[("KALENDS_FAILURES_PER_MINUTE", "100000")]);
    let mut connection = server.connect();
    make(&mut connection, &owner);
    let document = connection.ask("GET", "/openapi.json", None).body;
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut operations = Vec::new();
    for (template, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase());
        for method in methods.filter(|method| method != "PARAMETERS") {
            let (short, real) = path(template);
            let known = OPERATIONS.iter().find(|known| (known.0, known.1) == (&method, &short));
            let known = known.unwrap_or_else(|| panic!("say who may do {method} {short}"));
            operations.push((method, real, known.2));
        }
    }
    assert_eq!(operations.len(), OPERATIONS.len(), "the document has lost an operation");

    for (method, path, needs) in &operations {
        let (status, _) = try_it(&mut connection, None, method, path);
        assert_eq!(status == 401, *needs != Needs::Nothing, "{method} {path}: {status}");
    }
    for (place, covers_group, covers_collection) in places() {
        for (rank, role) in ROLES.into_iter().enumerate() {
            let token = create(server.folder(), role, &place, &[]);
            for (method, path, needs) in &operations {
                let (status, body) = try_it(&mut connection, Some(&token), method, path);
                let (covers, needed) = match needs {
                    Needs::Nothing | Needs::Token => (true, 0),
                    Needs::Everything => (place == "/", 0),
                    Needs::Group(needed) => (covers_group, *needed),
                    Needs::Collection(needed) => (covers_collection, *needed),
                };
                let what = format!("{role} of {place}: {method} {path}: {status} {body}");
                match (covers, rank >= needed) {
                    (false, _) => assert_eq!(status, 404, "{what}"),
                    (true, false) => assert_eq!(status, 403, "{what}"),
                    (true, true) => {
                        assert!(matches!(status, 200 | 204 | 400 | 412), "{what}");
                    }
                }
                if status == 200 && method == "DELETE" {
                    make(&mut connection, &owner);
                }
            }
        }
    }
    let refused = ask(&mut connection, &owner, "GET", &new(&collection("g", "c3")), None);
    assert_eq!(code(&refused).0, 404);
}
