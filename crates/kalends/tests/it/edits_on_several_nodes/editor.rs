//! A client that creates and edits jobs through random nodes, and logs the acknowledgements.

use std::net::SocketAddr;

use kalends_recurrence::Instant;
use serde_json::json;

use super::Node;
use crate::clocked_server::job_path;
use crate::connection::Connection;
use crate::crash::{Random, now};
use crate::tokens::code;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Once,
    Minutely,
    /// Its action is edited.
    Edited,
    /// Disabled and enabled again.
    Toggled,
    ToggledMinutely,
    Deleted,
    /// Its first attempt fails.
    Failing,
    FailingDeleted,
    FailingToggled,
    /// Disabled, and run on request.
    Requested,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::Once,
        Kind::Minutely,
        Kind::Edited,
        Kind::Toggled,
        Kind::ToggledMinutely,
        Kind::Deleted,
        Kind::Failing,
        Kind::FailingDeleted,
        Kind::FailingToggled,
        Kind::Requested,
    ];

    pub(super) fn is_recurring(self) -> bool {
        matches!(self, Kind::Minutely | Kind::ToggledMinutely | Kind::Requested)
    }

    pub(super) fn fails(self) -> bool {
        matches!(self, Kind::Failing | Kind::FailingDeleted | Kind::FailingToggled)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Creates the job, or replaces its action.
    Put,
    Disable,
    Enable,
    Delete,
    Run,
}

/// An edit that the server acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit {
    pub(super) step: Step,
    /// When it was first sent: it may have had an effect since.
    pub(super) sent: Instant,
    pub(super) acknowledged: Instant,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) scheduled: Instant,
    /// In the order in which they were sent.
    pub(super) edits: Vec<Edit>,
    /// Number of `run` requests whose outcome is unknown.
    pub(super) unknown_runs: usize,
}

pub(super) struct Editor {
    nodes: Vec<SocketAddr>,
    random: Random,
    target: SocketAddr,
    pub(super) jobs: Vec<Job>,
    /// The time of each step and the number of its job.
    pub(super) steps: Vec<(Instant, usize, Step)>,
}

impl Editor {
    pub(super) fn new(nodes: &[Node], seed: u64, target: SocketAddr) -> Editor {
        let nodes = nodes.iter().map(|node| node.server.address).collect();
        let random = Random::new(seed);
        Editor { nodes, random, target, jobs: vec![], steps: vec![] }
    }

    /// Adds a job and returns its number.
    pub(super) fn add(&mut self, kind: Kind, number: u64, scheduled: Instant) -> usize {
        let name = format!("{kind:?}{number}");
        self.jobs.push(Job { name, kind, scheduled, edits: vec![], unknown_runs: 0 });
        self.jobs.len() - 1
    }

    /// Executes each step at its time, or as soon as the one before it is acknowledged.
    pub(super) fn work(&mut self) {
        self.steps.sort_by_key(|(at, _, _)| *at);
        for (at, job, step) in std::mem::take(&mut self.steps) {
            // The times are random on purpose.
            std::thread::sleep(at.since(now()));
            if step == Step::Run {
                self.run(job);
            } else {
                self.edit(job, step);
            }
        }
    }

    /// A new connection to a random node.
    fn connect(&self) -> Connection {
        let number = self.random.below(self.nodes.len() as u64);
        Connection::new(self.nodes[number as usize])
    }

    /// Repeats an edit through random nodes until it is acknowledged or the job has finished.
    fn edit(&mut self, number: usize, step: Step) {
        let job = &self.jobs[number];
        let target = job_path(&job.name, "");
        let state = |state| json!({"properties": {"state": state}}).to_string();
        let (method, body) = match step {
            Step::Put => ("PUT", Some(definition(job, self.target))),
            Step::Disable => ("PATCH", Some(state("Disabled"))),
            Step::Enable => ("PATCH", Some(state("Enabled"))),
            Step::Delete | Step::Run => ("DELETE", None),
        };
        let (sent, mut is_repeated) = (now(), false);
        loop {
            let response = self.connect().request(method, &target, body.as_deref());
            let is_acknowledged = match response.status {
                200 | 201 => true,
                // An earlier request deleted it.
                404 => step == Step::Delete && is_repeated,
                // A finished job cannot be edited.
                409 if code(&response).1 == "JobStateFinal" => return,
                503 => {
                    is_repeated = true;
                    continue;
                }
                _ => false,
            };
            assert!(is_acknowledged, "{method} {target}: {response:?}");
            self.jobs[number].edits.push(Edit { step, sent, acknowledged: now() });
            return;
        }
    }

    fn run(&mut self, number: usize) {
        let target = job_path(&self.jobs[number].name, "/run");
        let sent = now();
        let response = self.connect().request("POST", &target, None);
        let job = &mut self.jobs[number];
        match response.status {
            200 => job.edits.push(Edit { step: Step::Run, sent, acknowledged: now() }),
            503 => job.unknown_runs += 1,
            _ => panic!("{target}: {response:?}"),
        }
    }
}

/// The next definition of a job.
fn definition(job: &Job, target: SocketAddr) -> String {
    let version = job.edits.iter().filter(|edit| edit.step == Step::Put).count();
    let response = if job.kind.fails() { "fail" } else { "succeed" };
    let uri = format!("http://{target}/{version}/{response}");
    let retry = json!({"retryType": "Fixed", "retryInterval": "PT15S", "retryCount": 4});
    let action = json!({
        "type": "Http",
        "request": {"uri": uri, "method": "GET"},
        "retryPolicy": retry,
    });
    let mut properties = json!({"startTime": job.scheduled.to_string(), "action": action});
    if job.kind.is_recurring() {
        properties["recurrence"] = json!({"frequency": "Minute"});
    }
    if job.kind == Kind::Requested {
        properties["state"] = "Disabled".into();
    }
    json!({"properties": properties}).to_string()
}
