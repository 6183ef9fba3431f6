//! Authentication: with and without tokens, on loopback and other addresses.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::connection::Connection;
use crate::test_server::TestServer;
use crate::tokens::{
    JOB, STANDARD, SUBSCRIPTION, code, collection, create, guarded, id, kalends_token, new,
    request_as,
};

fn list() -> String {
    new(&format!("{SUBSCRIPTION}/providers/Microsoft.Scheduler/jobCollections"))
}

#[test]
fn a_single_user_server_accepts_requests_without_and_with_any_token() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let response = connection.request("GET", &list(), None);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-ms-ratelimit-remaining-subscription-reads"), None);
    assert_eq!(request_as(&mut connection, "whatever", "GET", &list(), None).status, 200);
    let two = [("Authorization", "Bearer a"), ("authorization", "x")];
    assert_eq!(connection.request_with("GET", &list(), &two, None).status, 200);
}

#[test]
fn with_a_token_in_the_store_all_paths_except_health_require_authentication() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    for path in ["/sign-in", "/livez", "/readyz", "/openapi.json"] {
        assert_eq!(connection.request("GET", path, None).status, 200, "{path}");
    }
    for path in [&list(), "/nowhere", "/providers/Microsoft.Scheduler/operations", "/%ff"] {
        let response = connection.request("GET", path, None);
        assert_eq!(code(&response), (401, "AuthenticationFailed".into()), "{path}");
        assert_eq!(response.header("WWW-Authenticate"), Some("Bearer"), "{path}");
    }
    let response = request_as(&mut connection, &owner, "GET", &list(), None);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-ms-ratelimit-remaining-subscription-reads"), Some("11999"));
    assert_eq!(request_as(&mut connection, &owner, "GET", "/nowhere", None).status, 404);
    let put =
        request_as(&mut connection, &owner, "PUT", &new(&collection("g", "c")), Some(STANDARD));
    assert_eq!(put.status, 201);
    assert_eq!(put.header("x-ms-ratelimit-remaining-subscription-writes"), Some("1199"));
}

#[test]
fn invalid_tokens_are_refused() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let last = if owner.ends_with('A') { "B" } else { "A" };
    let wrong = format!("{}{last}", &owner[..owner.len() - 1]);
    let other = owner.replace(id(&owner), "0123456789abcdef");
    let long = "x".repeat(9_000);
    for token in ["", "a b", "x", &wrong, &other, &long, "a.b.c", &owner.to_uppercase()] {
        let response = request_as(&mut connection, token, "GET", &list(), None);
        assert_eq!(code(&response), (401, "InvalidAuthenticationToken".into()), "{token}");
        let challenge = response.header("WWW-Authenticate");
        assert_eq!(challenge, Some("Bearer error=\"invalid_token\""), "{token}");
    }
    let basic = [("Authorization", "Basic dTpw")];
    assert_eq!(connection.request_with("GET", &list(), &basic, None).status, 401);
    let right = format!("Bearer {owner}");
    let two = [("Authorization", right.as_str()), ("authorization", &right)];
    let response = connection.request_with("GET", &list(), &two, None);
    assert_eq!(code(&response), (400, "InvalidRequest".into()));
}

