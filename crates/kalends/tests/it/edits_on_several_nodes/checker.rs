//! Compares the acknowledged edits with the requests that the target received, and the stored times
//! with the clock of the database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kalends_recurrence::Instant;
use serde_json::Value;

use super::Node;
use super::editor::{Edit, Job, Kind, Step};
use super::target::Delivery;
use crate::clocked_server::job_path;
use crate::connection::Connection;
use crate::crash::{SECOND, later, now};
use crate::postgres::psql;
use crate::target::wait_for;

/// Compares the edits of each job with its requests. `start_within` limits the start of an attempt that
/// asked for the state of its job before an edit was acknowledged.
pub(super) fn check(jobs: &[Job], log: &[Delivery], start_within: Duration) {
    let mut deliveries = BTreeMap::<&str, Vec<&Delivery>>::new();
    for delivery in log {
        deliveries.entry(&delivery.job).or_default().push(delivery);
    }
    let mut wrong = Vec::new();
    for job in jobs {
        let deliveries = deliveries.remove(job.name.as_str()).unwrap_or_default();
        wrong.extend(violations(job, &deliveries, start_within));
    }
    assert!(deliveries.is_empty(), "of no job: {deliveries:?}");
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
    println!("{} jobs, {} requests, start within {start_within:?}", jobs.len(), log.len());
}

/// The scan found no violation. Every node ran something, and the delays hit attempts.
pub(super) fn check_nodes(nodes: &[Node]) {
    let mut late = 0.0;
    for (number, node) in nodes.iter().enumerate() {
        let page = node.server.connect().request("GET", "/metrics", None).body;
        let sum = |name: &str| {
            let lines: Vec<_> = page.lines().filter(|line| line.starts_with(name)).collect();
            assert!(!lines.is_empty(), "no {name}");
            let values = lines.iter().map(|line| line.rsplit(' ').next().unwrap());
            values.map(|value| value.parse::<f64>().unwrap()).sum::<f64>()
        };
        assert_eq!(sum("kalends_invariant_violations_total"), 0.0, "node {number}");
        let attempts = sum("kalends_attempts_total");
        println!("node {number}: {attempts} attempts");
        assert!(attempts > 0.0, "void: node {number} ran nothing");
        late += sum("kalends_gate_responses_late_total");
    }
    println!("{late} late gate responses");
}

/// Waits until all jobs have finished or are deleted, as their edits require.
pub(super) fn wait_for_ends(jobs: &[Job], connection: &mut Connection) {
    let stuck: Vec<_> = jobs.iter().filter_map(|job| end_of(job, connection)).collect();
    assert!(stuck.is_empty(), "{} jobs:\n{}", stuck.len(), stuck.join("\n"));
}

/// Waits until a job has finished or is deleted, if that is expected.
fn end_of(job: &Job, connection: &mut Connection) -> Option<String> {
    let expected = match job.kind {
        Kind::Deleted | Kind::FailingDeleted => None,
        Kind::Minutely | Kind::ToggledMinutely => Some("Enabled"),
        Kind::Requested => Some("Disabled"),
        _ => Some("Completed"),
    };
    let mut last = None;
    let ended = wait_for(|| {
        let response = connection.request("GET", &job_path(&job.name, ""), None);
        let found: Value = serde_json::from_str(&response.body).unwrap();
        let state = found["properties"]["state"].as_str();
        let is_expected = state == expected && (expected.is_some() || response.status == 404);
        last = Some(response);
        is_expected.then_some(())
    });
    ended.is_none().then(|| format!("LOST or STUCK: {job:?}, not {expected:?}: {last:?}"))
}

/// A period in which a job was disabled or deleted: from the acknowledgement to the next enabling.
struct Off {
    from: Instant,
    to: Instant,
}

fn periods_off(edits: &[Edit]) -> Vec<Off> {
    let stops = edits.iter().filter(|edit| matches!(edit.step, Step::Disable | Step::Delete));
    stops
        .map(|stop| {
            let is_next = |edit: &&Edit| edit.step == Step::Enable && edit.sent > stop.sent;
            let to = edits.iter().find(is_next).map_or(Instant::MAX, |edit| edit.sent);
            Off { from: stop.acknowledged, to }
        })
        .collect()
}

fn violations(job: &Job, deliveries: &[&Delivery], start_within: Duration) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut keys = BTreeMap::new();
    let created = job.edits.first().map(|edit| edit.acknowledged);
    let off = periods_off(&job.edits);
    for delivery in deliveries {
        let Delivery { key, scheduled, received, version, .. } = delivery;
        let mut violation = |kind: &str| wrong.push(format!("{kind}: {delivery:?} of {job:?}"));
        if received < scheduled {
            violation("EARLY");
        }
        if job.kind != Kind::Requested && keys.entry(*scheduled).or_insert(key) != &key {
            violation("TWO KEYS of one occurrence");
        }
        // An attempt asks for the state of its job at its scheduled time or later.
        let is_stale =
            |since: Instant| since < *scheduled || since.saturating_add(start_within) < *received;
        for Off { from, to } in &off {
            if received < to && is_stale(*from) {
                violation("STARTED while disabled or deleted");
            }
            if job.kind.is_recurring() && from < scheduled && scheduled < to {
                violation("PASSED while disabled");
            }
        }
        let puts = job.edits.iter().filter(|edit| edit.step == Step::Put);
        for newer in puts.skip(version + 1) {
            if is_stale(newer.acknowledged) {
                violation("STALE definition");
            }
        }
    }
    let requests = deliveries.len();
    let is_complete = match job.kind {
        Kind::Once | Kind::Edited | Kind::Toggled => requests >= 1,
        Kind::Failing | Kind::FailingToggled => requests >= 2,
        // A job that was created late starts at its next scheduled time.
        Kind::Minutely => requests >= 1 || created.is_some_and(|created| created > job.scheduled),
        Kind::ToggledMinutely | Kind::Deleted | Kind::FailingDeleted => true,
        Kind::Requested => {
            let keys: BTreeSet<_> = deliveries.iter().map(|delivery| &delivery.key).collect();
            let runs = job.edits.iter().filter(|edit| edit.step == Step::Run).count();
            (runs..=runs + job.unknown_runs).contains(&keys.len())
        }
    };
    if !is_complete {
        wrong.push(format!("LOST: {job:?} has {deliveries:?}"));
    }
    wrong
}

/// All stored times are those of the database.
pub(super) fn check_times(database: &str, began: Instant) {
    let (mut count, ended) = (0, now());
    // Columns that are NULL are empty lines.
    for line in psql(database, "times", &[]).lines().filter(|line| !line.is_empty()) {
        let (_, time) = line.split_once(' ').unwrap();
        let time: Instant = time.parse().unwrap();
        // Leases and retries lie ahead, by less than a minute.
        assert!(began <= time && time <= later(ended, 60 * SECOND), "{line}");
        count += 1;
    }
    assert!(count > 0);
}
