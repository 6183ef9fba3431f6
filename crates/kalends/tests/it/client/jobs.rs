//! Creating and changing jobs.

use serde_json::{Value, json};

use super::User;
use crate::target::{TIMEOUT, target};
use crate::test_server::TestServer;

#[test]
fn the_common_job_needs_no_json() {
    let server = TestServer::start();
    let user = User::of(&server);
    let created = user.ok(&[
        "job",
        "create",
        "nightly",
        "--cron",
        "30 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--post",
        "https://example.com/export",
        "--retry",
        "4x30s",
        "--on-failure",
        "https://example.com/alert",
        "--header",
        "X-Team: billing",
        "--body",
        "{}",
        "--timeout",
        "5m",
        "--overlap",
        "queue-one",
        "--jitter",
        "90s",
        "--tag",
        "team=billing",
        "--description",
        "Exports invoices",
    ]);
    assert!(created.starts_with("job default/nightly created; next run 20"), "{created}");
    assert!(created.contains("02:30:00+0"), "in the zone of the user: {created}");
    let mut job = user.json(&["job", "show", "nightly"]);
    job["properties"].as_object_mut().unwrap().remove("status");
    assert_eq!(
        job["properties"],
        json!({
            "description": "Exports invoices",
            "tags": {"team": "billing"},
            "action": {
                "type": "Https",
                "request": {
                    "uri": "https://example.com/export",
                    "method": "POST",
                    "headers": {"X-Team": "billing"},
                    "body": "{}"
                },
                "retryPolicy": {"retryType": "Fixed", "retryInterval": "PT30S", "retryCount": 4},
                "errorAction": {
                    "type": "Https",
                    "request": {"uri": "https://example.com/alert", "method": "POST"}
                }
            },
            "recurrence": {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"},
            "overlap": "QueueOne",
            "jitter": "PT1M30S",
            "timeout": "PT5M",
            "state": "Enabled"
        })
    );
    user.fails(
        &["job", "create", "nightly", "--every", "day", "--get", "https://example.com/"],
        4,
        "the job default/nightly exists already; `kalends job edit default/nightly` changes it",
    );
}

#[test]
fn passwords_and_bodies_come_from_files() {
    let server = TestServer::start();
    let user = User::of(&server);
    std::fs::write(user.home().join("body.json"), "{\"a\": 1}").unwrap();
    let create = |name: &str, password: &[&str], input: &str| {
        let flags = ["job", "create", name, "--in", "1h", "--put", "https://example.com/"];
        let flags: Vec<_> = flags.iter().chain(password).copied().collect();
        user.run_with(&flags, input)
    };
    let created =
        create("a", &["--body", "@body.json", "--basic", "u", "--password-file", "-"], "s3cret\n");
    assert_eq!(created.status, 0, "{created:?}");
    let request = &user.json(&["job", "show", "a"])["properties"]["action"]["request"];
    assert_eq!(request["body"], "{\"a\": 1}");
    assert_eq!(request["authentication"], json!({"type": "Basic", "username": "u"}));
    assert_eq!(create("b", &["--basic", "u"], "").status, 2, "--password-file is missing");
    assert_eq!(create("b", &["--body", "@nothing"], "").status, 2);
}

/// Counts the calls that a target received when a last, awaited run has ended.
fn calls_of(definitions: &[&[&str]]) -> Vec<String> {
    let server = TestServer::start_working();
    let user = User::of(&server);
    let (address, calls) = target();
    let url = |path: &str| format!("http://{address}/{path}");
    for (number, flags) in definitions.iter().enumerate() {
        let (name, url) = (format!("j{number}"), url(&format!("j{number}")));
        let flags: Vec<_> =
            ["job", "create", &name, "--post", &url].iter().chain(*flags).copied().collect();
        user.ok(&flags);
    }
    user.ok(&["job", "create", "last", "--in", "1h", "--post", &url("last")]);
    user.ok(&["job", "run", "last", "--wait"]);
    let mut lines = Vec::new();
    loop {
        let line = calls.recv_timeout(TIMEOUT).unwrap().line;
        if line.contains("/last") {
            return lines;
        }
        lines.push(line);
    }
}

#[test]
fn a_new_job_never_runs_at_once_unless_the_user_says_now() {
    let recurring: [&[&str]; 5] = [
        &["--every", "day"],
        &["--every", "15min"],
        &["--every", "week", "--on", "mon-fri", "--at", "05:15"],
        &["--cron", "0 0 1 1 *"],
        &["--in", "2h"],
    ];
    assert_eq!(calls_of(&recurring), Vec::<String>::new());
    for flags in [&["--every", "day", "--now"][..], &["--cron", "0 0 1 1 *", "--now"], &["--now"]] {
        assert_eq!(calls_of(&[flags]), ["POST /j0 HTTP/1.1"], "{flags:?}");
    }
}

#[test]
fn a_single_run_needs_a_time() {
    let server = TestServer::start();
    let user = User::of(&server);
    let create = ["job", "create", "once", "--get", "https://example.com/"];
    let with = |more: &[&'static str]| {
        create.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>()
    };
    user.fails(&create, 2, "the job has no schedule; give --cron or --every");
    user.fails(&with(&["--start", "2020-01-01"]), 2, "would run at once");
    user.fails(&["job", "create", "once", "--in", "1h"], 2, "the job has no action");
    user.ok(&with(&["--start", "2020-01-01", "--disabled"]));
    assert_eq!(user.json(&["job", "show", "once"])["properties"]["state"], "Disabled");
}

#[test]
fn a_definition_file_does_not_run_at_once_either() {
    let server = TestServer::start();
    let user = User::of(&server);
    let action =
        json!({"type": "Http", "request": {"uri": "http://example.com/", "method": "GET"}});
    let recurring = json!({"action": action, "recurrence": {"frequency": "Hour"}}).to_string();
    let created = user.run_with(&["job", "create", "hourly", "-f", "-"], &recurring);
    assert_eq!(created.status, 0, "{created:?}");
    let start = user.json(&["job", "show", "hourly"])["properties"]["startTime"].clone();
    assert!(start.is_string(), "{start}");
    let once = json!({"properties": {"action": action}}).to_string();
    let refused = user.run_with(&["job", "create", "once", "-f", "-"], &once);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("--now to run it at once"), "{refused:?}");
    let broken = user.run_with(&["job", "create", "once", "-f", "-"], "{");
    assert!(broken.status == 2 && broken.stderr.contains("standard input: EOF"), "{broken:?}");
    // Any action, and flags change the file.
    let queue = json!({"action": {"type": "StorageQueue", "queueMessage": {
        "storageAccount": "contoso", "queueName": "exports", "sasToken": "c2FzIHRva2Vu", "message": "go"}}});
    let flags = ["job", "create", "web/queue", "-f", "-", "--cron", "@daily"];
    let created = user.run_with(&flags, &queue.to_string());
    assert_eq!(created.status, 0, "{created:?}");
    let listed = user.ok(&["job", "list", "-c", "web", "-o", "wide"]);
    assert!(listed.contains("contoso/exports"), "{listed}");
}