/// Repeats a request until it returns this status. The server notices token changes within seconds.
fn wait_for(connection: &mut Connection, token: &str, status: u16) {
    for _ in 0..600 {
        if request_as(connection, token, "GET", &list(), None).status == status {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the status did not become {status}");
}

#[test]
fn tokens_are_created_and_revoked_while_the_server_runs() {
    let (server, owner) = guarded(&[("KALENDS_FAILURES_PER_MINUTE", "100000")]);
    let mut connection = server.connect();
    let token = create(server.folder(), "reader", SUBSCRIPTION, &["--name", "for a while"]);
    assert_eq!(request_as(&mut connection, &token, "GET", &list(), None).status, 200);
    let listed = |word: &str| -> usize {
        let output = kalends_token(server.folder(), &["list"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("for a while"));
        line.unwrap_or_else(|| panic!("{text}")).matches(word).count()
    };
    // "never" is the last use of an unused token and the expiration of this one. The server records
    // the use after it has responded.
    let is_recorded = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        listed("never") == 1
    });
    assert!(is_recorded);
    assert!(kalends_token(server.folder(), &["revoke", id(&token)]).status.success());
    wait_for(&mut connection, &token, 401);
    assert_eq!(listed("revoked"), 1);
    assert!(kalends_token(server.folder(), &["revoke", "--delete", id(&token)]).status.success());
    assert!(!kalends_token(server.folder(), &["revoke", id(&token)]).status.success());
    assert_eq!(request_as(&mut connection, &owner, "GET", &list(), None).status, 200);
}

#[test]
fn listing_and_revoking_tokens_creates_no_store() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["list"][..], &["revoke", "0123456789abcdef"]] {
        let output = kalends_token(folder.path(), arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains("there is no file"), "{text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_expired_token_returns_its_own_error_code() {
    let (server, _) = guarded(&[]);
    let mut connection = server.connect();
    let token = create(server.folder(), "reader", "/", &["--expires", "PT0.5S"]);
    wait_for(&mut connection, &token, 401);
    let response = request_as(&mut connection, &token, "GET", &list(), None);
    assert_eq!(code(&response), (401, "ExpiredAuthenticationToken".into()));
    let past = kalends_token(
        server.folder(),
        &["create", "--role", "reader", "--scope", "/", "--expires", "2020-01-01"],
    );
    assert!(String::from_utf8(past.stderr).unwrap().contains("is in the past"));
    for expires in ["90d", "12h", "2w", "30min", "P90D"] {
        let token = create(server.folder(), "reader", "/", &["--expires", expires]);
        assert_eq!(request_as(&mut connection, &token, "GET", &list(), None).status, 200);
    }
    let wrong = kalends_token(
        server.folder(),
        &["create", "--role", "reader", "--scope", "/", "--expires", "someday"],
    );
    let message = String::from_utf8(wrong.stderr).unwrap();
    assert!(message.contains("--expires must be a time such as 2027-01-01"), "{message}");
    assert!(message.contains("(found \"someday\")"), "{message}");
}

#[test]
fn a_token_can_be_set_by_environment_variable() {
    let token = "correct-horse-battery";
    let server = TestServer::start_with(|command, _| {
        command.env("KALENDS_TOKEN", token);
    });
    let mut connection = server.connect();
    assert_eq!(connection.request("GET", &list(), None).status, 401);
    assert_eq!(
        request_as(&mut connection, "correct-horse-batterz", "GET", &list(), None).status,
        401
    );
    assert_eq!(request_as(&mut connection, token, "GET", &list(), None).status, 200);
    // No file contains the token.
    for entry in std::fs::read_dir(server.folder()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(token));
    }
}

