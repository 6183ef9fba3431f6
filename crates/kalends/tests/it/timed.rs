//! A server whose clock the test moves, with a job's target beside it. The clock stands still
//! between moves, so that what happens is the same every time.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::running::{Running, clock_library};
use crate::target::{Call, PATIENCE, STANDARD, get, path, target, wait_for};

pub(crate) struct Timed {
    pub(crate) server: Running,
    pub(crate) connection: Connection,
    pub(crate) target: SocketAddr,
    calls: Receiver<Call>,
    now: String,
}

impl Timed {
    /// At an instant, written `2026-11-15T10:00:00Z`; none where the library is missing.
    pub(crate) fn at(now: &str) -> Option<Timed> {
        let library = clock_library()?;
        let server = Running::start_working_at(&library, &in_file(now));
        let mut connection = server.connect();
        assert_eq!(connection.ask("PUT", &path(""), Some(STANDARD)).status, 201);
        let (target, calls) = target();
        Some(Timed { server, connection, target, calls, now: now.to_owned() })
    }

    /// Moves the clock.
    pub(crate) fn set(&mut self, now: &str) {
        self.server.set_clock(&in_file(now));
        now.clone_into(&mut self.now);
    }

    /// Makes a job that calls the target once for each occurrence.
    pub(crate) fn put(&mut self, name: &str, start: &str, recurrence: Value) {
        let uri = format!("http://{}/{name}", self.target);
        self.put_with(name, &uri, json!({"startTime": start, "recurrence": recurrence}));
    }

    /// Makes a job with these properties and no retries.
    pub(crate) fn put_with(&mut self, name: &str, uri: &str, properties: Value) {
        let mut body = json!({"properties": properties});
        let request = json!({"uri": uri, "method": "GET"});
        let mut action = json!({"type": "Http", "request": request});
        if body["properties"]["retryPolicy"].is_null() {
            action["retryPolicy"] = json!({"retryType": "None"});
        }
        body["properties"]["action"] = action;
        let made = self.connection.ask("PUT", &job_path(name, ""), Some(&body.to_string()));
        assert!([200, 201].contains(&made.status), "{made:?}");
    }

    /// The next call, as `name instant`. It must not come before its instant.
    pub(crate) fn call(&self) -> String {
        let call = self.calls.recv_timeout(PATIENCE).expect("no call has come");
        let scheduled = &call.headers["x-ms-scheduler-expected-execution-time"];
        assert!(*scheduled <= self.now, "early: {scheduled} at {}", self.now);
        format!("{} {scheduled}", call.headers["x-ms-scheduler-jobid"])
    }

    pub(crate) fn no_more_calls(&self) {
        if let Ok(call) = self.calls.try_recv() {
            panic!("one call too many: {} {:?}", call.line, call.headers);
        }
    }

    /// The occurrences of a job in a span, as `instant disposition`, or `instant-instant count
    /// disposition`.
    pub(crate) fn rows(&mut self, name: &str, from: &str, to: &str) -> Vec<String> {
        let span = format!("{}&from={from}&to={to}", job_path(name, "/occurrences"));
        let list = get(&mut self.connection, &span);
        let rows = list["value"].as_array().unwrap().iter().map(shown);
        rows.collect()
    }

    /// Waits until the occurrences are these.
    pub(crate) fn rows_become(&mut self, name: &str, from: &str, to: &str, expected: &[&str]) {
        let mut last = vec![];
        let found = wait_for(|| {
            last = self.rows(name, from, to);
            (last == expected).then_some(())
        });
        assert!(found.is_some(), "{last:#?} instead of {expected:#?}");
    }

    /// A job as it is shown.
    pub(crate) fn job(&mut self, name: &str) -> Value {
        get(&mut self.connection, &job_path(name, ""))
    }
}

pub(crate) fn job_path(name: &str, below: &str) -> String {
    path(&format!("/jobs/{name}{below}"))
}

pub(crate) fn shown(row: &Value) -> String {
    let text = |member: &str| row[member].as_str().unwrap_or("").to_owned();
    let (from, to, disposition) =
        (text("scheduledTime"), text("lastScheduledTime"), text("disposition"));
    match row["count"].as_u64() {
        Some(1) => format!("{from} {disposition}"),
        count => format!("{from}-{to} {} {disposition}", count.unwrap()),
    }
}

/// As the library reads it.
fn in_file(now: &str) -> String {
    now.replace('T', " ").trim_end_matches('Z').to_owned()
}
