//! Sessions of the web console: sign-in with a token, the cookie, and protection against other pages.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::connection::{Connection, Response};
use crate::test_server::{TestServer, clock_library, database, override_clock};
use crate::tokens::{
    STANDARD, SUBSCRIPTION, code, collection, create, guarded, id, kalends_token, new, request_as,
};

const SESSION: &str = "/api/session";

fn list() -> String {
    new(&format!("{SUBSCRIPTION}/resourceGroups"))
}

/// The value of the session cookie that a response sets.
fn cookie_of(response: &Response) -> String {
    assert_eq!(response.status, 201, "{response:?}");
    let cookie = response.header("Set-Cookie").unwrap();
    let (pair, _) = cookie.split_once(';').unwrap();
    pair.strip_prefix("__Host-kalends=").unwrap().to_owned()
}

/// Signs in and returns the value of the cookie.
fn sign_in(connection: &mut Connection, token: &str) -> String {
    cookie_of(&request_as(connection, token, "POST", SESSION, None))
}

/// Sends a request as the scripts of the console do, with these headers in addition.
fn as_console(
    connection: &mut Connection,
    server: &TestServer,
    cookie: &str,
    (method, target, body): (&str, &str, Option<&str>),
) -> Response {
    let origin = format!("http://{}", server.address);
    let cookie = format!("kalends-zone=utc; __Host-kalends={cookie}");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Origin", if method == "GET" { "" } else { &origin }),
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Mode", "cors"),
        ("X-Kalends-Console", "1"),
    ];
    connection.request_with(method, target, &headers, body)
}

fn read_with(connection: &mut Connection, cookie: &str) -> Response {
    let cookie = format!("__Host-kalends={cookie}");
    connection.request_with("GET", &list(), &[("Cookie", &cookie)], None)
}

/// Repeats a read until it returns this status. Servers notice changes by others within seconds.
fn wait_for(connection: &mut Connection, cookie: &str, status: u16) {
    for _ in 0..600 {
        if read_with(connection, cookie).status == status {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the status did not become {status}");
}

#[test]
fn a_token_signs_in_and_the_session_has_its_rights_until_sign_out() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let reader = create(server.folder(), "reader", SUBSCRIPTION, &[]);
    let response = request_as(&mut connection, &reader, "POST", SESSION, None);
    let attributes = response.header("Set-Cookie").unwrap().split_once("; ").unwrap().1;
    assert_eq!(attributes, "Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict");
    assert_eq!(response.header("Cache-Control"), Some("no-store"));
    let cookie = cookie_of(&response);
    assert!(!response.body.contains(&cookie));
    let put = ("PUT", new(&collection("g", "c")), Some(STANDARD));
    let send = |connection: &mut Connection, cookie: &str, method, target: &str, body| {
        as_console(connection, &server, cookie, (method, target, body))
    };
    assert_eq!(send(&mut connection, &cookie, "GET", &list(), None).status, 200);
    let refused = send(&mut connection, &cookie, put.0, &put.1, put.2);
    assert_eq!(code(&refused), (403, "AuthorizationFailed".into()), "the token is a reader");
    let cookie = sign_in(&mut connection, &owner);
    assert_eq!(send(&mut connection, &cookie, put.0, &put.1, put.2).status, 201);

    let out = send(&mut connection, &cookie, "DELETE", SESSION, None);
    assert_eq!(out.status, 204);
    let cleared = "__Host-kalends=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict";
    assert_eq!(out.header("Set-Cookie"), Some(cleared));
    let after = send(&mut connection, &cookie, "GET", &list(), None);
    assert_eq!(code(&after), (401, "ExpiredAuthenticationToken".into()));
    assert_eq!(request_as(&mut connection, &owner, "GET", &list(), None).status, 200);
}

#[test]
fn sign_in_replaces_the_session_of_the_browser() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let first = sign_in(&mut connection, &owner);
    let (bearer, cookie) = (format!("Bearer {owner}"), format!("__Host-kalends={first}"));
    let headers = [("Authorization", bearer.as_str()), ("Cookie", &cookie)];
    let second = cookie_of(&connection.request_with("POST", SESSION, &headers, None));
    assert_ne!(first, second);
    assert_eq!(read_with(&mut connection, &first).status, 401);
    assert_eq!(read_with(&mut connection, &second).status, 200);
    // A cookie that an attacker has chosen never becomes a session.
    let planted = "A".repeat(43);
    let cookie = format!("__Host-kalends={planted}");
    let headers = [("Authorization", bearer.as_str()), ("Cookie", &cookie)];
    assert_ne!(cookie_of(&connection.request_with("POST", SESSION, &headers, None)), planted);
    assert_eq!(read_with(&mut connection, &planted).status, 401);
    let from_session = as_console(&mut connection, &server, &second, ("POST", SESSION, None));
    assert_eq!(code(&from_session), (400, "InvalidRequest".into()), "sign-in needs a token");
    let no_session = request_as(&mut connection, &owner, "DELETE", SESSION, None);
    assert_eq!(code(&no_session), (400, "InvalidRequest".into()));
}

