//! `kalends apply`, `diff` and `export`.

use std::path::Path;

use serde_json::{Value, json};

use super::User;
use crate::connection::Connection;
use crate::job_reference;
use crate::target::{TIMEOUT, target, wait_for};
use crate::test_server::{TestServer, clock_library};

fn write(user: &User, name: &str, text: &str) {
    let path = user.home().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn get(connection: &mut Connection, path: &str) -> Value {
    let response = connection.request("GET", path, None);
    assert_eq!(response.status, 200, "{path}: {response:?}");
    serde_json::from_str(&response.body).unwrap()
}

fn etag(connection: &mut Connection, job: &str) -> String {
    let path = format!("/api/collections/{}", job.replace('/', "/jobs/"));
    let response = connection.request("GET", &path, None);
    response.header("ETag").unwrap_or_else(|| panic!("{job}: {response:?}")).to_owned()
}

/// A collection of recurring jobs, every second with a frequency instead of a cron expression.
fn many_jobs(number: usize, uri: &str) -> String {
    let mut text = "collection: many\njobs:\n".to_owned();
    for n in 0..number {
        let recurrence = match n % 2 {
            0 => format!("{{cron: \"{} 3 * * *\"}}", n % 60),
            _ => format!("{{frequency: Day, schedule: {{hours: [3], minutes: [{}]}}}}", n % 60),
        };
        text += &format!(
            "  job-{n}:\n    action: {{type: Http, request: {{uri: \"{uri}{n}\", method: GET}}}}\n    recurrence: {recurrence}\n"
        );
    }
    text
}

#[test]
fn one_changed_line_changes_one_job_and_starts_no_run() {
    let (address, calls) = target();
    let server = TestServer::start_working();
    let user = User::of(&server);
    let text = many_jobs(120, &format!("http://{address}/"));
    write(&user, "many.yaml", &text);
    let diff = user.run(&["diff", "-f", "many.yaml"]);
    assert_eq!(diff.status, 1, "{diff:?}");
    assert!(diff.stdout.ends_with("120 to create, 0 to change, 0 to delete, 0 unchanged\n"));
    user.ok(&["apply", "-f", "many.yaml"]);
    let same = user.run(&["diff", "-f", "many.yaml"]);
    assert_eq!((same.status, same.stdout.lines().count()), (0, 1), "{same:?}");
    let names: Vec<_> = (0..120).map(|n| format!("many/job-{n}")).collect();
    let etags = || -> Vec<_> {
        let mut connection = server.connect();
        names.iter().map(|job| etag(&mut connection, job)).collect()
    };
    let before = etags();

    write(
        &user,
        "many.yaml",
        &text.replace("\"17 3 * * *\"", "\"17 4 * * *\"").replacen(
            "minutes: [19]",
            "minutes: [20]",
            1,
        ),
    );
    let diff = user.run(&["diff", "--utc", "-f", "many.yaml"]);
    assert_eq!(diff.status, 1, "{diff:?}");
    let named: Vec<_> =
        diff.stdout.lines().filter(|line| line.starts_with(['+', '-', '~'])).collect();
    assert_eq!(named, ["~ many/job-19"], "{diff:?}");
    assert!(diff.stdout.contains("recurrence.schedule.minutes: [19] -> [20]"), "{diff:?}");
    assert!(diff.stdout.contains("schedule before: At 03:19 every day, UTC"), "{diff:?}");
    assert!(diff.stdout.contains("schedule after: At 03:20 every day, UTC"), "{diff:?}");
    assert_eq!(diff.stdout.matches(" 03:19:00Z").count(), 5, "{diff:?}");
    user.ok(&["apply", "-f", "many.yaml"]);
    let after = etags();
    let changed: Vec<_> =
        names.iter().zip(before.iter().zip(&after)).filter(|(_, (a, b))| a != b).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0].0, "many/job-19");
    assert!(calls.try_recv().is_err(), "nothing ran");
    let mut connection = server.connect();
    for name in ["job-1", "job-2", "job-19"] {
        let job = get(&mut connection, &format!("/api/collections/many/jobs/{name}"));
        assert_eq!(job["properties"]["status"]["executionCount"], 0, "{job}");
    }
}

