//! Clients behind a reverse proxy, and clients that pretend to be one.

use serde_json::Value;

use crate::connection::{Connection, Response};
use crate::test_server::TestServer;
use crate::tls_and_http2::{curl, write_certificate};
use crate::tokens::{STANDARD, SUBSCRIPTION, collection, create, guarded, new, request_as};

/// Settings of a server whose proxies are 127.0.0.1 and 10.0.0.0/8.
const PROXIES: &[(&str, &str)] = &[
    ("KALENDS_TRUSTED_PROXY", "127.0.0.1,10.0.0.0/8"),
    ("KALENDS_HOST", "jobs.example.org"),
    ("KALENDS_FAILURES_PER_MINUTE", "2"),
];
const PROXY: [u8; 4] = [127, 0, 0, 1];
const STRANGER: [u8; 4] = [127, 0, 0, 2];

/// Two collections, so that a page of one has a `nextLink`.
fn create_two(server: &TestServer, owner: &str) {
    let mut connection = server.connect();
    for name in ["a", "b"] {
        let target = new(&collection("g", name));
        let put = request_as(&mut connection, owner, "PUT", &target, Some(STANDARD));
        assert_eq!(put.status, 201, "{put:?}");
    }
}

fn first_page() -> String {
    let path = format!("{SUBSCRIPTION}/providers/Microsoft.Scheduler/jobCollections");
    format!("{}&$top=1", new(&path))
}

/// The part of a `nextLink` before its path.
fn link_base(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    let link = body["nextLink"].as_str().unwrap();
    link.split_once("/subscriptions").unwrap().0.to_owned()
}

fn list(server: &TestServer, from: [u8; 4], token: &str, headers: &[(&str, &str)]) -> Response {
    let token = format!("Bearer {token}");
    let headers = [headers, &[("Authorization", token.as_str())]].concat();
    Connection::from(from, server.address).request_with("GET", &first_page(), &headers, None)
}