#[test]
fn other_web_pages_cannot_use_a_session() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let session = sign_in(&mut connection, &owner);
    let cookie = ("Cookie", format!("__Host-kalends={session}"));
    let own = format!("http://{}", server.address);
    let target = new(&collection("g", "c"));
    let mut send = |method: &str, headers: &[(&str, &str)]| {
        let headers = [&[(cookie.0, cookie.1.as_str())], headers].concat();
        let body = (method == "PUT").then_some(STANDARD);
        connection.request_with(method, &target, &headers, body)
    };
    let console = ("X-Kalends-Console", "1");
    let forbidden = (403, "AuthorizationFailed".to_owned());
    for headers in [
        &[][..],
        &[console],
        &[("Origin", &own)],
        &[("Sec-Fetch-Site", "same-origin")],
        &[console, ("Origin", "http://evil.test")],
        &[console, ("Origin", "null")],
        &[console, ("Origin", &own), ("Sec-Fetch-Site", "same-site")],
        &[console, ("Sec-Fetch-Site", "cross-site")],
        &[console, ("Sec-Fetch-Site", "none")],
    ] {
        assert_eq!(code(&send("PUT", headers)), forbidden, "{headers:?}");
    }
    assert_eq!(send("GET", &[]).status, 404, "nothing was created");
    for site in ["cross-site", "same-site"] {
        let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "no-cors")];
        assert_eq!(code(&send("GET", &headers)), forbidden, "{site}");
    }
    assert_eq!(send("PUT", &[console, ("Origin", &own)]).status, 201);
    // With both, the header decides, and a cookie does not help a wrong token.
    let wrong = [("Authorization", "Bearer wrong"), console, ("Origin", &own)];
    assert_eq!(code(&send("PUT", &wrong)), (401, "InvalidAuthenticationToken".into()));
    let bearer = format!("Bearer {owner}");
    assert_eq!(send("PUT", &[("Authorization", &bearer)]).status, 201, "no console is necessary");
    // A form of another page.
    let form = [("Content-Type", "application/x-www-form-urlencoded"), console, ("Origin", &own)];
    let headers = [&[(cookie.0, cookie.1.as_str())], &form[..]].concat();
    let posted = connection.request_with("POST", SESSION, &headers, Some("token=x"));
    assert_eq!(posted.status, 415);
    let cross = [("Authorization", bearer.as_str()), ("Origin", "http://evil.test")];
    let login = connection.request_with("POST", SESSION, &cross, None);
    assert_eq!(code(&login), forbidden, "another page cannot sign its visitor in");
}

#[test]
fn a_revoked_or_deleted_token_ends_its_sessions() {
    let (server, owner) = guarded(&[("KALENDS_FAILURES_PER_MINUTE", "100000")]);
    let mut connection = server.connect();
    for arguments in [&["revoke"][..], &["revoke", "--delete"]] {
        let token = create(server.folder(), "reader", "/", &[]);
        let cookie = sign_in(&mut connection, &token);
        assert_eq!(read_with(&mut connection, &cookie).status, 200);
        let arguments = [arguments, &[id(&token)]].concat();
        assert!(kalends_token(server.folder(), &arguments).status.success());
        wait_for(&mut connection, &cookie, 401);
    }
    let other = sign_in(&mut connection, &owner);
    assert_eq!(read_with(&mut connection, &other).status, 200);
}