#[test]
fn an_absent_start_time_or_state_keeps_the_stored_one() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let user = User::of(&server);
    let job = |timeout: &str| {
        format!(
            "action: {{type: Http, request: {{uri: http://example.org/, method: GET}}}}\nrecurrence: {{frequency: Hour, interval: 6}}\ntimeout: {timeout}\n"
        )
    };
    write(&user, "web/six.yaml", &job("PT1M"));
    user.ok(&["apply", "-f", "web"]);
    let path = "/api/collections/web/jobs/six";
    let start = get(&mut connection, path)["properties"]["startTime"].clone();
    assert!(start.is_string(), "the next match");
    let disabled = json!({"properties": {"state": "Disabled"}}).to_string();
    assert_eq!(connection.request("PATCH", path, Some(&disabled)).status, 200);
    assert_eq!(user.run(&["diff", "-f", "web"]).status, 0);
    write(&user, "web/six.yaml", &job("PT2M"));
    user.ok(&["apply", "-f", "web/six.yaml"]);
    let properties = &get(&mut connection, path)["properties"];
    assert_eq!((&properties["startTime"], &properties["state"]), (&start, &json!("Disabled")));
    assert_eq!(properties["timeout"], "PT2M");
}

#[test]
fn a_job_that_would_run_at_once_is_reported_and_not_created() {
    let (address, calls) = target();
    let server = TestServer::start_working();
    let user = User::of(&server);
    let action =
        format!("action: {{type: Http, request: {{uri: \"http://{address}/\", method: GET}}}}");
    write(
        &user,
        "web.yaml",
        &format!(
            "jobs:\n  past: {{startTime: 2020-01-01T00:00:00Z, {action}}}\n  now: {{{action}}}\n  later: {{startTime: 2027-12-01T00:00:00Z, {action}}}\n  rest: {{startTime: 2020-01-01T00:00:00Z, state: Disabled, {action}}}\n"
        ),
    );
    let applied = user.ok(&["apply", "-f", "web.yaml"]);
    assert!(
        applied.contains("! web/past: not created: The job runs once, and its time has passed"),
        "{applied}"
    );
    assert!(
        applied.contains("! web/now: not created: The job runs once and has no start time"),
        "{applied}"
    );
    assert!(
        applied.contains("2 to create, 0 to change, 0 to delete, 0 unchanged, 2 left alone"),
        "{applied}"
    );
    assert_eq!(user.run(&["diff", "-f", "web.yaml"]).status, 0, "stale definitions do not fail CI");
    write(
        &user,
        "web.yaml",
        &format!(
            "jobs:\n  later: {{startTime: 2020-02-01T00:00:00Z, {action}}}\n  rest: {{startTime: 2020-01-01T00:00:00Z, state: Enabled, {action}}}\n"
        ),
    );
    let applied = user.ok(&["apply", "-f", "web.yaml"]);
    assert!(applied.contains("! web/later: not changed: it runs once"), "{applied}");
    assert!(applied.contains("! web/rest: not changed: it runs once"), "{applied}");
    let jobs = get(&mut server.connect(), "/api/collections/web/jobs");
    let names: Vec<_> =
        jobs["value"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web/later", "web/rest"]);
    assert!(calls.try_recv().is_err(), "nothing ran");
}

#[test]
fn secrets_come_from_variables_and_files_and_are_never_printed() {
    let server = TestServer::start();
    let user = User::of(&server).with("SHOP_PASSWORD", "canary-1");
    let job = "action:\n  type: Https\n  request:\n    uri: https://shop.example.org/?sig=${file:sig}\n    method: GET\n    headers: {Authorization: \"Bearer ${file:../token}\", X-Plain: \"${env:SHOP_PASSWORD}\"}\n    authentication: {type: Basic, username: u, password: \"${env:SHOP_PASSWORD}\"}\nrecurrence: {cron: 0 2 * * *}\n";
    write(&user, "web/shop.yaml", job);
    write(&user, "web/sig", "canary-2\n");
    write(&user, "token", "canary-3\n");
    let created = user.run(&["apply", "-f", "web"]);
    assert_eq!(created.status, 0, "{created:?}");
    assert_eq!(user.run(&["diff", "-f", "web"]).status, 0, "the server compares secrets");
    write(&user, "token", "canary-4\n");
    let diff = user.run(&["diff", "-f", "web"]);
    assert_eq!(diff.status, 1, "{diff:?}");
    assert!(diff.stdout.contains("a secret: (hidden) -> (hidden)"), "{diff:?}");
    let changed = user.run(&["apply", "-f", "web"]);
    assert_eq!(changed.status, 0, "{changed:?}");
    let other = User::of(&server).with("SHOP_PASSWORD", "canary-5");
    for (name, text) in [("web/shop.yaml", job), ("web/sig", "canary-2"), ("token", "canary-4")] {
        write(&other, name, text);
    }
    let plain = other.run(&["diff", "-f", "web", "-o", "json"]);
    assert_eq!(plain.status, 1, "{plain:?}");
    assert!(plain.stdout.contains("action.request.headers.X-Plain"), "{plain:?}");
    for printed in [&created, &diff, &changed, &plain] {
        assert!(!format!("{printed:?}").contains("canary"), "{printed:?}");
    }
    let missing = User::of(&server);
    write(&missing, "web/shop.yaml", job);
    missing.fails(&["apply", "-f", "web"], 2, "web/shop.yaml:4: web/shop: cannot read");
}

#[test]
fn an_invalid_definition_changes_nothing() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let user = User::of(&server);
    let action = "action: {type: Http, request: {uri: http://example.org/, method: GET}}";
    write(
        &user,
        "jobs/web.yaml",
        &format!("jobs:\n  good:\n    {action}\n    recurrence: {{cron: 0 2 * * *}}\n"),
    );
    write(
        &user,
        "jobs/etl.yaml",
        &format!("jobs:\n  bad:\n    {action}\n    recurrence:\n      cron: 0 2 31 2 *\n"),
    );
    let message = user.fails(
        &["apply", "-f", "jobs"],
        2,
        "jobs/etl.yaml:4: etl/bad: properties.recurrence must match",
    );
    assert!(!message.contains("good"), "{message}");
    write(&user, "jobs/etl.yaml", &format!("jobs:\n  bad:\n    {action}\n    recurence: {{}}\n"));
    user.fails(
        &["apply", "-f", "jobs"],
        2,
        "jobs/etl.yaml:4: etl/bad: properties.recurence is unknown",
    );
    assert_eq!(connection.request("GET", "/api/collections/web", None).status, 404);
    user.fails(&["diff", "-f", "nothing"], 2, "nothing: ");
}