#[test]
fn a_dry_run_shows_the_first_runs_and_creates_nothing() {
    let server = TestServer::start();
    let user = User::of(&server);
    let flags = [
        "job",
        "create",
        "web/a",
        "--cron",
        "0 3 * * *",
        "--get",
        "https://example.com/",
        "--dry-run",
    ];
    let shown = user.ok(&flags);
    assert!(
        shown.starts_with("job web/a would be created; state Enabled\nAt 03:00 every day, UTC\n"),
        "{shown}"
    );
    assert!(shown.contains("next runs:\n  20"), "{shown}");
    assert_eq!(user.ok(&["collection", "list", "-o", "name"]), "");
    user.ok(&["collection", "create", "web"]);
    assert!(user.ok(&flags).starts_with("job web/a would be created; state Enabled\nAt 03:00"));
    assert_eq!(user.ok(&["job", "list", "-o", "name"]), "");
    let message = user.fails(
        &["job", "create", "a", "--cron", "0 3 31 2 *", "--get", "https://example.com/"],
        4,
        "400-year cycle",
    );
    assert!(!message.contains("hint"), "the message says what to do: {message}");
}

fn create_jobs(user: &User) {
    for name in ["web/one", "web/two", "etl/three"] {
        let tag = format!("team={}", &name[..3]);
        user.ok(&[
            "job",
            "create",
            name,
            "--every",
            "day",
            "--get",
            "https://example.com/",
            "--tag",
            &tag,
        ]);
    }
}

