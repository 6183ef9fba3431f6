//! Skipping occurrences.

use std::process::Command;

use serde_json::{Value, json};

use super::User;
use crate::clocked_server::ClockedServer;
use crate::test_server::{TestServer, clock_library, override_clock};
use crate::tokens::{create, guarded};

const DAY: &str = "2026-11-15T";

fn at(time: &str) -> String {
    format!("{DAY}{time}:00Z")
}

/// A user of the default group with the clock of the server and a job `j` that runs every minute.
fn user_of(server: &ClockedServer) -> User {
    let mut command = Command::new("true");
    let library = clock_library().unwrap();
    override_clock(&mut command, server.server.folder(), &library, "");
    let mut user = User::of(&server.server);
    for (name, value) in command.get_envs() {
        user = user.with(name.to_str().unwrap(), value.unwrap().to_str().unwrap());
    }
    let url = format!("http://{}/j", server.target);
    user.ok(&["job", "create", "j", "--cron", "* * * * *", "--get", &url, "--retry", "none"]);
    user
}

/// The occurrences of the job from a time on, as `[time, disposition]`.
fn occurrences(user: &User, from: &str, number: &str) -> Vec<Value> {
    let list = user.json(&["occurrence", "list", "j", "--from", &at(from), "-n", number]);
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| json!([row["scheduledTime"], row["disposition"]])).collect()
}

#[test]
fn the_next_occurrence_is_skipped_and_recorded() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    let user = user_of(&server);
    let printed = user.ok(&["job", "skip", "j", "--note", "target moves"]);
    assert_eq!(
        printed,
        "job default/j skips 2026-11-15 10:01:00Z (in 1 min); \
         next run 2026-11-15 10:02:00Z (in 2 min)\n"
    );
    let shown = user.ok(&["job", "show", "j"]);
    assert!(shown.contains("\nskips until  2026-11-15 10:01:00Z (in 1 min)\n"), "{shown}");
    assert!(shown.contains("\nnext run     2026-11-15 10:02:00Z (in 2 min)\n"), "{shown}");
    let explanation = user.json(&["job", "explain", "j"]);
    assert_eq!(explanation["reason"], "WillBeSkipped");
    let explanation = user.ok(&["job", "explain", "j"]);
    assert!(explanation.contains("will be skipped, as a user requested"), "{explanation}");
    let notes = user.json(&["job", "notes", "j"]);
    assert_eq!(
        (&notes[0]["action"], &notes[0]["note"]),
        (&"Skipped".into(), &"target moves".into())
    );

    server.set(&at("10:02"));
    assert!(server.call().ends_with(&at("10:02")));
    let expected = [json!([at("10:01"), "SkippedByRequest"]), json!([at("10:02"), "Completed"])];
    let found =
        crate::target::wait_for(|| (occurrences(&user, "10:01", "2") == expected).then_some(()));
    assert!(found.is_some(), "{:?}", occurrences(&user, "10:01", "2"));
    let shown = user.ok(&["job", "show", "j"]);
    assert!(!shown.contains("skips until"), "{shown}");
    let explanation = user.json(&["job", "explain", "j", "--at", &at("10:01")]);
    assert_eq!(explanation["reason"], "SkippedByRequest");
    server.no_more_calls();
}

#[test]
fn each_command_skips_one_more_and_undo_runs_them_all() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    let user = user_of(&server);
    let job = user.json(&["job", "skip", "j"]);
    assert_eq!(job, user.json(&["job", "show", "j"]));
    assert_eq!(job["properties"]["status"]["skipUntil"], at("10:01"));
    let printed = user.ok(&["job", "skip", "j"]);
    assert!(printed.starts_with("job default/j skips 2026-11-15 10:02:00Z (in 2 min); "));
    let expected = [
        json!([at("10:01"), "WillBeSkipped"]),
        json!([at("10:02"), "WillBeSkipped"]),
        json!([at("10:03"), "Scheduled"]),
    ];
    assert_eq!(occurrences(&user, "10:00", "3"), expected);
    let next = "next run 2026-11-15 10:01:00Z (in 1 min)\n";
    let printed = user.ok(&["job", "skip", "j", "--undo", "--note", "it is back"]);
    assert_eq!(printed, format!("job default/j no longer skips an occurrence; {next}"));
    let printed = user.ok(&["job", "skip", "j", "--undo"]);
    assert_eq!(printed, format!("job default/j skipped no occurrence; {next}"));
    assert_eq!(user.json(&["job", "notes", "j"])[0]["note"], "it is back");
    assert_eq!(user.ok(&["job", "skip", "j", "--quiet"]), "");
    assert_eq!(user.ok(&["job", "skip", "j", "--undo", "-o", "name"]), "default/j\n");
    server.set(&at("10:01"));
    assert!(server.call().ends_with(&at("10:01")));
}

#[test]
fn jobs_that_cannot_skip_are_named_and_the_others_skip() {
    let server = TestServer::start();
    let user = User::of(&server);
    for name in ["a", "b", "off"] {
        user.ok(&["job", "create", name, "--every", "day", "--get", "https://example.com/"]);
    }
    user.ok(&["job", "create", "once", "--in", "1h", "--get", "https://example.com/"]);
    user.ok(&["job", "disable", "off"]);
    user.fails(&["job", "skip", "once"], 4, "The job runs once");
    user.fails(&["job", "skip", "off"], 4, "The job is disabled");
    user.fails(&["job", "skip", "absent"], 3, "cannot be found");
    user.fails(&["job", "skip", "absent", "--undo"], 3, "cannot be found");
    user.fails(&["job", "skip", "a", "--note", "two\nlines"], 4, "note must have");
    assert_eq!(user.run(&["job", "skip"]).status, 2);
    let printed = user.run(&["job", "skip", "a", "off", "absent", "b"]);
    assert_eq!(printed.status, 4, "{printed:?}");
    assert_eq!(printed.stdout.lines().count(), 2, "{printed:?}");
    for phrase in ["error: default/off: The job is disabled", "default/absent: ", "2 of 4 failed"] {
        assert!(printed.stderr.contains(phrase), "{printed:?}");
    }
    user.ok(&["pause", "--reason", "x"]);
    let printed = user.ok(&["job", "skip", "a"]);
    assert!(printed.ends_with("; no next run\n"), "a pause: {printed}");

    let (server, _) = guarded(&[]);
    let reader = create(server.folder(), "reader", "/", &[]);
    let user = User::of(&server).with("KALENDS_CLIENT_TOKEN", &reader);
    user.fails(&["job", "skip", "j"], 4, "requires the role");
}
