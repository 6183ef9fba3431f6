//! API behaviour that the recordings do not cover: methods, preconditions, pages, bulk edits, names.

use serde_json::{Value, json};

use crate::connection::{Connection, Response};
use crate::test_server::TestServer;

const GROUP: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg";

fn collection(name: &str) -> String {
    format!("{GROUP}/providers/Microsoft.Scheduler/jobCollections/{name}")
}

/// A path with the newest API version.
fn new(path: &str) -> String {
    format!("{path}?api-version=2026-11-01")
}

fn definition(state: &str) -> String {
    let request = json!({"uri": "http://example.org/", "method": "GET"});
    let recurrence = json!({"frequency": "Day"});
    let action = json!({"type": "Http", "request": request});
    json!({"properties": {"action": action, "recurrence": recurrence, "state": state}}).to_string()
}

const STANDARD: &str = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;

/// A server with a collection `jc` and jobs with these names.
fn with_jobs(names: &[&str]) -> (TestServer, Connection) {
    let server = TestServer::start();
    let mut connection = server.connect();
    let created = connection.request("PUT", &new(&collection("jc")), Some(STANDARD));
    assert_eq!(created.status, 201, "{created:?}");
    for name in names {
        let path = new(&format!("{}/jobs/{name}", collection("jc")));
        let created = connection.request("PUT", &path, Some(&definition("Enabled")));
        assert_eq!(created.status, 201, "{created:?}");
    }
    (server, connection)
}

fn json(response: &Response) -> Value {
    serde_json::from_str(&response.body).unwrap_or_else(|_| panic!("no JSON: {response:?}"))
}

fn code(response: &Response) -> (u16, String) {
    (response.status, json(response)["error"]["code"].as_str().unwrap().to_owned())
}

fn names(list: &Value) -> Vec<&str> {
    list["value"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn pages_run_scripts_of_the_server_only_and_cannot_be_framed() {
    let (_server, mut connection) = with_jobs(&[]);
    let job = r#"{"properties": {"action": {"type": "Http", "request": {"uri": "http://127.0.0.1:1",
        "method": "GET"}}, "recurrence": {"cron": "0 0 1 1 *"}}}"#;
    let created = connection.request("PUT", "/api/collections/jc/jobs/j", Some(job));
    assert_eq!(created.status, 201, "{created:?}");
    for path in [
        "/",
        "/jobs",
        "/jobs/jc/j",
        "/jobs/jc/j/edit",
        "/new-job",
        "/runs",
        "/collections",
        "/collections/jc",
        "/system",
        "/sign-in",
        "/jobs/jc/absent",
    ] {
        let page = connection.request("GET", path, None);
        assert_eq!(page.status, if path.ends_with("absent") { 404 } else { 200 }, "{path}");
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
            ("Content-Type", "text/html; charset=utf-8"),
        ] {
            assert_eq!(page.header(name), Some(value), "{path} {name}");
        }
        let policy = page.header("Content-Security-Policy").unwrap();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.split("; ").any(|found| found == directive), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let scripts: Vec<_> = page.body.split("<script").skip(1).collect();
        assert!(!scripts.is_empty(), "{path}");
        for script in scripts {
            assert!(script.starts_with(" type=\"module\" src=\""), "{path}: {script}");
        }
        assert!(!page.body.contains(" style=") && !page.body.contains(" onclick="), "{path}");
        for (name, _) in &page.headers {
            assert!(!name.to_ascii_lowercase().starts_with("access-control-"), "{name}");
            assert!(!name.eq_ignore_ascii_case("server"), "{name}");
        }
    }
}

#[test]
fn a_wrong_path_has_a_page_for_browsers_and_an_error_for_clients() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let browser = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for path in ["/jbos", "/jobs/", "/jobs/web", "/a%3Cb%3E/c"] {
        let page = connection.request_with("GET", path, &browser, None);
        assert_eq!(page.status, 404, "{path}");
        assert!(page.body.contains("There is no page /"), "{path}: {}", page.body);
        assert!(page.body.contains("Overview"), "{path}: {}", page.body);
        assert!(!page.body.contains("a<b>"), "{path}: {}", page.body);
        let error = connection.request("GET", path, None);
        assert_eq!((error.status, error.body.get(..1)), (404, Some("{")), "{path}");
    }
    for path in ["/api/absent", "/subscriptions/x/y", "/PROVIDERS/x", "/metadata/x"] {
        let error = connection.request_with("GET", path, &browser, None);
        assert_eq!(error.body.get(..1), Some("{"), "{path}: {error:?}");
    }
    let written = connection.request_with("POST", "/jbos", &browser, None);
    assert_eq!((written.status, written.body.get(..1)), (404, Some("{")));
}