#[test]
fn the_store_holds_no_session_id_and_no_token() {
    let token = "correct-horse-battery";
    let (server, owner) = guarded(&[("KALENDS_TOKEN", token)]);
    let mut connection = server.connect();
    let cookies = [sign_in(&mut connection, &owner), sign_in(&mut connection, token)];
    for cookie in &cookies {
        assert_eq!(read_with(&mut connection, cookie).status, 200);
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    let mut has_hash = [false; 2];
    for entry in std::fs::read_dir(server.folder()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        for secret in [cookies[0].as_str(), &cookies[1], &owner[21..], token] {
            assert!(!contains(secret.as_bytes()));
        }
        assert!(!contains(digest.as_ref()), "a hash of the start token could be guessed");
        for (cookie, has_hash) in cookies.iter().zip(&mut has_hash) {
            let digest = ring::digest::digest(&ring::digest::SHA256, cookie.as_bytes());
            *has_hash |= contains(digest.as_ref());
        }
    }
    assert_eq!(has_hash, [true; 2]);
}

#[test]
fn a_session_of_the_start_token_ends_when_the_server_has_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let start = |token: &str| {
        let store = format!("sqlite:{}", folder.path().join("kalends.db").display());
        TestServer::start_in(&store, |command| {
            command.env("KALENDS_TOKEN", token);
        })
    };
    let mut server = start("correct-horse-battery");
    let cookie = sign_in(&mut server.connect(), "correct-horse-battery");
    assert!(server.stop());
    let mut server = start("correct-horse-battery");
    assert_eq!(read_with(&mut server.connect(), &cookie).status, 200, "it survives a restart");
    assert!(server.stop());
    let server = start("another-horse-battery");
    assert_eq!(read_with(&mut server.connect(), &cookie).status, 401);
}

#[test]
fn a_session_expires_after_its_lifetime_and_with_its_token() {
    let Some(library) = clock_library() else { return };
    let mut tokens = Vec::new();
    let server = TestServer::start_with(|command, folder| {
        tokens.push(create(folder, "owner", "/", &[]));
        tokens.push(create(folder, "owner", "/", &["--expires", "2030-01-01T01:00:00Z"]));
        command.env("KALENDS_SESSION_LIFETIME", "PT2H");
        override_clock(command, folder, &library, "2030-01-01 00:00:00");
    });
    let mut connection = server.connect();
    let responses: Vec<_> = tokens
        .iter()
        .map(|token| request_as(&mut connection, token, "POST", SESSION, None))
        .collect();
    let expires = |response: &Response| {
        let body: Value = serde_json::from_str(&response.body).unwrap();
        body["expires"].as_str().unwrap().to_owned()
    };
    assert_eq!(expires(&responses[0]), "2030-01-01T02:00:00Z");
    assert_eq!(expires(&responses[1]), "2030-01-01T01:00:00Z");
    let cookies: Vec<_> = responses.iter().map(cookie_of).collect();
    for (now, expected) in [
        ("2030-01-01 00:59:59", [200, 200]),
        ("2030-01-01 01:00:00", [200, 401]),
        ("2030-01-01 01:59:59", [200, 401]),
        ("2030-01-01 02:00:00", [401, 401]),
    ] {
        server.set_clock(now);
        let statuses =
            [&cookies[0], &cookies[1]].map(|cookie| read_with(&mut connection, cookie).status);
        assert_eq!(statuses, expected, "{now}");
    }
}

#[test]
fn all_nodes_of_a_database_share_sessions() {
    let Some(database) = database("sessions") else { return };
    let key = ("KALENDS_KEY", crate::postgres::KEY);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.args(["token", "create", "--role", "reader", "--scope", "/", "--store", &database]);
    let created = command.env(key.0, key.1).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let token = String::from_utf8(created.stdout).unwrap().trim_end().to_owned();
    let start = || {
        TestServer::start_in(&database, |command| {
            command.env(key.0, key.1).env("KALENDS_AUDIT_LOG", "off");
            command.env("KALENDS_FAILURES_PER_MINUTE", "100000");
        })
    };
    let nodes = [start(), start()];
    let mut connections = [nodes[0].connect(), nodes[1].connect()];
    let cookie = sign_in(&mut connections[0], &token);
    for connection in &mut connections {
        assert_eq!(read_with(connection, &cookie).status, 200);
    }
    let out = as_console(&mut connections[1], &nodes[1], &cookie, ("DELETE", SESSION, None));
    assert_eq!(out.status, 204);
    assert_eq!(read_with(&mut connections[1], &cookie).status, 401, "at once where it signed out");
    wait_for(&mut connections[0], &cookie, 401);
}

