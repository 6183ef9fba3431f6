//! Running, awaiting and watching jobs.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::User;
use crate::target::target;
use crate::test_server::TestServer;

/// A server that runs jobs, its user, and jobs that succeed and fail.
fn start() -> (TestServer, User) {
    let server = TestServer::start_working();
    let user = User::of(&server);
    let (address, _) = target();
    for (name, path) in [("good", "ok"), ("bad", "fail")] {
        let url = format!("http://{address}/{path}");
        user.ok(&["job", "create", name, "--cron", "0 0 1 1 *", "--post", &url, "--retry", "none"]);
    }
    (server, user)
}

#[test]
fn a_run_is_awaited_and_its_failure_is_the_exit_status() {
    let (_server, user) = start();
    assert_eq!(user.ok(&["job", "run", "good"]), "job default/good runs now\n");
    assert_eq!(user.ok(&["job", "run", "good", "--wait"]), "run of default/good completed\n");
    assert_eq!(user.ok(&["job", "run", "good", "--wait", "-q"]), "");
    let failed = user.run(&["job", "run", "bad", "--wait"]);
    assert_eq!(failed.status, 1, "{failed:?}");
    assert!(failed.stdout.starts_with("run of default/bad failed: Http Action"), "{failed:?}");
    assert!(failed.stderr.contains("`kalends job logs default/bad`"), "{failed:?}");
    let both = user.run(&["job", "run", "good", "bad", "--wait", "-o", "json"]);
    assert_eq!(both.status, 1, "{both:?}");
    let mut ends: Vec<_> =
        both.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    ends.sort_by_key(|end| end["jobName"].to_string());
    assert_eq!(
        (&ends[0]["disposition"], &ends[1]["disposition"]),
        (&"Failed".into(), &"Completed".into())
    );
    user.fails(&["job", "run", "nothing", "--wait"], 3, "nothing");
    assert_eq!(user.ok(&["job", "run", "good", "--dry-run"]), "job default/good would run\n");
    user.ok(&["job", "disable", "good"]);
    let waited = user.fails(&["job", "wait", "good"], 1, "no run in flight and none is scheduled");
    assert!(waited.contains("Disabled"), "{waited}");
    user.fails(&["job", "wait", "bad", "--timeout", "1s", "-q"], 1, "no end of the run within 1s");
}

#[test]
fn waiting_ends_with_the_run_in_flight() {
    let server = TestServer::start_working();
    let user = User::of(&server);
    // Connections wait in the queue of the listener until it is dropped, which fails the attempt.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    user.ok(&["job", "create", "slow", "--in", "1h", "--post", &url, "--retry", "none"]);
    user.ok(&["job", "run", "slow"]);
    let in_flight = crate::target::wait_for(|| {
        let runs = user.json(&["run", "list", "--active"]);
        let is_running = |run: &&Value| run["disposition"] == "Running";
        runs.as_array().unwrap().iter().find(is_running).cloned()
    });
    assert!(in_flight.is_some());
    let mut command = user.command(&["job", "wait", "slow"]);
    let mut waiting = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let note = notes.next().unwrap().unwrap();
    assert!(note.starts_with("job default/slow: waiting for the run of 20"), "{note}");
    // A connection that was not accepted is reset.
    drop(listener);
    assert_eq!(waiting.wait().unwrap().code(), Some(1));
}

/// Reads lines of a command that runs until it is stopped.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watching {
    /// Starts a command and waits until it has opened the event stream.
    fn start(user: &User, arguments: &[&str]) -> Watching {
        let mut command = user.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(notes.next().unwrap().unwrap(), "watching; press Ctrl-C to stop");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Watching { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn attempts_and_runs_are_watched_live() {
    let (_server, user) = start();
    let mut all = Watching::start(&user, &["run", "watch", "-o", "json"]);
    let mut bad = Watching::start(&user, &["job", "watch", "bad", "-n", "2"]);
    user.ok(&["job", "run", "good", "--wait"]);
    let attempt: Value = serde_json::from_str(&all.line()).unwrap();
    assert_eq!(attempt["properties"]["status"], "Completed");
    let run: Value = serde_json::from_str(&all.line()).unwrap();
    assert_eq!((&run["jobName"], &run["cause"]), (&"default/good".into(), &"Manual".into()));
    assert_eq!(user.run(&["job", "run", "bad", "--wait"]).status, 1);
    let attempt = bad.line();
    assert!(attempt.contains("default/bad") && attempt.contains("attempt    Failed"), "{attempt}");
    let run = bad.line();
    assert!(run.contains("run        Failed") && run.ends_with("manual run"), "{run}");
    assert_eq!(bad.child.wait().unwrap().code(), Some(0), "stops after two events");
    user.fails(&["job", "watch", "nothing"], 3, "nothing");
}

#[test]
fn history_logs_and_occurrences_are_printed() {
    let (_server, user) = start();
    for job in ["good", "bad"] {
        user.run(&["job", "run", job, "--wait"]);
    }
    let list = user.ok(&["history", "list", "good", "bad"]);
    let rows: Vec<_> =
        list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(rows[0], ["JOB", "STARTED", "STATUS", "ACTION", "RETRY", "DURATION", "MESSAGE"]);
    assert_eq!((rows[1][0], rows[1][3], rows[2][3]), ("default/good", "Completed", "Failed"));
    assert_eq!(user.ok(&["history", "list", "good", "--status", "failed", "-o", "name"]), "");
    user.fails(
        &["history", "list", "good", "--status", "gone"],
        2,
        "completed, failed or postponed",
    );
    let logs = user.ok(&["job", "logs", "bad"]);
    assert!(logs.contains("Failed\n    Http Action - Response from host"), "{logs}");
    assert!(!logs.contains('\r') && !logs.contains('\u{fffd}'), "{logs}");
    assert_eq!(user.ok(&["job", "logs", "good", "--failed"]), "");
    let mut follow = user.command(&["job", "logs", "good", "--follow", "-o", "json"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    user.ok(&["job", "run", "good", "--wait"]);
    let second: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_ne!(first["name"], second["name"]);
    follow.kill().unwrap();
    follow.wait().unwrap();
    let runs = user.json(&["run", "list"]);
    let dispositions: Vec<_> =
        runs.as_array().unwrap().iter().map(|run| run["disposition"].clone()).collect();
    assert_eq!(dispositions, ["Completed", "Failed", "Completed"]);
    assert_eq!(user.ok(&["run", "list", "--active", "-o", "name"]), "");
    let occurrences = user.ok(&["occurrence", "list", "good", "-n", "3"]);
    let last = occurrences.lines().last().unwrap();
    assert!(last.contains("Scheduled") && last.contains("-01-01 0"), "{occurrences}");
    let time = runs[1]["scheduledTime"].as_str().unwrap();
    let explained = user.ok(&["occurrence", "explain", "bad", time]);
    assert!(
        explained.contains("attempt ") && explained.contains("Failed: Http Action"),
        "{explained}"
    );
    assert_eq!(user.json(&["run", "show", "bad", time])["reason"], "Failed");
    let explained = user.ok(&["job", "explain", "good"]);
    assert!(explained.starts_with("No occurrence is due now"), "{explained}");
    user.fails(&["job", "explain", "good", "--at", "noon"], 2, "--at");
}