#[test]
fn assets_of_the_console_are_cached_until_they_change() {
    let (_server, mut connection) = with_jobs(&[]);
    let page = connection.request("GET", "/", None).body;
    let (_, rest) = page.split_once("href=\"./assets/").unwrap();
    let (hash, _) = rest.split_once('/').unwrap();
    for (name, kind) in [("console.css", "text/css"), ("console.js", "text/javascript")] {
        let asset = connection.request("GET", &format!("/assets/{hash}/{name}"), None);
        assert_eq!(asset.status, 200, "{name}");
        assert!(asset.header("Content-Type").unwrap().starts_with(kind), "{name}");
        let cache = asset.header("Cache-Control").unwrap();
        assert!(cache.contains("immutable"), "{cache}");
        assert_eq!((asset.header("Pragma"), asset.header("Expires")), (None, None), "{name}");
    }
    assert_eq!(connection.request("GET", "/assets/0/console.css", None).status, 404);
}

#[test]
fn pages_and_assets_of_the_console_are_compressed_and_bodies_of_the_api_are_not() {
    let (_server, mut connection) = with_jobs(&[]);
    let page = connection.request("GET", "/", None).body;
    let (_, rest) = page.split_once("href=\"./assets/").unwrap();
    let (hash, _) = rest.split_once('/').unwrap();
    for (path, is_compressed) in [
        ("/", true),
        (&format!("/assets/{hash}/console.css"), true),
        ("/openapi.json", false),
        ("/api/overview", false),
    ] {
        let length = |response: &Response| -> usize {
            response.header("Content-Length").unwrap().parse().unwrap()
        };
        let plain = connection.request("HEAD", path, None);
        assert_eq!(plain.header("Content-Encoding"), None, "{path}");
        let accepting = [("Accept-Encoding", "gzip, deflate, br")];
        let response = connection.request_with("HEAD", path, &accepting, None);
        let coding = response.header("Content-Encoding");
        assert_eq!(coding, is_compressed.then_some("gzip"), "{path}");
        if is_compressed {
            assert_eq!(response.header("Vary"), Some("Accept-Encoding"), "{path}");
            assert!(2 * length(&response) < length(&plain), "{path}: {response:?}");
        }
    }
}

#[test]
fn unsupported_methods_return_405_with_the_allowed_ones() {
    let (_server, mut connection) = with_jobs(&[]);
    let job = format!("{}/jobs/j", collection("jc"));
    for (method, path, allowed) in [
        ("POST", job.as_str(), "GET, HEAD, PUT, PATCH, DELETE"),
        ("FOO", &job, "GET, HEAD, PUT, PATCH, DELETE"),
        ("TRACE", &collection("jc"), "GET, HEAD, PUT, PATCH, DELETE"),
        ("GET", &format!("{job}/run"), "POST"),
        ("DELETE", &format!("{}/jobs", collection("jc")), "GET, HEAD"),
        ("PATCH", GROUP, "GET, HEAD, PUT, DELETE"),
        ("POST", "/", "GET, HEAD"),
    ] {
        let response = connection.request(method, &new(path), None);
        assert_eq!(code(&response), (405, "MethodNotAllowed".to_owned()), "{method} {path}");
        assert_eq!(response.header("Allow"), Some(allowed), "{method} {path}");
    }
    let old = connection.request("POST", &format!("{job}?api-version=2016-03-01"), None);
    assert_eq!(code(&old), (405, "BadRequest".to_owned()));
}

#[test]
fn head_returns_the_headers_of_get() {
    let (_server, mut connection) = with_jobs(&["j"]);
    let (jc, job) = (collection("jc"), format!("{}/jobs/j", collection("jc")));
    // Not the pages of the console: they show the time.
    let document = "/openapi.json".into();
    for path in [new(&jc), new(&job), new(&format!("{jc}/jobs")), document, "/livez".into()] {
        let get = connection.request("GET", &path, None);
        let head = connection.request("HEAD", &path, None);
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        assert_eq!(head.header("Content-Length"), get.header("Content-Length"), "{path}");
        assert_eq!(head.header("ETag"), get.header("ETag"), "{path}");
    }
    assert_eq!(connection.request("HEAD", &new(GROUP), None).status, 204);
    let none = connection.request("HEAD", &new(&collection("none")), None);
    assert_eq!(none.status, 404);
}

