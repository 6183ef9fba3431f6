//! `kalends job edit` and `kalends job preview`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::User;
use crate::test_server::TestServer;

fn create(user: &User) {
    user.ok(&[
        "job",
        "create",
        "a",
        "--every",
        "week",
        "--on",
        "mon,fri",
        "--at",
        "05:15",
        "--get",
        "https://example.com/",
    ]);
}

#[test]
fn flags_change_only_what_they_name() {
    let server = TestServer::start();
    let user = User::of(&server);
    create(&user);
    let before = user.json(&["job", "show", "a"])["properties"].clone();
    assert_eq!(user.ok(&["job", "edit", "a", "--timeout", "5m"]), "job default/a changed\n");
    let mut after = user.json(&["job", "show", "a"])["properties"].clone();
    assert_eq!(after.as_object_mut().unwrap().remove("timeout"), Some(json!("PT5M")));
    assert_eq!(after, before);
    // A new pattern replaces the whole former one.
    user.ok(&["job", "edit", "a", "--every", "day", "--hours", "6"]);
    let recurrence = user.json(&["job", "show", "a"])["properties"]["recurrence"].clone();
    assert_eq!(recurrence, json!({"frequency": "Day", "interval": 1, "schedule": {"hours": [6]}}));
    user.ok(&["job", "edit", "a", "--cron", "0 3 * * *"]);
    assert_eq!(
        user.json(&["job", "show", "a"])["properties"]["recurrence"],
        json!({"cron": "0 3 * * *"})
    );
    user.ok(&["job", "edit", "a", "--every", "2h"]);
    let recurrence = user.json(&["job", "show", "a"])["properties"]["recurrence"].clone();
    assert_eq!(recurrence, json!({"frequency": "Hour", "interval": 2}));
    user.ok(&["job", "edit", "a", "--post", "http://example.com/b", "--retry", "none"]);
    let action = user.json(&["job", "show", "a"])["properties"]["action"].clone();
    assert_eq!((&action["type"], &action["request"]["method"]), (&json!("Http"), &json!("POST")));
    let shown = user.ok(&["job", "edit", "a", "--cron", "0 4 * * *", "--dry-run"]);
    assert!(
        shown.starts_with("job default/a would change; state Enabled\nAt 04:00 every day, UTC\n"),
        "{shown}"
    );
    assert_eq!(user.json(&["job", "show", "a"])["properties"]["recurrence"]["frequency"], "Hour");
    user.fails(&["job", "edit", "nothing", "--retry", "none"], 3, "nothing");
}

/// A user whose editor is a script.
fn with_editor(user: User, script: &str) -> User {
    let path = user.home().join("my editor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let command = format!("'{}' --wait", path.display());
    user.with("EDITOR", &command)
}

#[test]
fn an_editor_changes_the_json_and_keeps_secrets() {
    let server = TestServer::start();
    let user = User::of(&server);
    create(&user);
    let flags = ["job", "edit", "a", "--basic", "u", "--password-file", "-"];
    assert_eq!(user.run_with(&flags, "s3cret").status, 0);
    let user = with_editor(
        user,
        "cp \"$2\" shown.json; sed -i 's/mon/x/; s/\\[\\s*15\\s*\\]/[45]/; s/15$/45/' \"$2\"",
    );
    let printed = user.ok(&["job", "edit", "a"]);
    assert!(
        printed.contains("would change") && printed.ends_with("job default/a changed\n"),
        "{printed}"
    );
    let shown = std::fs::read_to_string(user.home().join("shown.json")).unwrap();
    assert!(shown.contains("\"password\": \"${stored}\"") && !shown.contains("s3cret"), "{shown}");
    assert!(!shown.contains("status") && !shown.contains("\"id\""), "{shown}");
    let after = user.json(&["job", "show", "a"])["properties"].clone();
    assert_eq!(after["recurrence"]["schedule"]["minutes"], json!([45]));
    let unchanged = with_editor(User::of(&server), "true");
    assert_eq!(unchanged.ok(&["job", "edit", "a"]), "job default/a not changed\n");
    let broken = with_editor(User::of(&server), "echo '{' > \"$2\"");
    broken.fails(&["job", "edit", "a"], 2, "the edited definition: EOF");
    let refused = with_editor(User::of(&server), "sed -i 's/Friday/Freitag/' \"$2\"");
    refused.fails(&["job", "edit", "a"], 4, "Freitag");
    let failing = with_editor(User::of(&server), "exit 3");
    failing.fails(&["job", "edit", "a"], 1, "the editor");
    assert_eq!(user.json(&["job", "show", "a"])["properties"], after);
}

#[test]
fn an_edit_does_not_overwrite_that_of_another_user() {
    let server = TestServer::start();
    let user = User::of(&server);
    create(&user);
    // The editor saves while another user changes the job.
    let other = format!(
        "{} job edit a --timeout 9m -q --server http://{} && sed -i 's/GET/PUT/' \"$2\"",
        env!("CARGO_BIN_EXE_kalends"),
        server.address
    );
    let user = with_editor(user, &other);
    let message = user.fails(&["job", "edit", "a"], 4, "");
    assert!(message.contains("hint: another user changed it meanwhile"), "{message}");
    let job = user.json(&["job", "show", "a"])["properties"].clone();
    assert_eq!(
        (&job["timeout"], &job["action"]["request"]["method"]),
        (&json!("PT9M"), &json!("GET"))
    );
}

#[test]
fn a_preview_shows_the_effect_of_a_file() {
    let server = TestServer::start();
    let user = User::of(&server);
    create(&user);
    let mut job = user.json(&["job", "show", "a"]);
    let file = user.home().join("job.json");
    let preview = ["job", "preview", "a", "-f", "job.json"];
    std::fs::write(&file, job.to_string()).unwrap();
    assert!(user.ok(&preview).starts_with("job default/a would not change; state Enabled\n"));
    job["properties"]["recurrence"] = json!({"cron": "0 3 * * *"});
    std::fs::write(&file, job.to_string()).unwrap();
    assert!(user.ok(&preview).starts_with("job default/a would change; state Enabled\nAt 03:00"));
    assert_eq!(user.json(&preview)["effect"], "Replace");
    assert_eq!(user.ok(&["job", "edit", "a", "-f", "job.json", "-q"]), "");
    assert_eq!(user.json(&["job", "show", "a"])["properties"]["recurrence"]["cron"], "0 3 * * *");
}