#[test]
fn pruning_deletes_jobs_that_no_file_has_once_it_is_confirmed() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let user = User::of(&server);
    let action = "action: {type: Http, request: {uri: http://example.org/, method: GET}}, recurrence: {cron: 0 2 * * *}";
    write(&user, "a.yaml", &format!("collection: web\njobs: {{one: {{{action}}}, two: {{{action}}}}}\n---\ncollection: etl\njobs: {{three: {{{action}}}}}\n").replace("0 2 * * *", "\"0 2 * * *\""));
    user.ok(&["apply", "-f", "a.yaml"]);
    write(
        &user,
        "b.yaml",
        &format!("collection: web\njobs: {{two: {{{action}}}}}\n")
            .replace("0 2 * * *", "\"0 2 * * *\""),
    );
    assert_eq!(user.run(&["diff", "-f", "b.yaml"]).status, 0);
    let diff = user.run(&["diff", "-f", "b.yaml", "--prune"]);
    assert_eq!(diff.status, 1);
    assert!(
        diff.stdout.contains("- web/one\n    schedule before: At 02:00 every day, UTC"),
        "{diff:?}"
    );
    user.fails(
        &["apply", "-f", "b.yaml", "--prune"],
        2,
        "would delete 1 jobs; confirm it with --yes",
    );
    assert_eq!(connection.request("GET", "/api/collections/web/jobs/one", None).status, 200);
    user.ok(&["apply", "-f", "b.yaml", "--prune", "--yes"]);
    assert_eq!(connection.request("GET", "/api/collections/web/jobs/one", None).status, 404);
    assert_eq!(connection.request("GET", "/api/collections/web/jobs/two", None).status, 200);
    assert_eq!(connection.request("GET", "/api/collections/etl/jobs/three", None).status, 200);
    write(&user, "c.yaml", "collection: web\njobs: {}\n");
    user.ok(&["apply", "-f", "c.yaml", "--prune", "--yes"]);
    assert_eq!(connection.request("GET", "/api/collections/web/jobs/two", None).status, 404);
}