fn states(user: &User) -> Vec<String> {
    let jobs = user.json(&["job", "list"]);
    let state =
        |job: &Value| format!("{} {}", job["name"], job["properties"]["state"]).replace('"', "");
    jobs.as_array().unwrap().iter().map(state).collect()
}

#[test]
fn several_jobs_are_switched_and_deleted_at_once() {
    let server = TestServer::start();
    let user = User::of(&server);
    create_jobs(&user);
    let printed = user.ok(&["job", "disable", "web/one", "etl/three"]);
    assert_eq!(printed, "job web/one disabled\njob etl/three disabled\n");
    assert_eq!(states(&user), ["etl/three Disabled", "web/one Disabled", "web/two Enabled"]);
    assert_eq!(user.ok(&["job", "disable", "web/one"]), "job web/one was disabled already\n");
    assert_eq!(
        user.ok(&["job", "enable", "one", "-c", "web", "--dry-run"]),
        "job web/one would be enabled\n"
    );
    let partly = user.run(&["job", "enable", "web/one", "web/nothing", "etl/three"]);
    assert_eq!(partly.status, 3, "{partly:?}");
    assert_eq!(partly.stdout, "job web/one enabled\njob etl/three enabled\n");
    assert!(
        partly.stderr.contains("error: web/nothing: ") && partly.stderr.contains("1 of 3 failed"),
        "{partly:?}"
    );
    let matching = user.ok(&["job", "delete", "-c", "web", "--tag", "team=web", "--dry-run"]);
    assert_eq!(matching, "job web/one would be deleted\njob web/two would be deleted\n");
    user.ok(&["job", "delete", "-c", "web", "--tag", "team=web"]);
    assert_eq!(states(&user), ["etl/three Enabled"]);
    user.fails(&["job", "delete", "etl/none"], 3, "none");
    user.fails(&["collection", "delete", "etl"], 2, "has jobs; --with-jobs");
    user.ok(&["collection", "delete", "etl", "--with-jobs"]);
}

#[test]
fn lists_are_filtered() {
    let server = TestServer::start();
    let user = User::of(&server);
    create_jobs(&user);
    user.ok(&["job", "disable", "web/two"]);
    let names = |flags: &[&str]| {
        let flags: Vec<_> = ["job", "list", "-o", "name"].iter().chain(flags).copied().collect();
        user.ok(&flags).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["etl/three", "web/one", "web/two"]);
    assert_eq!(names(&["-c", "web"]), ["web/one", "web/two"]);
    assert_eq!(names(&["--state", "disabled"]), ["web/two"]);
    assert_eq!(names(&["--tag", "team=etl"]), ["etl/three"]);
    assert_eq!(names(&["--filter", "contains(name,'TW')"]), ["web/two"]);
    assert_eq!(names(&["-n", "2"]), ["etl/three", "web/one"]);
    user.fails(&["job", "list", "--filter", "size eq 1"], 4, "");
    user.fails(&["job", "list", "--state", "gone"], 2, "enabled, disabled, completed or faulted");
    user.fails(&["job", "list", "-c", "nothing"], 3, "");
}

#[test]
fn all_pages_of_a_list_are_read() {
    let server = TestServer::start();
    let user = User::of(&server);
    let mut connection = server.connect();
    let action =
        json!({"type": "Http", "request": {"uri": "http://example.com/", "method": "GET"}});
    let job =
        json!({"properties": {"action": action, "recurrence": {"cron": "@daily"}}}).to_string();
    for number in 0..230 {
        let path = format!("/api/collections/web/jobs/j{number:03}");
        assert_eq!(connection.request("PUT", &path, Some(&job)).status, 201);
    }
    let names = user.ok(&["job", "list", "-o", "name"]);
    assert_eq!(names.lines().count(), 230);
    assert_eq!(names.lines().last(), Some("web/j229"));
    assert_eq!(user.ok(&["job", "list", "-o", "name", "-n", "101"]).lines().count(), 101);
}