#[test]
fn if_match_and_if_none_match_guard_edits() {
    let (_server, mut connection) = with_jobs(&["j"]);
    let job = new(&format!("{}/jobs/j", collection("jc")));
    let jc = new(&collection("jc"));
    for (path, change) in
        [(&job, r#"{"properties":{"state":"Disabled"}}"#), (&jc, r#"{"tags":{"a":"b"}}"#)]
    {
        let read = connection.request("GET", path, None);
        let seen = read.header("ETag").unwrap().to_owned();
        let other = format!("\"0\", {seen}");
        let mut request = |method: &str, header: (&str, &str), body: Option<&str>| {
            connection.request_with(method, path, &[header], body)
        };
        let failed = (412, "PreconditionFailed".to_owned());
        assert_eq!(code(&request("PATCH", ("If-Match", "\"0\""), Some(change))), failed);
        assert_eq!(code(&request("PUT", ("If-None-Match", "*"), Some(&read.body))), failed);
        let changed = request("PATCH", ("If-Match", &other), Some(change));
        assert_eq!(changed.status, 200, "{changed:?}");
        assert_ne!(changed.header("ETag"), Some(seen.as_str()));
        assert_eq!(code(&request("DELETE", ("If-Match", &seen), None)), failed);
        assert_eq!(request("DELETE", ("If-Match", "*"), None).status, 200);
        assert_eq!(request("DELETE", ("If-Match", "*"), None).status, 404);
    }
    let created = connection.request_with("PUT", &jc, &[("If-None-Match", "*")], Some(STANDARD));
    assert_eq!(created.status, 201);
    let old = collection("jc") + "?api-version=2016-03-01";
    assert_eq!(connection.request("GET", &old, None).header("ETag"), None);
}

#[test]
fn lists_are_read_page_by_page() {
    let all = ["a", "B", "c", "D", "e"];
    let (server, mut connection) = with_jobs(&all);
    for name in ["other", "Third"] {
        connection.request("PUT", &new(&collection(name)), Some(STANDARD));
    }
    let lists = [
        (format!("{}/jobs", collection("jc")), "&$top=2&$filter=state%20eq%20Enabled", 5),
        (format!("{}/jobs", collection("jc")), "&$top=2&$skip=1", 4),
        (format!("{GROUP}/providers/Microsoft.Scheduler/jobCollections"), "&$top=1", 3),
    ];
    let mut foreign = None;
    for (list, query, count) in lists {
        let mut target = format!("{}{query}", new(&list));
        let mut found = Vec::new();
        loop {
            let page = json(&connection.request("GET", &target, None));
            assert!(names(&page).len() <= 2, "{page}");
            found.extend(names(&page).into_iter().map(str::to_owned));
            let Some(next) = page["nextLink"].as_str() else { break };
            let prefix = format!("http://{}", server.address);
            target = next.strip_prefix(&prefix).unwrap().to_owned();
            foreign.get_or_insert(target.clone());
        }
        let mut sorted = found.clone();
        sorted.sort_by_key(|name| name.to_lowercase());
        assert_eq!((found.len(), &found), (count, &sorted), "{list}");
    }
    // A next link is valid only for its own list and filter.
    let foreign = foreign.unwrap();
    let token = foreign.split("skiptoken=").nth(1).unwrap();
    let jobs = new(&format!("{}/jobs", collection("jc")));
    for target in [
        format!("{jobs}&$skiptoken={token}"),
        format!("{jobs}&$filter=state eq Disabled&$skiptoken={token}").replace(' ', "%20"),
        format!("{jobs}&$skiptoken=forged"),
        format!("{jobs}&$skiptoken="),
        format!("{foreign}x"),
        format!("{foreign}&$skip=1"),
    ] {
        let response = connection.request("GET", &target, None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".to_owned()), "{target}");
    }
    let old = format!("{}/jobs?api-version=2016-03-01&$top=2", collection("jc"));
    assert_eq!(json(&connection.request("GET", &old, None))["nextLink"], Value::Null);
}

#[test]
fn a_bulk_edit_reports_the_result_of_each_job() {
    let (_server, mut connection) = with_jobs(&["a", "b", "c", "bulk"]);
    let bulk = new(&format!("{}/jobs/bulk", collection("jc")));
    let mut edit = |body: &str| {
        let response = connection.request("POST", &bulk, Some(body));
        assert_eq!(response.status, 200, "{response:?}");
        let results = json(&response);
        let result = |one: &Value| {
            let name = one["name"].as_str().unwrap().trim_start_matches("jc/");
            let error = one["error"]["code"].as_str();
            format!("{name} {}", error.unwrap_or(one["result"].as_str().unwrap()))
        };
        let list = results["value"].as_array().unwrap().iter().map(result);
        list.collect::<Vec<_>>().join(", ")
    };
    let off = r#"{"action":"Disable","names":["a","c","none"]}"#;
    assert_eq!(edit(off), "a Done, c Done, none NotFound");
    assert_eq!(edit(off), "a Unchanged, c Unchanged, none NotFound");
    let on = r#"{"action":"enable","filter":"state eq Disabled"}"#;
    assert_eq!(edit(on), "a Done, c Done");
    assert_eq!(edit(r#"{"action":"Delete","filter":"contains(name,'b')"}"#), "b Done, bulk Done");
    let list = json(&connection.request("GET", &new(&format!("{}/jobs", collection("jc"))), None));
    assert_eq!(names(&list), ["jc/a", "jc/c"]);
    for bad in [
        "{}",
        r#"{"action":"Walk","names":[]}"#,
        r#"{"action":"Delete"}"#,
        r#"{"action":"Delete","names":["a"],"filter":"state eq Enabled"}"#,
        r#"{"action":"Delete","names":"a"}"#,
        r#"{"action":"Delete","names":["..", 1]}"#,
        r#"{"action":"Delete","filter":"1 eq 1"}"#,
    ] {
        let response = connection.request("POST", &bulk, Some(bad));
        assert_eq!(response.status, 400, "{bad}: {response:?}");
    }
    let elsewhere = new(&format!("{}/jobs/bulk", collection("none")));
    let response = connection.request("POST", &elsewhere, Some(on));
    assert_eq!(code(&response), (404, "ResourceNotFound".to_owned()));
    let old = format!("{}/jobs/bulk?api-version=2016-03-01", collection("jc"));
    assert_eq!(connection.request("POST", &old, Some(on)).status, 404);
}

#[test]
fn cross_site_requests_are_refused() {
    let (_server, mut connection) = with_jobs(&["j"]);
    let run = new(&format!("{}/jobs/j/run", collection("jc")));
    let mut request =
        |headers: &[(&str, &str)]| connection.request_with("POST", &run, headers, None);
    assert_eq!(code(&request(&[("Host", "evil.test")])), (421, "MisdirectedRequest".to_owned()));
    let foreign = request(&[("Origin", "http://evil.test")]);
    assert_eq!(code(&foreign), (403, "AuthorizationFailed".to_owned()));
    let form = request(&[("Content-Type", "application/x-www-form-urlencoded")]);
    assert_eq!(code(&form), (415, "UnsupportedMediaType".to_owned()));
    assert_eq!(request(&[("Host", "localhost:1"), ("Origin", "http://localhost:1")]).status, 200);
    assert_eq!(request(&[("Content-Type", "application/json")]).status, 200);
}

#[test]
fn the_openapi_document_is_served_and_its_references_resolve() {
    fn check(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                members.values().for_each(|value| check(value, document));
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, document)),
            _ => {}
        }
    }
    let server = TestServer::start();
    let response = server.connect().request("GET", "/openapi.json", None);
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    let document = json(&response);
    assert_eq!(document["openapi"], "3.1.0");
    check(&document, &document);
}

#[test]
fn a_preview_validates_a_definition_without_saving_it() {
    let (_server, mut connection) = with_jobs(&["j"]);
    let preview = |name: &str| format!("{}/jobs/{name}/preview", collection("jc"));
    let mut effect = |name: &str, body: &str| {
        let response = json(&connection.request("POST", &new(&preview(name)), Some(body)));
        assert_eq!(response["occurrences"].as_array().unwrap().len(), 10, "{response}");
        response["effect"].as_str().unwrap().to_owned()
    };
    assert_eq!(effect("new", &definition("Enabled")), "Create");
    assert_eq!(effect("j", &definition("Enabled")), "Nothing");
    assert_eq!(effect("j", &definition("Disabled")), "Replace");
    let old = format!("{}?api-version=2016-03-01", preview("j"));
    assert_eq!(connection.request("POST", &old, Some(&definition("Enabled"))).status, 404);
}