/// Definitions with every secret, in addition to the examples of the job reference.
fn secret_jobs() -> Vec<(&'static str, Value)> {
    let queue = json!({"type": "StorageQueue", "queueMessage": {"storageAccount": "account1",
        "queueName": "queue1", "sasToken": "canary", "message": "${env:HOME} and $${env:HOME}"}});
    let topic = json!({"type": "ServiceBusTopic", "serviceBusTopicMessage": {"namespace": "namespace1",
        "topicPath": "t", "message": "line 1\nline 2\n", "transportType": "AMQP",
        "authentication": {"type": "SharedAccessKey", "sasKeyName": "name", "sasKey": "canary"}}});
    let request = |authentication: Value| {
        json!({"type": "Https", "request": {"uri": "https://example.org/?a=1&sig=canary&code=canary#f",
            "method": "POST", "body": " text: with\ttab", "headers": {"Authorization": "Bearer canary",
            "X-Api-Key": "canary", "Cookie": "a=canary", "Accept": "*/*"}, "authentication": authentication}})
    };
    let oauth = json!({"type": "ActiveDirectoryOAuth", "tenant": "contoso.com", "clientId": "client",
        "audience": "https://api.example.com/", "secret": "canary"});
    let basic = json!({"type": "Basic", "username": "user", "password": "canary"});
    let mut with_queue = request(oauth);
    with_queue["errorAction"] = queue.clone();
    let mut with_http = topic;
    with_http["errorAction"] = request(basic);
    let job = |action: Value| {
        json!({"properties": {"action": action, "state": "Disabled",
        "recurrence": {"frequency": "Day", "interval": 3}}})
    };
    let brokered = json!({"type": "ServiceBusQueue", "serviceBusQueueMessage": {
        "namespace": "namespace1", "queueName": "q/r", "message": "", "transportType": "NetMessaging",
        "authentication": {"type": "SharedAccessKey", "sasKeyName": "name", "sasKey": "canary"},
        "customMessageProperties": {"On": "yes", "a b": "c: d"},
        "brokeredMessageProperties": {"contentType": "text/plain", "correlationId": "c",
            "forcePersistence": true, "label": "l", "messageId": "m", "partitionKey": "p",
            "replyTo": "r", "replyToSessionId": "rs", "scheduledEnqueueTimeUtc": "2026-12-01T00:00:00Z",
            "sessionId": "p", "timeToLive": "1.00:00:00", "to": "t", "viaPartitionKey": "v"}}});
    vec![
        ("oauth-and-queue", job(with_queue)),
        ("topic-and-basic", job(with_http)),
        ("queue", job(queue)),
        ("brokered", job(brokered)),
    ]
}

