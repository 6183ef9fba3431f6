//! Invalid requests: status and code of each, and that they change nothing.

use crate::connection::Connection;
use crate::test_server::TestServer;

const SUBSCRIPTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40";
const GOOD: &str = r#"{"properties":{"action":{"type":"Http","request":{"uri":"http://example.com/x","method":"GET"}},"recurrence":{"frequency":"Day","interval":1},"state":"Enabled"}}"#;
const STANDARD: &str = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;

/// A refused request: method, path, headers, body, status, code in the newest version. In a path
/// `JC` is a collection, `J` a job in it and `V` the version.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<&'a str>, u16, &'a str);

fn target(short: &str, version: &str) -> String {
    let jc =
        format!("{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc");
    let long = short.replace("RG", &format!("{SUBSCRIPTION}/resourceGroups/rg"));
    let long = long.replace("JC", &jc).replace("J?", &format!("{jc}/jobs/j?"));
    long.replace("J/", &format!("{jc}/jobs/j/")).replace('V', &format!("api-version={version}"))
}

/// All resources, byte for byte.
fn everything(connection: &mut Connection) -> Vec<(u16, String, Option<String>)> {
    let mut get = |path: &str| {
        let response = connection.request("GET", &target(path, "2026-11-01"), None);
        let etag = response.header("ETag").map(str::to_owned);
        (response.status, response.body, etag)
    };
    vec![get("J?V"), get("JC?V"), get("JC/jobs?V"), get("RG?V")]
}