#[test]
fn all_nodes_share_the_tokens_of_a_database() {
    let Ok(database) = std::env::var("KALENDS_TEST_POSTGRES") else {
        eprintln!("SKIPPED: no KALENDS_TEST_POSTGRES; see scripts/with-postgres");
        return;
    };
    let key = ("KALENDS_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let kalends = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
        command.arg("token").args(arguments).args(["--store", &database]).env(key.0, key.1);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let create = || kalends(&["create", "--role", "reader", "--scope", "/"]);
    let first = create();
    let start = || {
        TestServer::start_in(&database, |command| {
            command.env(key.0, key.1).env("KALENDS_AUDIT_LOG", "off");
        })
    };
    let nodes = [start(), start()];
    let second = create();
    for node in &nodes {
        let mut connection = node.connect();
        assert_eq!(connection.request("GET", &list(), None).status, 401);
        assert_eq!(request_as(&mut connection, &first, "GET", &list(), None).status, 200);
        assert_eq!(request_as(&mut connection, &second, "GET", &list(), None).status, 200);
    }
    assert!(kalends(&["list"]).contains(id(&second)));
    kalends(&["revoke", id(&second)]);
    for node in &nodes {
        wait_for(&mut node.connect(), &second, 401);
    }
    for token in [first, second] {
        kalends(&["revoke", "--forget", id(&token)]);
    }
}

#[track_caller]
pub(crate) fn check_refuses_to_start(
    arguments: &[&str],
    environment: &[(&str, &str)],
    message: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("kalends.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.args(["serve", "--store", &store]).args(arguments);
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(message), "{text}");
}

#[test]
fn without_authentication_the_server_refuses_to_listen_beyond_loopback() {
    let remedy = "kalends token create --role owner --scope /";
    check_refuses_to_start(&["--listen", "0.0.0.0:0"], &[], remedy);
    check_refuses_to_start(&["--listen", "[::]:0"], &[], remedy);
    check_refuses_to_start(&["--listen", "127.0.0.1:0", "--host", "jobs.example.org"], &[], remedy);
    let short = [("KALENDS_TOKEN", "fifteen-letters")];
    check_refuses_to_start(&["--listen", "127.0.0.1:0"], &short, "at least 16");
}

#[test]
fn beyond_loopback_the_server_accepts_only_its_host_names() {
    let token = "correct-horse-battery";
    let server = TestServer::listen_on("0.0.0.0:0", |command, _| {
        command.env("KALENDS_TOKEN", token).env("KALENDS_HOST", "jobs.example.org,other.example");
    });
    let mut address = server.address;
    address.set_ip([127, 0, 0, 1].into());
    let mut connection = Connection::new(address);
    for (host, status) in [
        ("jobs.example.org", 200),
        ("OTHER.example:8443", 200),
        ("127.0.0.1", 200),
        ("evil.test", 421),
        ("jobs.example.org.evil.test", 421),
    ] {
        let headers = [("Host", host), ("Authorization", &format!("Bearer {token}"))];
        let response = connection.request_with("GET", &list(), &headers, None);
        assert_eq!(response.status, status, "{host}");
    }
}

#[test]
fn lists_contain_only_resources_the_caller_can_read() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    for path in [("g", "a"), ("g", "b"), ("g", "c"), ("h", "a"), ("i", "z")] {
        let put = new(&collection(path.0, path.1));
        assert_eq!(request_as(&mut connection, &owner, "PUT", &put, Some(STANDARD)).status, 201);
    }
    let group = |name: &str| format!("{SUBSCRIPTION}/resourceGroups/{name}");
    let of_group = create(server.folder(), "reader", &group("G"), &[]);
    let of_collection = create(server.folder(), "owner", &collection("h", "A"), &[]);
    let elsewhere = create(
        server.folder(),
        "owner",
        "/subscriptions/00000000-0000-0000-0000-000000000000",
        &[],
    );
    let mut names = |token: &str, path: &str| {
        let (mut names, mut next) = (vec![], new(path) + "&%24top=2");
        loop {
            let response = request_as(&mut connection, token, "GET", &next, None);
            assert_eq!(response.status, 200, "{response:?}");
            let page: Value = serde_json::from_str(&response.body).unwrap();
            for one in page["value"].as_array().unwrap() {
                names.push(one["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
            }
            let Some(link) = page["nextLink"].as_str() else { return names.join(" ") };
            next = link.split_once("/subscriptions").map(|(_, rest)| rest).unwrap().to_owned();
            next.insert_str(0, "/subscriptions");
        }
    };
    let collections = format!("{SUBSCRIPTION}/providers/Microsoft.Scheduler/jobCollections");
    let in_group =
        |name: &str| format!("{}/providers/Microsoft.Scheduler/jobCollections", group(name));
    assert_eq!(names(&owner, &collections), "a b c a z");
    assert_eq!(names(&of_group, &collections), "a b c");
    assert_eq!(names(&of_collection, &collections), "a");
    assert_eq!(names(&elsewhere, &collections), "");
    assert_eq!(names(&of_group, &in_group("g")), "a b c");
    assert_eq!(names(&of_group, &in_group("h")), "");
    assert_eq!(names(&of_collection, &in_group("h")), "a");
    let groups = format!("{SUBSCRIPTION}/resourceGroups");
    assert_eq!(names(&owner, &groups), "g h i");
    assert_eq!(names(&of_group, &groups), "g");
    assert_eq!(names(&of_collection, &groups), "");
    let old = format!("{collections}?api-version=2016-03-01");
    let response = request_as(&mut connection, &of_group, "GET", &old, None);
    assert_eq!(response.body.matches("\"type\"").count(), 3, "{}", response.body);
}

#[test]
fn a_next_link_is_valid_only_for_its_caller() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    for name in ["a", "b"] {
        let put = new(&collection("g", name));
        assert_eq!(request_as(&mut connection, &owner, "PUT", &put, Some(STANDARD)).status, 201);
    }
    let response = request_as(&mut connection, &owner, "GET", &(list() + "&%24top=1"), None);
    let page: Value = serde_json::from_str(&response.body).unwrap();
    let next = page["nextLink"].as_str().unwrap();
    let next = &next[next.find("/subscriptions").unwrap()..];
    assert_eq!(request_as(&mut connection, &owner, "GET", next, None).status, 200);
    let other = create(server.folder(), "reader", "/", &[]);
    let response = request_as(&mut connection, &other, "GET", next, None);
    assert_eq!(code(&response), (400, "InvalidQueryParameter".into()));
}

#[test]
fn resources_the_caller_cannot_read_return_404() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let (there, nowhere) = (collection("g", "there"), collection("g", "nowhere"));
    assert_eq!(
        request_as(&mut connection, &owner, "PUT", &new(&there), Some(STANDARD)).status,
        201
    );
    let job = format!("{there}/jobs/j");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&job), Some(JOB)).status, 201);
    let stranger = create(server.folder(), "owner", &collection("g", "own"), &[]);
    let group = format!("{SUBSCRIPTION}/resourceGroups/g");
    for version in ["2026-11-01", "2016-03-01"] {
        for (method, tail) in
            [("GET", ""), ("HEAD", ""), ("DELETE", ""), ("GET", "/jobs"), ("GET", "/jobs/j")]
                .into_iter()
                .chain([("GET", "/jobs/j/history"), ("POST", "/jobs/j/run"), ("POST", "/enable")])
        {
            let mut respond = |token: &str, place: &str| {
                let target = format!("{place}{tail}?api-version={version}");
                let response = request_as(&mut connection, token, method, &target, None);
                let cause = response.header("x-ms-failure-cause").map(str::to_owned);
                let length = response.header("Content-Length").map(str::to_owned);
                (response.status, response.body, cause, length)
            };
            let (hidden, absent) = (respond(&stranger, &there), respond(&stranger, &nowhere));
            let missing = respond(&owner, &nowhere);
            let named = (missing.0, missing.1.replace("nowhere", "there"));
            assert_eq!((hidden.0, hidden.1), named, "{method} {tail}");
            assert_eq!(absent, missing, "{method} {tail}");
        }
        for method in ["GET", "HEAD", "DELETE"] {
            let target = |group: &str| format!("{group}?api-version={version}");
            let nowhere = target(&format!("{SUBSCRIPTION}/resourceGroups/nowhere"));
            let hidden = request_as(&mut connection, &stranger, method, &target(&group), None);
            let missing = request_as(&mut connection, &owner, method, &nowhere, None);
            assert_eq!(hidden.status, 404);
            assert_eq!(hidden.body, missing.body.replace("nowhere", "g"), "{method}");
        }
    }
    assert_eq!(request_as(&mut connection, &owner, "GET", &new(&job), None).status, 200);
}

