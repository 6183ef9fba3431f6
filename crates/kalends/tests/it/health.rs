//! Readiness, log, metrics and explanations while the store or the scheduler does not work.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::connection::{Connection, Response};
use crate::small_disk::{SmallDisk, ThinDisk};
use crate::target::{TIMEOUT, target};
use crate::test_server::TestServer;
use crate::tokens::{STANDARD, code, collection, new};

/// Limit of repeated requests; each waits for the server.
const REQUESTS_MAX: usize = 100_000;

fn job(name: &str) -> String {
    new(&format!("{}/jobs/{name}", collection("g", "c")))
}

/// A job without a start time.
fn body(uri: &str) -> String {
    let action = json!({"type": "Http", "request": {"uri": uri, "method": "GET"}});
    json!({"properties": {"action": action}}).to_string()
}

fn create_collection(connection: &mut Connection) {
    assert_eq!(connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
}

fn readyz(connection: &mut Connection) -> Response {
    connection.request("GET", "/readyz", None)
}

/// The value of a metric without labels.
fn metric(connection: &mut Connection, name: &str) -> f64 {
    let page = connection.request("GET", "/metrics", None).body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Repeats `attempt` until it returns a value.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    (0..REQUESTS_MAX).find_map(|_| attempt()).unwrap_or_else(|| panic!("never: {what}"))
}

fn explain(connection: &mut Connection, name: &str) -> Value {
    let target = job(name).replace('?', "/explain?");
    let response = connection.request("GET", &target, None);
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_str(&response.body).unwrap()
}

/// Waits until `explain` reports that a job is blocked; returns the sentence.
fn blocked(connection: &mut Connection, name: &str) -> String {
    until("blocked", || {
        let explanation = explain(connection, name);
        (explanation["reason"] == "Blocked").then(|| explanation["explanation"].to_string())
    })
}

#[test]
fn a_full_disk_is_reported_until_there_is_room_and_then_due_jobs_run() {
    let Some(disk) = SmallDisk::mount("8m") else { return };
    let server = TestServer::start_in(&disk.store(), |command| {
        command.env_remove("KALENDS_HOLD").env("KALENDS_START_DELAY", "PT3S");
        command.env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    let (address, calls) = target();
    create_collection(&mut connection);
    let uri = format!("http://{address}/");
    assert_eq!(connection.request("PUT", &job("due"), Some(&body(&uri))).status, 201);
    assert_eq!(
        (readyz(&mut connection).status, readyz(&mut connection).body),
        (200, "ready".into())
    );
    assert_eq!(metric(&mut connection, "kalends_store_up"), 1.0);
    assert_eq!(metric(&mut connection, "kalends_hold"), 0.0);

    disk.fill();
    // The last probe may be used for some seconds.
    let refused = until("not ready", || {
        Some(readyz(&mut connection)).filter(|response| response.status == 503)
    });
    assert!(refused.body.contains("disk of the store is full"), "{refused:?}");
    let line = server.line_with("store unavailable, retrying");
    assert!(line.contains("ERROR") && line.contains("disk of the store is full"), "{line}");
    let refused = connection.request("PUT", &job("refused"), Some(&body(&uri)));
    assert_eq!(code(&refused), (507, "InsufficientStorage".into()));
    assert_eq!(metric(&mut connection, "kalends_store_up"), 0.0);
    let sentence = blocked(&mut connection, "due");
    assert!(sentence.contains("disk of the store is full"), "{sentence}");
    until("overdue", || {
        (metric(&mut connection, "kalends_oldest_overdue_seconds") > 0.0).then_some(())
    });

    disk.make_room();
    server.line_with("store available again");
    assert!(calls.recv_timeout(TIMEOUT).is_ok(), "the job runs");
    assert_eq!(readyz(&mut connection).status, 200);
    assert_eq!(metric(&mut connection, "kalends_store_up"), 1.0);
    assert!(explain(&mut connection, "due")["reason"] != "Blocked");
}

#[test]
fn an_io_error_of_the_disk_ends_the_process_with_an_error() {
    let Some(disk) = ThinDisk::mount() else { return };
    let mut server = TestServer::start_in(&disk.store(), |command| {
        command.env_remove("KALENDS_HOLD").env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    create_collection(&mut connection);
    disk.fail();
    let large = body(&format!("http://example.org/{}", "x".repeat(1_900)));
    let refused = (0..5_000).find_map(|number| {
        let response = connection.request("PUT", &job(&format!("j{number}")), Some(&large));
        (response.status != 201).then_some(response)
    });
    let (status, code) = code(&refused.expect("writes fail"));
    assert_eq!(status, 503);
    assert!(code == "StoreUnavailable" || code == "OperationOutcomeUnknown", "{code}");
    let line = server.line_with("shutting down after a failure");
    assert!(line.contains("I/O error"), "{line}");
    server.line_with("stopped");
    assert_eq!(server.wait().code(), Some(1));
}

#[test]
fn a_file_system_that_becomes_read_only_ends_the_process_and_a_restart_runs_due_jobs() {
    let Some(disk) = ThinDisk::mount() else { return };
    let start = || {
        TestServer::start_in(&disk.store(), |command| {
            command.env_remove("KALENDS_HOLD").env("KALENDS_START_DELAY", "PT2S");
            command.env("KALENDS_AUDIT_LOG", "off");
        })
    };
    let mut server = start();
    let mut connection = server.connect();
    let (address, calls) = target();
    create_collection(&mut connection);
    let body = body(&format!("http://{address}/"));
    assert_eq!(connection.request("PUT", &job("due"), Some(&body)).status, 201);
    disk.abort();
    let refused = connection.request("PUT", &job("refused"), Some(&body));
    let (status, code) = code(&refused);
    assert_eq!(status, 503, "{refused:?}");
    assert!(code == "StoreUnavailable" || code == "OperationOutcomeUnknown", "{refused:?}");
    let line = server.line_with("shutting down after a failure");
    assert!(line.contains("ERROR") && line.contains("the disk failed"), "{line}");
    assert_eq!(server.wait().code(), Some(1));
    assert!(calls.try_recv().is_err(), "nothing was sent that could not be recorded");

    disk.mount_again();
    let server = start();
    assert!(calls.recv_timeout(TIMEOUT).is_ok(), "the job runs");
    let mut connection = server.connect();
    assert_eq!(readyz(&mut connection).status, 200);
    assert_eq!(connection.request("PUT", &job("refused"), Some(&body)).status, 201);
}

/// A program that makes system calls of a server fail, until it is dropped.
struct FaultInjection(Child);

impl FaultInjection {
    /// Attaches strace to a thread, or to all threads of a process with `-f`. Prints SKIPPED and
    /// returns `None` without strace or the permission to trace.
    fn attach(thread: u32, arguments: &[&str]) -> Option<FaultInjection> {
        let mut command = Command::new("strace");
        command.args(arguments).args(["-o", "/dev/null", "-p", &thread.to_string()]);
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            eprintln!("SKIPPED: strace is not installed");
            return None;
        };
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let injection = FaultInjection(child);
        if !lines.any(|line| line.contains("attached")) {
            eprintln!("SKIPPED: no permission to trace a process");
            return None;
        }
        // Drain the pipe, or strace would block.
        std::thread::spawn(move || lines.for_each(drop));
        Some(injection)
    }
}

impl Drop for FaultInjection {
    fn drop(&mut self) {
        // Detaches; SIGKILL would leave threads stopped.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn an_exceeded_quota_is_reported_as_a_full_disk_until_there_is_room() {
    let server = TestServer::start_with(|command, _| {
        command.env_remove("KALENDS_HOLD").env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    create_collection(&mut connection);
    let body = body("http://127.0.0.1:9/");
    let wal = server.folder().join("kalends.db-wal").display().to_string();
    let faults = "inject=pwrite64,write:error=EDQUOT";
    let arguments = ["-f", "-P", &wal, "-e", "trace=pwrite64,write", "-e", faults];
    let Some(injection) = FaultInjection::attach(server.id(), &arguments) else { return };
    // Threads are attached one after the other.
    let refused = until("refused", || {
        let response = connection.request("PUT", &job("refused"), Some(&body));
        (response.status != 201 && response.status != 200).then_some(response)
    });
    assert_eq!(code(&refused), (507, "InsufficientStorage".into()));
    let unready = until("not ready", || {
        Some(readyz(&mut connection)).filter(|response| response.status == 503)
    });
    assert!(unready.body.contains("disk of the store is full"), "{unready:?}");
    drop(injection);
    server.line_with("store available again");
    assert_eq!(connection.request("PUT", &job("accepted"), Some(&body)).status, 201);
    assert_eq!(readyz(&mut connection).status, 200);
}

#[test]
fn a_panic_of_the_scheduler_thread_ends_the_process_with_an_error() {
    let mut server = TestServer::start_with(|command, _| {
        command.env_remove("KALENDS_HOLD");
    });
    create_collection(&mut server.connect());
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let is_engine = |name: &String| name.trim_end() == "engine";
    let engine = threads.flatten().find(|thread| {
        fs::read_to_string(thread.path().join("comm")).ok().as_ref().is_some_and(is_engine)
    });
    let engine = engine.unwrap().file_name().to_string_lossy().parse().unwrap();
    // The runtime panics if it cannot wait for events.
    let waits = "?epoll_wait,?epoll_pwait";
    let (trace, faults) = (format!("trace={waits}"), format!("inject={waits}:error=EBADF"));
    let Some(_injection) = FaultInjection::attach(engine, &["-e", &trace, "-e", &faults]) else {
        return;
    };
    let line = server.line_with("shutting down after a failure");
    assert!(line.contains("the scheduler stopped unexpectedly"), "{line}");
    server.line_with("stopped");
    assert_eq!(server.wait().code(), Some(1));
}

#[test]
fn a_server_on_hold_is_ready_and_names_the_hold() {
    let server = TestServer::start_with(|command, _| {
        command.env_remove("KALENDS_START_DELAY");
    });
    let mut connection = server.connect();
    create_collection(&mut connection);
    let ready = readyz(&mut connection);
    assert!(ready.status == 200 && ready.body.contains("--hold"), "{ready:?}");
    assert_eq!(metric(&mut connection, "kalends_hold"), 1.0);
    let put = connection.request("PUT", &job("due"), Some(&body("http://example.org/")));
    assert_eq!(put.status, 201);
    let sentence = blocked(&mut connection, "due");
    assert!(sentence.contains("--hold"), "{sentence}");
}

#[test]
fn a_damaged_job_is_reported_and_can_be_replaced_while_others_run() {
    let server = TestServer::start_with(|command, _| {
        command.env_remove("KALENDS_HOLD").env("KALENDS_START_DELAY", "PT2S");
    });
    let mut connection = server.connect();
    let (address, calls) = target();
    create_collection(&mut connection);
    for name in ["bad", "good"] {
        let body = body(&format!("http://{address}/{name}"));
        assert_eq!(connection.request("PUT", &job(name), Some(&body)).status, 201);
    }
    let database = server.folder().join("kalends.db");
    let damage = r#"update jobs set definition = '{"action":"Future"}' where name = 'bad'"#;
    let damaged = Command::new("sqlite3").arg(database).arg(damage).status();
    let Ok(damaged) = damaged else {
        eprintln!("SKIPPED: the program sqlite3 is not installed");
        return;
    };
    assert!(damaged.success());
    assert!(calls.recv_timeout(TIMEOUT).unwrap().line.contains("/good"));
    let line = server.line_with("unreadable jobs put aside");
    assert!(line.contains("jobs/bad"), "{line}");
    assert_eq!(metric(&mut connection, "kalends_unreadable_jobs"), 1.0);
    assert_eq!(readyz(&mut connection).status, 200);

    let list = connection.request("GET", &new(&format!("{}/jobs", collection("g", "c"))), None);
    assert!(list.status == 200 && list.body.contains("jobs/good"), "{list:?}");
    assert!(!list.body.contains("jobs/bad"), "{list:?}");
    let refused = connection.request("GET", &job("bad"), None);
    assert_eq!(code(&refused), (500, "JobUnreadable".into()));
    assert!(refused.body.contains("cannot be read"), "{refused:?}");
    let old = job("bad").replace("2026-11-01", "2016-03-01");
    assert_eq!(code(&connection.request("GET", &old, None)), (500, "InternalError".into()));
    let run = job("bad").replace('?', "/run?");
    assert_eq!(code(&connection.request("POST", &run, None)), (500, "JobUnreadable".into()));
    let replacement = body(&format!("http://{address}/replaced"));
    assert_eq!(connection.request("PUT", &job("bad"), Some(&replacement)).status, 201);
    assert!(calls.recv_timeout(TIMEOUT).unwrap().line.contains("/replaced"));
    assert_eq!(connection.request("DELETE", &job("bad"), None).status, 200);
    assert_eq!(connection.request("GET", &job("bad"), None).status, 404);
}
