//! `GET /api/jobs`: the jobs of all collections.

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{TIMEOUT, target};
use crate::test_server::TestServer;
use crate::tokens::{STANDARD, code, collection, create, guarded, new, request_as};

/// A job with a description, a target and tags.
fn job(state: &str, description: &str, uri: &str, tag: &str) -> String {
    let action = json!({"type": "Http", "request": {"uri": uri, "method": "GET"}});
    json!({"properties": {
        "action": action, "state": state, "description": description, "tags": {"team": tag},
        "recurrence": {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"},
    }})
    .to_string()
}

fn put(connection: &mut Connection, path: &str, body: &str) {
    let created = connection.request("PUT", path, Some(body));
    assert_eq!(created.status, 201, "{created:?}");
}

fn body(connection: &mut Connection, path: &str) -> Value {
    let response = connection.request("GET", path, None);
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_str(&response.body).unwrap()
}

/// The path in a `nextLink`.
fn next(page: &Value) -> Option<String> {
    let link = page["nextLink"].as_str()?;
    let (_, rest) = link.split_once("//").unwrap();
    Some(rest[rest.find('/').unwrap()..].to_owned())
}

/// The names on all pages of a list.
fn names(connection: &mut Connection, path: &str) -> Vec<String> {
    let (mut path, mut all) = (path.to_owned(), vec![]);
    loop {
        let page = body(connection, &path);
        let values = page["value"].as_array().unwrap();
        all.extend(values.iter().map(|job| job["name"].as_str().unwrap().to_owned()));
        match next(&page) {
            Some(next) => path = next,
            None => return all,
        }
    }
}

fn exact(page: &Value) -> [u64; 6] {
    ["all", "enabled", "disabled", "failing", "completed", "faulted"].map(|state| {
        let counted = &page["counts"][state];
        assert_eq!(counted["more"], false, "{page}");
        counted["count"].as_u64().unwrap()
    })
}

/// A server with jobs in two collections of the default group and one of another.
fn with_jobs() -> (TestServer, Connection) {
    let server = TestServer::start();
    let mut connection = server.connect();
    let plain = |state: &str| job(state, "", "http://example.org/", "none");
    put(&mut connection, "/api/collections/web/jobs/b", &plain("Enabled"));
    put(&mut connection, "/api/collections/web/jobs/A", &plain("Disabled"));
    let export = job("Enabled", "Nightly Export", "http://reports.example.com/run", "Billing");
    put(&mut connection, "/api/collections/batch/jobs/z", &export);
    put(&mut connection, &new(&collection("g", "other")), STANDARD);
    let path = format!("{}/jobs/j", collection("g", "other"));
    put(&mut connection, &new(&path), &plain("Enabled"));
    (server, connection)
}

#[test]
fn jobs_of_all_collections_are_listed_by_collection_and_name() {
    let (_server, mut connection) = with_jobs();
    let all = ["batch/z", "web/A", "web/b", "other/j"];
    for limit in 1..=5 {
        assert_eq!(names(&mut connection, &format!("/api/jobs?limit={limit}")), all, "{limit}");
    }
    let page = body(&mut connection, "/api/jobs");
    let first = &page["value"][0];
    let single = body(&mut connection, "/api/collections/batch/jobs/z");
    for member in ["id", "type", "name", "properties"] {
        assert_eq!(first[member], single[member]);
    }
    assert_eq!(first["collection"], "batch");
    assert_eq!(first["collectionState"], "Enabled");
    assert_eq!(first["scheduleText"], "At 02:30 every day, Europe/Berlin");
    assert_eq!(first["consecutiveFailures"], 0);
    assert_eq!(
        page["value"][3]["collection"],
        collection("g", "other"),
        "not in the default group"
    );
    assert_eq!(exact(&page), [4, 3, 1, 0, 0, 0]);
    assert_eq!(names(&mut connection, "/api/jobs?collection=WEB"), ["web/A", "web/b"]);
    let other = format!("/api/jobs?collection={}", collection("g", "other"));
    assert_eq!(names(&mut connection, &other), ["other/j"]);
}

#[test]
fn a_search_finds_text_in_name_collection_target_description_and_tags() {
    let (_server, mut connection) = with_jobs();
    for (text, expected) in [
        ("Z", vec!["batch/z"]),
        ("BATCH", vec!["batch/z"]),
        ("reports.example.com/RUN", vec!["batch/z"]),
        ("nightly%20exp", vec!["batch/z"]),
        ("billing", vec!["batch/z"]),
        ("team%3dbilling", vec!["batch/z"]),
        ("OTHER", vec!["other/j"]),
        // Words in any order and place; a phrase in quotes.
        ("exp%20nightly", vec!["batch/z"]),
        ("batch%20billing+RUN", vec!["batch/z"]),
        ("other%20nightly", vec![]),
        ("%22nightly%20exp%22%20batch", vec!["batch/z"]),
        ("%22exp%20nightly%22", vec![]),
        ("%25", vec![]),
        // As the job is shown.
        ("Batch/Z", vec!["batch/z"]),
        ("web/example", vec!["web/A", "web/b"]),
        ("batch/", vec!["batch/z"]),
        ("nightly%20batch/z", vec!["batch/z"]),
        ("%22batch/z%22%20billing", vec!["batch/z"]),
        ("none%20batch/z", vec![]),
        ("web/z", vec![]),
        ("absent/z", vec![]),
    ] {
        assert_eq!(names(&mut connection, &format!("/api/jobs?search={text}")), expected, "{text}");
    }
    assert_eq!(names(&mut connection, "/api/jobs?search=web&limit=1"), ["web/A", "web/b"]);
    let disabled = body(&mut connection, "/api/jobs?state=disabled&search=e");
    assert_eq!(disabled["value"].as_array().unwrap().len(), 1);
    assert_eq!(disabled["value"][0]["name"], "web/A");
    assert_eq!(exact(&disabled), [4, 3, 1, 0, 0, 0], "the counts are those of the search");
    let narrow = body(&mut connection, "/api/jobs?state=Completed&search=web");
    assert_eq!(narrow["value"].as_array().unwrap().len(), 0);
    assert_eq!(exact(&narrow), [2, 1, 1, 0, 0, 0]);
}

#[test]
fn later_pages_have_the_counts_of_the_whole_search() {
    let (_server, mut connection) = with_jobs();
    let mut path = "/api/jobs?limit=1&search=e".to_owned();
    for _ in 0..4 {
        let page = body(&mut connection, &path);
        assert_eq!(exact(&page), [4, 3, 1, 0, 0, 0]);
        path = next(&page).unwrap_or_default();
    }
    assert_eq!(path, "");
}

#[test]
fn invalid_parameters_of_a_search_are_rejected() {
    let (_server, mut connection) = with_jobs();
    let long = format!("search={}", "x".repeat(257));
    let words = format!(
        "search={}",
        ["a", "b", "c", "d"].map(|a| format!("{a}0+{a}1+{a}2+{a}3+{a}4")).join("+")
    );
    let queries =
        ["state=busy", "limit=0", "limit=101", "collection=%2Fx", "cursor=x", "colection=x"];
    for query in queries.into_iter().chain([&*long, &*words]) {
        let response = connection.request("GET", &format!("/api/jobs?{query}"), None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{query}");
    }
    let page = body(&mut connection, "/api/jobs?limit=1&search=e");
    let cursor = next(&page).unwrap();
    let cursor = cursor.split_once("cursor=").unwrap().1;
    for query in ["limit=1", "limit=1&search=f", "limit=1&search=e&state=Enabled"] {
        let path = format!("/api/jobs?{query}&cursor={cursor}");
        let response = connection.request("GET", &path, None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{query}");
    }
    let unknown = connection.request("GET", "/api/jobs?collection=none", None);
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let old = connection.request("GET", "/api/jobs?api-version=2016-03-01", None);
    assert_eq!(old.status, 404, "{old:?}");
}

#[test]
fn a_job_fails_from_its_third_failed_run_in_a_row() {
    let (address, calls) = target();
    let server = TestServer::start_working();
    let mut connection = server.connect();
    let action = json!({"type": "Http", "retryPolicy": {"retryType": "None"},
        "request": {"uri": format!("http://{address}/fail"), "method": "GET"}});
    let yearly = json!({"cron": "0 0 1 1 *"});
    let definition = json!({"properties": {"action": action, "recurrence": yearly}}).to_string();
    put(&mut connection, "/api/collections/web/jobs/j", &definition);
    for failures in 1..=3 {
        let run = connection.request("POST", "/api/collections/web/jobs/j/run", None);
        assert_eq!(run.status, 200, "{run:?}");
        calls.recv_timeout(TIMEOUT).unwrap();
        // The server records the response shortly after the target sent it.
        let page = (0..100_000)
            .map(|_| body(&mut connection, "/api/jobs"))
            .find(|page| page["value"][0]["consecutiveFailures"] == failures);
        let failing = u64::from(failures == 3);
        assert_eq!(exact(&page.unwrap()), [1, 1, 0, failing, 0, 0]);
        let found = names(&mut connection, "/api/jobs?state=Failing");
        assert_eq!(found.len() as u64, failing, "{failures}");
    }
}

#[test]
fn a_reader_of_one_collection_sees_no_job_and_no_count_of_another() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let plain = job("Enabled", "secret", "http://example.org/", "none");
    for (group, name) in [("g", "a"), ("g", "b"), ("h", "c")] {
        let path = collection(group, name);
        let create = |connection: &mut Connection, path: &str, body: &str| {
            let created = request_as(connection, &owner, "PUT", &new(path), Some(body));
            assert_eq!(created.status, 201, "{created:?}");
        };
        create(&mut connection, &path, STANDARD);
        create(&mut connection, &format!("{path}/jobs/j-{name}"), &plain);
    }
    let group = collection("g", "x");
    let (group, _) = group.split_once("/providers").unwrap();
    for (scope, expected) in [
        (collection("g", "A"), vec!["a/j-a"]),
        (group.to_owned(), vec!["a/j-a", "b/j-b"]),
        (collection("g", "none"), vec![]),
        ("/".to_owned(), vec!["a/j-a", "b/j-b", "c/j-c"]),
    ] {
        let token = create(server.folder(), "reader", &scope, &[]);
        let mut get = |path: &str| request_as(&mut connection, &token, "GET", path, None);
        for query in ["", "?search=secret", "?search=j-&limit=1", "?state=Enabled"] {
            let mut path = format!("/api/jobs{query}");
            let mut found = vec![];
            loop {
                let response = get(&path);
                let page: Value = serde_json::from_str(&response.body).unwrap();
                let jobs = page["value"].as_array().unwrap();
                found.extend(jobs.iter().map(|job| job["name"].as_str().unwrap().to_owned()));
                assert_eq!(exact(&page)[0], expected.len() as u64, "{scope} {query}");
                match next(&page) {
                    Some(next) => path = next,
                    None => break,
                }
            }
            assert_eq!(found, expected, "{scope} {query}");
        }
        let hidden = get(&format!("/api/jobs?collection={}", collection("h", "c")));
        assert_eq!(hidden.status, if scope == "/" { 200 } else { 404 }, "{hidden:?}");
    }
    // A cursor is valid for its caller only.
    let tokens = [(); 2].map(|()| create(server.folder(), "reader", group, &[]));
    let first = request_as(&mut connection, &tokens[0], "GET", "/api/jobs?limit=1", None);
    let cursor = next(&serde_json::from_str(&first.body).unwrap()).unwrap();
    let own = request_as(&mut connection, &tokens[0], "GET", &cursor, None);
    assert_eq!(own.status, 200, "{own:?}");
    let other = request_as(&mut connection, &tokens[1], "GET", &cursor, None);
    assert_eq!(code(&other), (400, "InvalidQueryParameter".into()));
}

#[test]
fn jobs_are_listed_with_their_statistics_on_request() {
    let server = TestServer::start_working();
    let (address, calls) = target();
    let uri = format!("http://{address}");
    let mut connection = server.connect();
    for name in ["ran", "new"] {
        let path = format!("/api/collections/web/jobs/{name}");
        put(&mut connection, &path, &job("Enabled", "", &uri, "a"));
    }
    let run = connection.request("POST", "/api/collections/web/jobs/ran/run", None);
    assert_eq!(run.status, 200, "{run:?}");
    calls.recv_timeout(TIMEOUT).unwrap();
    let listed = loop {
        let page = body(&mut connection, "/api/jobs?statistics=true");
        if page["value"][1]["statistics"]["running"] == false
            && page["value"][1]["statistics"]["runs"] == 1
        {
            break page;
        }
    };
    assert_eq!(listed["value"][0]["statistics"]["runs"], 0, "{listed}");
    assert_eq!(listed["value"][1]["statistics"]["outcomes"][0]["status"], "Succeeded");
    let alone = body(&mut connection, "/api/collections/web/jobs/ran/statistics");
    assert_eq!(listed["value"][1]["statistics"], alone);
    let plain = body(&mut connection, "/api/jobs");
    assert_eq!(plain["value"][1].get("statistics"), None, "{plain}");
}