#[test]
fn next_link_has_the_scheme_of_the_connection() {
    let mut owner = String::new();
    let server = TestServer::start_with(|command, folder| {
        owner = create(folder, "owner", "/", &[]);
        write_certificate(folder);
        command.arg("--tls-cert").arg(folder.join("tls.pem"));
        command.arg("--tls-key").arg(folder.join("tls.key"));
    });
    let authority = server.folder().join("tls.pem");
    let (authority, port) = (authority.to_str().unwrap(), server.address.port());
    let authorization = format!("Authorization: Bearer {owner}");
    let trusted = ["--globoff", "--cacert", authority, "-H", &authorization];
    for name in ["a", "b"] {
        let url = format!("https://localhost:{port}{}", new(&collection("g", name)));
        let json = ["-X", "PUT", "-H", "Content-Type: application/json", "-d", STANDARD];
        let Some(put) = curl(&[&trusted[..], &json].concat(), &url) else { return };
        assert!(put.starts_with(r#"{"id""#), "{put}");
    }
    for version in ["--http1.1", "--http2"] {
        let url = format!("https://localhost:{port}{}", first_page());
        let page = curl(&[&trusted[..], &[version]].concat(), &url).unwrap();
        let (body, _) = page.rsplit_once(" over ").unwrap();
        assert_eq!(link_base(body), format!("https://localhost:{port}"), "{version}");
    }
}

#[test]
fn a_trusted_proxy_names_scheme_and_host_of_links() {
    let (server, owner) = guarded(PROXIES);
    create_two(&server, &owner);
    let direct = format!("http://{}", server.address);
    let public = "https://jobs.example.org";
    let check = |from, headers: &[(&str, &str)], expected: &str| {
        let response = list(&server, from, &owner, headers);
        assert_eq!(response.status, 200, "{headers:?}: {response:?}");
        assert_eq!(link_base(&response.body), expected, "{headers:?}");
    };
    let (proto, host) = (("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "jobs.example.org"));
    let of_client = ("X-Forwarded-For", "203.0.113.9");
    check(PROXY, &[proto, host, of_client], public);
    check(PROXY, &[proto, host], public);
    check(PROXY, &[proto], &direct.replace("http:", "https:"));
    let standard = "for=203.0.113.9;proto=https;host=jobs.example.org";
    check(PROXY, &[("Forwarded", standard)], public);
    check(
        PROXY,
        &[("Forwarded", "For=\"[2001:db8::1]:9\";PROTO=HTTPS;host=\"jobs.example.org:443\"")],
        &format!("{public}:443"),
    );
    // Two proxies: the values of the first one, and none that the client sent.
    let chain = "for=203.0.113.1;proto=http;host=evil.test, for=203.0.113.9;proto=https;host=jobs.example.org, for=10.1.2.3;proto=http";
    check(PROXY, &[("Forwarded", chain)], public);
    let chain = [
        ("X-Forwarded-For", "203.0.113.1, 203.0.113.9"),
        ("X-Forwarded-For", "10.1.2.3"),
        ("X-Forwarded-Proto", "ftp, https, http"),
        ("X-Forwarded-Host", "evil.test, jobs.example.org, localhost"),
    ];
    check(PROXY, &chain, public);
    // A client that connects directly is no proxy.
    check(STRANGER, &[proto, host, of_client], &direct);
    check(STRANGER, &[("Forwarded", standard)], &direct);
}

#[test]
fn malformed_and_contradictory_values_of_a_proxy_are_ignored() {
    let (server, owner) = guarded(PROXIES);
    create_two(&server, &owner);
    let direct = format!("http://{}", server.address);
    let long = format!("for={}", "1,".repeat(3_000));
    for (name, value) in [
        ("X-Forwarded-Proto", "javascript"),
        ("X-Forwarded-Proto", "https://evil.test/?"),
        ("X-Forwarded-Proto", ","),
        ("X-Forwarded-Host", "jobs.example.org/../evil"),
        ("X-Forwarded-Host", "user@jobs.example.org"),
        ("X-Forwarded-Host", "jobs.example.org#"),
        ("X-Forwarded-Host", "jobs.example.org:99999"),
        ("X-Forwarded-Host", "jobs example.org"),
        ("X-Forwarded-Host", "\u{fc}"),
        ("X-Forwarded-For", "nobody"),
        ("X-Forwarded-For", "999.1.1.1"),
        ("Forwarded", "proto=https;host=jobs.example.org;for"),
        ("Forwarded", "proto=https;proto=https"),
        ("Forwarded", "proto=\"https"),
        ("Forwarded", ";;;=,=,\"\\"),
        ("Forwarded", "for=unknown;host=\"a\\\"b\""),
        ("Forwarded", &long),
    ] {
        let response = list(&server, PROXY, &owner, &[(name, value)]);
        assert_eq!(response.status, 200, "{name}: {value}: {response:?}");
        assert_eq!(link_base(&response.body), direct, "{name}: {value}");
    }
    // A proxy sets one family and passes on what a client sent of the other.
    let both = [("Forwarded", "for=203.0.113.1;proto=https"), ("X-Forwarded-For", "203.0.113.9")];
    assert_eq!(link_base(&list(&server, PROXY, &owner, &both).body), direct);
    // Hosts are checked as those of direct requests are.
    let foreign = list(&server, PROXY, &owner, &[("X-Forwarded-Host", "evil.test")]);
    assert_eq!(foreign.status, 421, "{foreign:?}");
    let headers = [("Host", "evil.test"), ("X-Forwarded-Host", "jobs.example.org")];
    assert_eq!(list(&server, PROXY, &owner, &headers).status, 421);
}

#[test]
fn failed_authentications_count_for_the_client_behind_a_trusted_proxy() {
    let (server, _) = guarded(PROXIES);
    let guess =
        |from, chain: &str| list(&server, from, "guess", &[("X-Forwarded-For", chain)]).status;
    let statuses = |from, chain: fn(u8) -> String| {
        (1..=4).map(|number| guess(from, &chain(number))).collect::<Vec<_>>()
    };
    // Each forged address would have its own limit.
    assert_eq!(statuses(STRANGER, |number| format!("203.0.113.{number}")), [401, 401, 429, 429]);
    assert_eq!(
        statuses(PROXY, |number| format!("203.0.113.{number}, 198.51.100.7, 10.0.0.{number}")),
        [401, 401, 429, 429]
    );
    assert_eq!(statuses(PROXY, |number| format!("198.51.100.{}", number + 100)), [401; 4]);
    assert_eq!(guess(PROXY, "198.51.100.7"), 429);
    // Whatever precedes a malformed entry is not read.
    assert_eq!(
        statuses(PROXY, |number| format!("203.0.113.{number}, x, 10.9.9.9")),
        [401, 401, 429, 429]
    );
}

#[test]
fn the_audit_log_names_the_client_behind_a_trusted_proxy() {
    let (server, owner) = guarded(PROXIES);
    let put = |from, name: &str| {
        let token = format!("Bearer {owner}");
        let headers = [("Authorization", token.as_str()), ("X-Forwarded-For", "203.0.113.9:4711")];
        let target = new(&collection("g", name));
        let mut connection = Connection::from(from, server.address);
        assert_eq!(connection.request_with("PUT", &target, &headers, Some(STANDARD)).status, 201);
    };
    put(PROXY, "a");
    put(STRANGER, "b");
    let log = std::fs::read_to_string(server.folder().join("audit.log")).unwrap();
    let clients: Vec<_> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["client"].clone())
        .collect();
    assert_eq!(clients, ["203.0.113.9", "127.0.0.2"]);
}

#[test]
fn connections_of_a_trusted_proxy_are_not_those_of_one_client() {
    let settings = [PROXIES, &[("KALENDS_CONNECTIONS_PER_CLIENT", "2")]].concat();
    let (server, owner) = guarded(&settings);
    let mut open: Vec<_> = (0..10).map(|_| Connection::from(PROXY, server.address)).collect();
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    for connection in &mut open {
        assert_eq!(request_as(connection, &owner, "GET", &target, None).status, 200);
    }
}
