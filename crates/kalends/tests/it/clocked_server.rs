//! A server whose clock the test sets, and a target for its jobs. The clock stands still in between, so
//! results are deterministic.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{Call, STANDARD, TIMEOUT, get, path, target, wait_for};
use crate::test_server::{TestServer, clock_library};

pub(crate) struct ClockedServer {
    pub(crate) server: TestServer,
    pub(crate) connection: Connection,
    pub(crate) target: SocketAddr,
    calls: Receiver<Call>,
    now: String,
}

impl ClockedServer {
    /// Starts at a time such as `2026-11-15T10:00:00Z`; `None` without the clock library.
    pub(crate) fn at(now: &str) -> Option<ClockedServer> {
        let library = clock_library()?;
        let server = TestServer::start_working_at(&library, &clock_text(now));
        let mut connection = server.connect();
        assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
        let (target, calls) = target();
        Some(ClockedServer { server, connection, target, calls, now: now.to_owned() })
    }

    /// Sets the clock.
    pub(crate) fn set(&mut self, now: &str) {
        self.server.set_clock(&clock_text(now));
        now.clone_into(&mut self.now);
    }

    /// Creates a job that calls the target once for each occurrence.
    pub(crate) fn put(&mut self, name: &str, start: &str, recurrence: Value) {
        let uri = format!("http://{}/{name}", self.target);
        self.put_with(name, &uri, json!({"startTime": start, "recurrence": recurrence}));
    }

    /// Creates a job with these properties and without retries.
    pub(crate) fn put_with(&mut self, name: &str, uri: &str, properties: Value) {
        let mut body = json!({"properties": properties});
        let request = json!({"uri": uri, "method": "GET"});
        let mut action = json!({"type": "Http", "request": request});
        if body["properties"]["retryPolicy"].is_null() {
            action["retryPolicy"] = json!({"retryType": "None"});
        }
        body["properties"]["action"] = action;
        let created = self.connection.request("PUT", &job_path(name, ""), Some(&body.to_string()));
        assert!([200, 201].contains(&created.status), "{created:?}");
    }

    /// Waits for the next call, as `name scheduled-time`. Fails if it is early.
    pub(crate) fn call(&self) -> String {
        let call = self.calls.recv_timeout(TIMEOUT).expect("no call has come");
        let scheduled = &call.headers["x-ms-scheduler-expected-execution-time"];
        assert!(*scheduled <= self.now, "early: {scheduled} at {}", self.now);
        format!("{} {scheduled}", call.headers["x-ms-scheduler-jobid"])
    }

    pub(crate) fn no_more_calls(&self) {
        if let Ok(call) = self.calls.try_recv() {
            panic!("one call too many: {} {:?}", call.line, call.headers);
        }
    }

    /// The occurrences of a job in a period, as `time disposition` or `time-time count disposition`.
    pub(crate) fn rows(&mut self, name: &str, from: &str, to: &str) -> Vec<String> {
        let span = format!("{}&from={from}&to={to}", job_path(name, "/occurrences"));
        let list = get(&mut self.connection, &span);
        let rows = list["value"].as_array().unwrap().iter().map(format_row);
        rows.collect()
    }

    /// Waits until the occurrences equal these.
    pub(crate) fn rows_become(&mut self, name: &str, from: &str, to: &str, expected: &[&str]) {
        let mut last = vec![];
        let found = wait_for(|| {
            last = self.rows(name, from, to);
            (last == expected).then_some(())
        });
        assert!(found.is_some(), "{last:#?} instead of {expected:#?}");
    }

    /// Reads a job.
    pub(crate) fn job(&mut self, name: &str) -> Value {
        get(&mut self.connection, &job_path(name, ""))
    }
}

pub(crate) fn job_path(name: &str, below: &str) -> String {
    path(&format!("/jobs/{name}{below}"))
}

/// An occurrence in the format of [`ClockedServer::rows`].
pub(crate) fn format_row(row: &Value) -> String {
    let text = |member: &str| row[member].as_str().unwrap_or("").to_owned();
    let (from, to, disposition) =
        (text("scheduledTime"), text("lastScheduledTime"), text("disposition"));
    match row["count"].as_u64() {
        Some(1) => format!("{from} {disposition}"),
        count => format!("{from}-{to} {} {disposition}", count.unwrap()),
    }
}

/// The time in the format of the clock library.
fn clock_text(now: &str) -> String {
    now.replace('T', " ").trim_end_matches('Z').to_owned()
}