#[test]
fn exported_definitions_apply_to_nothing() {
    let Some(library) = clock_library() else {
        return eprintln!("SKIPPED: the package faketime is not installed");
    };
    let server = TestServer::start_at(&library, job_reference::NOW);
    let mut connection = server.connect();
    let examples =
        job_reference::examples().into_iter().map(|(name, body)| (name, body.to_owned()));
    let secrets = secret_jobs().into_iter().map(|(name, body)| (name, body.to_string()));
    let mut jobs = Vec::new();
    for (name, body) in examples.chain(secrets) {
        let put =
            connection.request("PUT", &format!("/api/collections/web/jobs/{name}"), Some(&body));
        assert_eq!(put.status, 201, "{name}: {put:?}");
        jobs.push(format!("web/{name}"));
    }
    let before: Vec<_> = jobs.iter().map(|job| etag(&mut connection, job)).collect();
    let user = User::of(&server);
    user.ok(&["export", "-o", "tree"]);
    user.ok(&["export", "web", "-o", "flat", "--one-file"]);
    let whole = user.ok(&["export"]);
    write(&user, "whole.yaml", &whole);
    for path in ["tree", "flat", "whole.yaml"] {
        let diff = user.run(&["diff", "-f", path, "--prune"]);
        let expected = format!("0 to create, 0 to change, 0 to delete, {} unchanged\n", jobs.len());
        assert_eq!((diff.status, diff.stdout), (0, expected), "{path}: {}", diff.stderr);
        user.ok(&["apply", "-f", path, "--prune"]);
    }
    let mut connection = server.connect();
    let after: Vec<_> = jobs.iter().map(|job| etag(&mut connection, job)).collect();
    assert_eq!(before, after);
    assert_eq!(files(&user.home().join("tree/web")), jobs.len());
    assert!(!whole.contains("canary"), "{whole}");
    assert!(whole.contains("${stored}") && whole.contains("state: Disabled"), "{whole}");
    assert!(!whole.contains("state: Enabled"), "{whole}");
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn headers_that_a_setting_makes_secret_are_not_exported() {
    let server = TestServer::start_with(|command, _| {
        command.env("KALENDS_SECRETS_HEADERS", "X-Shop-Token");
    });
    let user = User::of(&server).with("TOKEN", "canary");
    let job = "action: {type: Http, request: {uri: http://example.org/, method: GET, headers: {X-Shop-Token: \"${env:TOKEN}\", Accept: \"*/*\"}}}\nrecurrence: {cron: 0 2 * * *}\n";
    write(&user, "web/shop.yaml", job);
    user.ok(&["apply", "-f", "web"]);
    let exported = user.ok(&["export"]);
    assert!(!exported.contains("canary") && exported.contains("Accept: \"*/*\""), "{exported}");
    write(&user, "all.yaml", &exported);
    assert_eq!(user.run(&["diff", "-f", "all.yaml"]).status, 0);
}

#[test]
fn a_finished_job_is_left_alone() {
    let (address, calls) = target();
    let server = TestServer::start_working();
    let path = "/api/collections/web/jobs/once";
    let job = json!({"properties": {"action": {"type": "Http",
        "request": {"uri": format!("http://{address}/"), "method": "GET"}}}});
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", path, Some(&job.to_string())).status, 201);
    assert!(calls.recv_timeout(TIMEOUT).is_ok());
    let completed = || {
        let job = get(&mut connection, path);
        (job["properties"]["state"] == "Completed").then_some(())
    };
    assert!(wait_for(completed).is_some());
    let user = User::of(&server);
    user.ok(&["export", "-o", "jobs"]);
    let applied = user.ok(&["apply", "-f", "jobs"]);
    assert_eq!(applied, "0 to create, 0 to change, 0 to delete, 1 unchanged\n");
    assert!(calls.try_recv().is_err(), "it ran once");
}
