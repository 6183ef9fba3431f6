//! `GET /api/me` and `GET /api/node`.

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::test_server::TestServer;
use crate::tokens::{SUBSCRIPTION, code, collection, create, guarded, id, request_as};

fn get(connection: &mut Connection, token: &str, target: &str) -> Value {
    let response = request_as(connection, token, "GET", target, None);
    assert_eq!(response.status, 200, "{target}: {response:?}");
    serde_json::from_str(&response.body).unwrap()
}

fn permissions([read, write, run, pause]: [bool; 4]) -> Value {
    json!({"readJobs": read, "writeJobs": write, "runJobs": run, "pause": pause})
}

#[test]
fn the_single_user_owns_everything() {
    let server = TestServer::start();
    let response = server.connect().request("GET", "/api/me", None);
    let expected = json!({
        "id": "single-user",
        "name": "single-user",
        "authentication": "None",
        "roles": [{"role": "Owner", "scope": "/"}],
        "permissions": permissions([true, true, true, true]),
    });
    assert_eq!(serde_json::from_str::<Value>(&response.body).unwrap(), expected);
}

#[test]
fn a_caller_sees_its_roles_and_its_permissions_in_a_scope() {
    let subscription = SUBSCRIPTION.trim_start_matches("/subscriptions/");
    let (server, owner) =
        guarded(&[("KALENDS_API_SUBSCRIPTION", subscription), ("KALENDS_API_GROUP", "g")]);
    let mut connection = server.connect();
    let own = collection("g", "own");
    let operator = create(server.folder(), "operator", &own, &["--name", "night shift"]);
    let me = get(&mut connection, &operator, "/api/me");
    let expected = json!({
        "id": format!("token:{}", id(&operator)),
        "name": "night shift",
        "authentication": "Token",
        "roles": [{"role": "Operator", "scope": own}],
        "permissions": permissions([true, false, true, false]),
    });
    assert_eq!(me, expected);
    let mut in_scope = |token: &str, scope: &str| {
        let target = format!("/api/me?scope={scope}");
        get(&mut connection, token, &target)["permissions"].clone()
    };
    let here = permissions([true, false, true, false]);
    for scope in ["/api/collections/own", "/api/collections/OWN", &own, &own.to_uppercase()] {
        assert_eq!(in_scope(&operator, scope), here, "{scope}");
    }
    let nothing = permissions([false, false, false, false]);
    for scope in ["/api/collections/other", "/", SUBSCRIPTION, &collection("g2", "own")] {
        assert_eq!(in_scope(&operator, scope), nothing, "{scope}");
    }
    assert_eq!(in_scope(&owner, "/"), permissions([true, true, true, true]));
    assert_eq!(in_scope(&owner, "/api/collections/own"), permissions([true, true, true, true]));
    for scope in ["own", "/api/collections/1x", "/api/collections/own/jobs/j", "/x"] {
        let target = format!("/api/me?scope={scope}");
        let response = request_as(&mut connection, &operator, "GET", &target, None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{scope}");
    }
}

#[test]
fn only_readers_of_everything_see_the_store_and_the_allowed_destinations() {
    let (server, owner) = guarded(&[
        ("KALENDS_EGRESS_ALLOW", "10.9.8.0/24,secret-host.example"),
        ("KALENDS_HISTORY_RETENTION", "P7D"),
        ("KALENDS_OPEN_RUNS_PER_JOB", "17"),
        ("KALENDS_HOLD", "1"),
    ]);
    let mut connection = server.connect();
    let reader = create(server.folder(), "reader", "/", &[]);
    for token in [&owner, &reader] {
        let node = get(&mut connection, token, "/api/node");
        assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(node["store"]["kind"], "Sqlite");
        assert_eq!(
            (&node["store"]["healthy"], &node["store"]["reason"]),
            (&json!(true), &json!(null))
        );
        assert!(node["store"]["bytes"].as_u64().unwrap() > 4_096, "{node}");
        assert_eq!(
            node["scheduler"],
            json!({"state": "Held", "running": 0, "waiting": 0, "latenessMilliseconds": 0})
        );
        let retention = json!({"history": "P7D", "entriesPerJob": 1_000, "finishedJobs": "P60D"});
        assert_eq!(node["retention"], retention);
        let allow = json!(["10.9.8.0/24", "secret-host.example"]);
        assert_eq!(node["egress"], json!({"mode": "Guarded", "allow": allow}));
        assert_eq!(node["limits"]["openRunsPerJob"], 17);
        assert_eq!(node["echo"], json!(null));
    }
    let other = create(server.folder(), "owner", &collection("g", "own"), &[]);
    let response = request_as(&mut connection, &other, "GET", "/api/node", None);
    assert!(!response.body.contains("secret-host"), "{}", response.body);
    let node: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(node["store"], json!(null));
    assert_eq!(node["scheduler"], json!({"state": "Held"}));
    assert_eq!(node["egress"], json!({"mode": "Guarded"}));
    assert_eq!(node["limits"]["openRunsPerJob"], 17);
}

#[test]
fn a_node_with_a_scheduler_reports_it_and_its_echo_target() {
    let server = TestServer::start_working();
    let mut connection = server.connect();
    let response = connection.request("GET", "/api/node", None);
    let node: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(node["scheduler"]["state"], "Running");
    assert_eq!(node["egress"]["mode"], "SingleUser");
    assert_eq!(node["node"].as_str().unwrap().len(), 16);
    let started = node["startedAt"].as_str().unwrap();
    assert!(started.parse::<kalends_recurrence::Instant>().is_ok(), "{started}");
}