fn check(cases: &[Case<'_>]) {
    let server = TestServer::start();
    let mut connection = server.connect();
    for (path, body) in [("JC?V", STANDARD), ("J?V", GOOD)] {
        let created = connection.request("PUT", &target(path, "2026-11-01"), Some(body));
        assert_eq!(created.status, 201, "{created:?}");
    }
    let before = everything(&mut connection);
    for (method, path, headers, body, status, expected) in cases {
        for version in ["2026-11-01", "2016-03-01", "2014-08-01-preview"] {
            let context = format!("{method} {path} {headers:?} {version}");
            let target = target(path, version);
            let response = server.connect().request_with(method, &target, headers, *body);
            assert_eq!(response.status, *status, "{context}: {response:?}");
            assert!(response.header("x-ms-request-id").is_some(), "{context}");
            let error: serde_json::Value = serde_json::from_str(&response.body).unwrap();
            let code = error["error"]["code"].as_str().unwrap();
            match version {
                // Without a readable API version, errors have the form of the old versions.
                "2026-11-01" if path.contains('V') => assert_eq!(code, *expected, "{context}"),
                _ => {
                    let old_codes =
                        ["BadRequest", "Conflict", "NotFound", "ResourceNotFound", expected];
                    assert!(old_codes.contains(&code), "{context}: {code}");
                    assert_eq!(error["error"].as_object().unwrap().len(), 2, "{context}: {error}");
                }
            }
        }
    }
    assert_eq!(everything(&mut connection), before);
}

#[test]
fn invalid_versions_and_media_types_are_refused() {
    let media = |value| [("Content-Type", value)];
    check(&[
        ("PUT", "J?", &[], Some(GOOD), 400, "MissingApiVersionParameter"),
        ("PUT", "J?api-version=2016-13-01", &[], Some(GOOD), 400, "InvalidApiVersionParameter"),
        ("PUT", "J?V&api-version=2016-01-01", &[], Some(GOOD), 400, "InvalidApiVersionParameter"),
        ("PUT", "J?V", &media("text/plain"), Some(GOOD), 415, "UnsupportedMediaType"),
        ("PUT", "J?V", &media("multipart/form-data"), Some(GOOD), 415, "UnsupportedMediaType"),
        // An empty value suppresses the header.
        ("PUT", "J?V", &media(""), Some(GOOD), 415, "UnsupportedMediaType"),
        (
            "PUT",
            "J?V",
            &media("application/json; charset=utf-16"),
            Some(GOOD),
            415,
            "UnsupportedMediaType",
        ),
        ("PUT", "J?V", &[("Content-Encoding", "gzip")], Some(GOOD), 415, "UnsupportedMediaType"),
        ("PUT", "J?V", &[], Some(&" ".repeat(64 * 1024 + 1)), 413, "RequestEntityTooLarge"),
        ("PUT", "J?V", &[("If-Match", "\"old\"")], Some(GOOD), 412, "PreconditionFailed"),
        ("PUT", "J?V", &[("If-None-Match", "*")], Some(GOOD), 412, "PreconditionFailed"),
    ]);
}

#[test]
fn invalid_names_and_queries_are_refused() {
    let long = format!("JC/jobs/{}?V", "a".repeat(2_000));
    let deep = format!("JC/jobs?V&$filter={}", "(".repeat(4_000));
    check(&[
        ("GET", "JC/jobs/?V", &[], None, 404, "NotFound"),
        ("PUT", "JC/jobs/..%2f..%2fother?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/%2e%2e?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/a%00b?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/a%0ab?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/%E2%80%AEevil?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/%D1%80aypal?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", &long, &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/-?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/1a?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        ("PUT", "JC/jobs/%252e%252e?V", &[], Some(GOOD), 400, "InvalidResourceName"),
        (
            "GET",
            "/subscriptions/not-a-guid/resourceGroups/x?V",
            &[],
            None,
            400,
            "InvalidSubscriptionId",
        ),
        ("PUT", "JCx/jobs/j?V", &[], Some(GOOD), 404, "ResourceNotFound"),
        ("GET", "JC/jobs/none?V", &[], None, 404, "NotFound"),
        ("GET", "/nothing?V", &[], None, 404, "NotFound"),
        ("GET", "JC/jobs?V&$top=0", &[], None, 400, "InvalidQueryParameter"),
        ("GET", "JC/jobs?V&$top=-1", &[], None, 400, "InvalidQueryParameter"),
        ("GET", "JC/jobs?V&$top=101", &[], None, 400, "InvalidQueryParameter"),
        ("GET", "JC/jobs?V&$top=1e3", &[], None, 400, "InvalidQueryParameter"),
        ("GET", "JC/jobs?V&$skip=-5", &[], None, 400, "InvalidQueryParameter"),
        ("GET", "JC/jobs?V&$skip=99999999999999999999", &[], None, 400, "InvalidQueryParameter"),
        // An unreadable query has no API version.
        ("GET", "JC/jobs?V&$filter=%FF", &[], None, 400, "BadRequest"),
        (
            "GET",
            "JC/jobs?V&$filter=state%20eq%20'enabled'%20or%201%20eq%201",
            &[],
            None,
            400,
            "InvalidFilter",
        ),
        ("GET", "JC/jobs?V&$filter=';DROP%20TABLE%20jobs;--", &[], None, 400, "InvalidFilter"),
        ("GET", &deep, &[], None, 400, "InvalidFilter"),
        ("GET", "J/history?V&$filter=status%20eq%20'exploded'", &[], None, 400, "InvalidFilter"),
    ]);
}

#[test]
fn invalid_bodies_are_refused() {
    let nested = "[".repeat(50_000);
    let many: Vec<_> = (0..501).map(|number| format!("\"m{number}\":1")).collect();
    let many = format!("{{{}}}", many.join(","));
    let twice = GOOD.replace("\"state\":", "\"state\":\"Disabled\",\"State\":");
    let large =
        GOOD.replace("http://example.com/x", &format!("http://example.com/{}", "x".repeat(17_000)));
    fn coded<'a>(body: &'a str, code: &'a str) -> Case<'a> {
        ("PUT", "J?V", &[], Some(body), 400, code)
    }
    fn put(body: &str) -> Case<'_> {
        coded(body, "InvalidRequestContent")
    }
    check(&[
        put(""),
        put("null"),
        put("[]"),
        put("\"x\""),
        put("123"),
        put(r#"{"properties":"#),
        put("{} x"),
        put(&nested),
        put(&many),
        put("\u{feff}{}"),
        put(r#"{"properties":"x"}"#),
        put(r#"{"properties":{"action":NaN}}"#),
        put(r#"{"properties":{} /* no comments */}"#),
        coded(&twice, "DuplicateProperty"),
        coded(&GOOD.replace("example.com/x", "example.com/\\u0000"), "InvalidCharacter"),
        coded(&GOOD.replace("\"interval\":1", "\"interval\":0"), "InvalidRecurrence"),
        coded(&GOOD.replace("Enabled", "Completed"), "InvalidJobState"),
        coded(&GOOD.replace("http://example.com/x", "gopher://x"), "UnsupportedUriScheme"),
        coded(&GOOD.replace("example.com", "169.254.169.254"), "DestinationNotAllowed"),
        coded(&GOOD.replace("example.com", "[fe80::1]"), "DestinationNotAllowed"),
        coded(&GOOD.replace("example.com", "8.8.8.8:25"), "PortNotAllowed"),
        (
            "PATCH",
            "J?V",
            &[],
            Some(
                r#"{"properties":{"action":{"errorAction":{"type":"Http","request":{"uri":"http://metadata/","method":"GET"}}}}}"#,
            ),
            400,
            "DestinationNotAllowed",
        ),
        coded(&large, "JobTooLarge"),
        (
            "PATCH",
            "J?V",
            &[],
            Some(r#"{"properties":{"status":{}}}"#),
            400,
            "InvalidRequestContent",
        ),
        ("DELETE", "JC/jobs/none?V", &[], None, 404, "NotFound"),
        ("POST", "JC/jobs/none/run?V", &[], None, 404, "NotFound"),
    ]);
}

#[test]
fn invalid_collections_are_refused() {
    fn put<'a>(body: &'a str, status: u16, code: &'a str) -> Case<'a> {
        ("PUT", "JCx?V", &[], Some(body), status, code)
    }
    let quota = |quota: &str| {
        format!(
            r#"{{"location":"West US","properties":{{"sku":{{"name":"Standard"}},"quota":{quota}}}}}"#
        )
    };
    let tags: Vec<_> = (0..16).map(|number| format!("\"t{number}\":\"\"")).collect();
    let tags = STANDARD.replacen('{', &format!("{{\"tags\":{{{}}},", tags.join(",")), 1);
    check(&[
        put(r#"{"properties":{"sku":{"name":"Standard"}}}"#, 400, "LocationRequired"),
        put(&STANDARD.replace("Standard", "Gold"), 400, "InvalidSku"),
        put(&quota(r#"{"maxJobCount":0}"#), 400, "InvalidQuota"),
        put(&quota(r#"{"maxJobCount":51}"#), 409, "QuotaExceeded"),
        put(
            &quota(r#"{"maxRecurrence":{"frequency":"Second","interval":1}}"#),
            400,
            "InvalidQuota",
        ),
        put(&tags, 400, "InvalidTag"),
        ("PUT", "JC-x!?V", &[], Some(STANDARD), 400, "InvalidResourceName"),
        ("PATCH", "JCx?V", &[], Some(r#"{"tags":{}}"#), 404, "ResourceNotFound"),
        ("DELETE", "JCx?V", &[], None, 404, "ResourceNotFound"),
        ("POST", "JCx/enable?V", &[], None, 404, "ResourceNotFound"),
    ]);
}
