//! Notes on changes, and pauses of all jobs.

use serde_json::json;

use super::User;
use crate::test_server::TestServer;
use crate::tokens::{create, guarded};

fn create_job(user: &User, name: &str) {
    user.ok(&["job", "create", name, "--every", "day", "--get", "https://example.com/"]);
}

#[test]
fn changes_and_runs_of_jobs_have_notes() {
    let server = TestServer::start();
    let user = User::of(&server);
    create_job(&user, "a");
    create_job(&user, "b");
    let with_note = |arguments: &[&str], note: &str| {
        let arguments: Vec<_> = arguments.iter().copied().chain(["--note", note]).collect();
        user.ok(&arguments)
    };
    with_note(&["job", "disable", "a", "b"], "target moves & \"why\" ä");
    with_note(&["job", "enable", "a"], "moved");
    with_note(&["job", "edit", "a", "--timeout", "5m"], "slow");
    with_note(&["job", "run", "a"], "a test");
    with_note(&["job", "enable", "a"], "again");
    with_note(&["collection", "disable", "default"], "maintenance");
    user.ok(&["job", "run", "a"]);
    let notes = user.json(&["job", "notes", "a"]);
    let notes: Vec<_> = notes.as_array().unwrap().iter().collect();
    let actions: Vec<_> = notes.iter().map(|note| json!([note["action"], note["note"]])).collect();
    assert_eq!(
        actions,
        [
            json!(["Noted", "again"]),
            json!(["Ran", "a test"]),
            json!(["Edited", "slow"]),
            json!(["Enabled", "moved"]),
            json!(["Disabled", "target moves & \"why\" ä"]),
        ]
    );
    let table = user.ok(&["job", "notes", "b", "--utc"]);
    let lines: Vec<_> = table.lines().collect();
    let [heading, line] = lines[..] else { panic!("{table}") };
    let words: Vec<_> = heading.split_whitespace().collect();
    assert_eq!(words, ["JOB", "TIME", "ACTION", "BY", "NOTE"]);
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!((words[0], &words[3..5]), ("default/b", &["Disabled", "single-user"][..]));
    assert!(line.ends_with("target moves & \"why\" ä"), "{line}");
    assert_eq!(user.ok(&["job", "notes", "a", "-n", "1", "-o", "name"]), "default/a\n");
    assert_eq!(user.ok(&["job", "notes", "a", "b"]).lines().count(), 1 + 5 + 1);
    // A dry run stores nothing.
    with_note(&["job", "disable", "b", "--dry-run"], "no");
    with_note(&["job", "run", "b", "--dry-run"], "no");
    assert_eq!(user.json(&["job", "notes", "b"]).as_array().unwrap().len(), 1);
}

#[test]
fn invalid_notes_are_refused_and_deletions_have_none() {
    let server = TestServer::start();
    let user = User::of(&server);
    create_job(&user, "j");
    let long = "x".repeat(501);
    for note in ["", "two\nlines", &long] {
        user.fails(&["job", "run", "j", "--note", note], 4, "note must have");
        user.fails(&["job", "disable", "j", "--note", note], 4, "note must have");
    }
    assert_eq!(user.run(&["job", "delete", "j", "--note", "why"]).status, 2);
    assert_eq!(user.json(&["job", "notes", "j"]), json!([]));
    user.fails(&["job", "notes", "absent"], 3, "cannot be found");
    assert_eq!(user.run(&["job", "notes"]).status, 2);
}

#[test]
fn all_jobs_are_paused_and_resumed() {
    let server = TestServer::start();
    let user = User::of(&server);
    create_job(&user, "j");
    assert_eq!(user.json(&["status"])["pause"], json!({"paused": false}));
    assert!(!user.ok(&["status"]).contains("paused"));
    assert_eq!(user.ok(&["resume"]), "all jobs were not paused\n");

    let paused = user.ok(&["pause", "--reason", "an upgrade", "--utc"]);
    assert!(paused.starts_with("all jobs are paused: an upgrade (since 20"), "{paused}");
    assert!(paused.ends_with("Z, by single-user)\n"), "{paused}");
    user.fails(&["job", "run", "j"], 4, "an upgrade");
    let status = user.ok(&["status", "--utc"]);
    let line = status.lines().find(|line| line.starts_with("all jobs")).expect(&status);
    assert_eq!(line.replace("all jobs     ", "all jobs are "), paused.trim_end());

    let until = ["pause", "--reason", "longer", "--until", "2099-01-01T00:00:00Z"];
    let pause = user.json(&until);
    assert_eq!(pause["until"], "2099-01-01T00:00:00Z");
    assert_eq!(user.json(&["status"])["pause"], pause);
    let text = user.ok(&["status", "--utc"]);
    assert!(text.contains("paused until 2099-01-01 00:00:00Z (in "), "{text}");
    // Without an offset, the time zone of the user.
    let pause = user.json(&["pause", "--reason", "x", "--until", "2099-01-01T00:00:00"]);
    assert_eq!(pause["until"], "2098-12-31T23:00:00Z");
    assert_eq!(user.ok(&["pause", "--reason", "x", "--for", "2h", "-q"]), "");
    assert_eq!(user.ok(&["pause", "--reason", "x", "-o", "name"]), "paused\n");

    assert_eq!(user.ok(&["resume", "--note", "done early"]), "all jobs resumed\n");
    assert_eq!(user.json(&["status"])["pause"], json!({"paused": false}));
    user.ok(&["job", "run", "j"]);
}

#[test]
fn a_pause_that_is_invalid_or_not_allowed_is_refused() {
    let server = TestServer::start();
    let user = User::of(&server);
    assert_eq!(user.run(&["pause"]).status, 2, "a reason is required");
    let both = ["pause", "--reason", "x", "--for", "1h", "--until", "2099-01-01"];
    assert_eq!(user.run(&both).status, 2);
    user.fails(&["pause", "--reason", "x", "--for", "soon"], 2, "--for must be a duration");
    user.fails(&["pause", "--reason", "x", "--until", "soon"], 2, "--until");
    user.fails(&["pause", "--reason", "two\nlines"], 4, "reason");
    let past = ["pause", "--reason", "x", "--until", "2020-01-01T00:00:00Z"];
    user.fails(&past, 4, "must lie in the future");
    let (server, _) = guarded(&[]);
    let reader = create(server.folder(), "reader", "/", &[]);
    let user = User::of(&server).with("KALENDS_CLIENT_TOKEN", &reader);
    user.fails(&["pause", "--reason", "x"], 4, "requires the role");
    user.fails(&["resume"], 4, "requires the role");
}