#[test]
fn sign_in_failure_and_sign_out_are_audited() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let wrong = format!("{}x", &owner[..owner.len() - 1]);
    assert_eq!(request_as(&mut connection, &wrong, "POST", SESSION, None).status, 401);
    let cookie = sign_in(&mut connection, &owner);
    let delete = ("DELETE", SESSION, None);
    assert_eq!(as_console(&mut connection, &server, &cookie, delete).status, 204);
    let text = std::fs::read_to_string(server.folder().join("audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap_or("nobody").to_owned();
        (text("who"), text("operation"), line["status"].as_u64().unwrap())
    };
    let who = format!("token:{}", id(&owner));
    let (write, delete) =
        ("Microsoft.Scheduler/sessions/write", "Microsoft.Scheduler/sessions/delete");
    assert_eq!(
        lines.iter().map(summary).collect::<Vec<_>>(),
        [
            ("nobody".to_owned(), write.to_owned(), 401),
            (who.clone(), write.to_owned(), 201),
            (who, delete.to_owned(), 204),
        ]
    );
    assert!(!text.contains(&cookie) && !text.contains(&owner[21..]));
}

#[test]
fn failed_sign_ins_are_limited_and_visits_of_the_sign_in_page_are_not() {
    let (server, owner) = guarded(&[("KALENDS_FAILURES_PER_MINUTE", "3")]);
    let mut connection = server.connect();
    for _ in 0..5 {
        let page = connection.request("GET", "/jobs?search=a", None);
        assert_eq!(page.status, 303, "{page:?}");
        assert_eq!(page.header("Location"), Some("./sign-in?to=jobs%3Fsearch%3Da"));
    }
    for number in 0..5 {
        let guess = format!("guess-{number}");
        let response = request_as(&mut connection, &guess, "POST", SESSION, None);
        assert_eq!(response.status, if number < 3 { 401 } else { 429 }, "{number}");
    }
    sign_in(&mut connection, &owner);
}

#[test]
fn the_sign_in_page_leads_to_pages_of_the_console_only() {
    let (server, _) = guarded(&[]);
    let mut connection = server.connect();
    let mut target_of = |to: &str| {
        let page = connection.request("GET", &format!("/sign-in?to={to}"), None);
        assert_eq!(page.status, 200);
        assert_eq!(page.header("Cache-Control"), Some("no-store"));
        let (_, rest) = page.body.split_once("data-to=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    assert_eq!(target_of("jobs%3Fsearch%3Da"), "./jobs?search=a");
    for to in ["%2F%2Fevil.test", "%2F%5Cevil.test", "https%3A%2F%2Fevil.test", "https%3Aevil", ""]
    {
        assert_eq!(target_of(to), "./", "{to}");
    }
}

#[test]
fn a_page_that_another_site_opened_is_opened_again_with_the_cookie() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let navigation = |site| {
        [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    };
    // Without the cookie, which browsers leave out.
    let page = connection.request_with("GET", "/sign-in?to=jobs", &navigation("cross-site"), None);
    assert!(
        page.body.contains(r#"<meta http-equiv="refresh" content="0; url=./jobs">"#),
        "{page:?}"
    );
    let page = connection.request_with("GET", "/sign-in?to=jobs", &navigation("same-origin"), None);
    assert!(!page.body.contains("refresh"), "{page:?}");
    let cookie = format!("__Host-kalends={}", sign_in(&mut connection, &owner));
    for site in ["same-origin", "same-site", "none"] {
        let headers = [&navigation(site)[..], &[("Cookie", &cookie)]].concat();
        assert_eq!(connection.request_with("GET", "/", &headers, None).status, 200, "{site}");
    }
    let me = connection.request_with("GET", "/api/me", &[("Cookie", &cookie)], None);
    let me: Value = serde_json::from_str(&me.body).unwrap();
    assert_eq!((&me["authentication"], &me["name"]), (&"Session".into(), &"admin".into()));
}