#[test]
fn a_bulk_delete_requires_a_higher_role_than_a_bulk_enable() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let operator = create(server.folder(), "operator", &path, &[]);
    let bulk = new(&format!("{path}/jobs/bulk"));
    let mut bulk = |token: &str, action: &str| {
        let body = format!(r#"{{"action":"{action}","filter":"state eq Enabled"}}"#);
        request_as(&mut connection, token, "POST", &bulk, Some(&body))
    };
    assert_eq!(bulk(&operator, "Disable").status, 200);
    let response = bulk(&operator, "Delete");
    assert_eq!(code(&response), (403, "AuthorizationFailed".into()));
    assert!(response.body.contains("contributor"), "{}", response.body);
    assert_eq!(bulk(&owner, "Delete").status, 200);
}

#[test]
fn a_reader_cannot_guess_a_secret_with_previews() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let guess = |password: &str| {
        let basic = format!(r#"{{"type":"Basic","username":"u","password":"{password}"}}"#);
        JOB.replace(r#""method""#, &format!(r#""authentication":{basic},"method""#))
    };
    let job = format!("{path}/jobs/j");
    let created = request_as(&mut connection, &owner, "PUT", &new(&job), Some(&guess("hunter2")));
    assert_eq!(created.status, 201, "{created:?}");
    let operator = create(server.folder(), "operator", &path, &[]);
    let preview = new(&format!("{job}/preview"));
    let mut effect = |token: &str, password: &str| {
        let response = request_as(&mut connection, token, "POST", &preview, Some(&guess(password)));
        let body: Value = serde_json::from_str(&response.body).unwrap();
        body["effect"].as_str().unwrap_or_else(|| panic!("{response:?}")).to_owned()
    };
    assert_eq!(effect(&owner, "hunter2"), "Nothing");
    assert_eq!(effect(&owner, "hunter3"), "Replace");
    assert_eq!(effect(&operator, "hunter2"), "Replace");
    assert_eq!(effect(&operator, "hunter3"), "Replace");
}
