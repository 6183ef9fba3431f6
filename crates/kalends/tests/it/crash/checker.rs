//! Compares the expected occurrences with the target's log and the server's records.

use std::collections::{BTreeMap, HashMap};

use kalends_recurrence::Instant;
use serde_json::Value;

use super::later;
use super::sink::{Delivery, Sink, refuses};
use crate::clocked_server::job_path;
use crate::connection::Connection;
use crate::target::{get, wait_for};

const SECOND: i64 = 10_000_000;
const MINUTE: i64 = 60 * SECOND;
/// Limit for recording a response; usually milliseconds, longer on a busy machine.
const RECORDED_WITHIN: i64 = 2 * SECOND;
/// Percentage of occurrences that may be missed or skipped; with more the test is void.
const OMITTED_MAX: usize = 5;
/// Percentage of kills that must happen while requests are in flight.
const HIT_MIN: usize = 30;

/// The expected occurrences and the kills.
pub(super) struct Plan {
    pub(super) first: Instant,
    pub(super) until: Instant,
    pub(super) minutely: BTreeMap<String, Instant>,
    pub(super) once: BTreeMap<String, Instant>,
    /// Acknowledged run requests per job.
    pub(super) on_request: BTreeMap<String, usize>,
    /// Start and end of each kill, and the number of requests in flight.
    pub(super) kills: Vec<(Instant, Instant, usize)>,
}

impl Plan {
    pub(super) fn new(first: Instant) -> Plan {
        let (minutely, once, on_request) = Default::default();
        Plan { first, until: first, minutely, once, on_request, kills: vec![] }
    }
}

/// Disposition of each occurrence, as the server reports it.
type Dispositions = BTreeMap<Instant, String>;

/// Status of the entries of a job's history, by occurrence.
type Entries = HashMap<Instant, Vec<String>>;

pub(super) fn check(plan: &Plan, sink: &Sink, connection: &mut Connection) {
    let ends = all_ends(plan, connection);
    let history = ends.keys().map(|job| (job.clone(), history(connection, job))).collect();
    let log = sink.log();
    let Comparison { wrong, omitted, checked, repeated } = compare(plan, &log, &ends, &history);
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
    let hits = plan.kills.iter().filter(|(_, _, in_flight)| *in_flight > 0).count();
    println!(
        "{checked} occurrences, {} requests, {repeated} repeated, {omitted} not run; {hits} of {} kills hit",
        log.len(),
        plan.kills.len()
    );
    assert!(hits * 100 >= plan.kills.len() * HIT_MIN, "void: too few kills hit anything");
    assert!(repeated > 0, "void: nothing had to be sent again");
    assert!(omitted * 100 <= checked * OMITTED_MAX, "void: {omitted} of {checked} did not run");
}

#[derive(Default)]
struct Comparison {
    wrong: Vec<String>,
    omitted: usize,
    checked: usize,
    repeated: usize,
}

/// Compares the target's log with the server's records.
fn compare(
    plan: &Plan,
    log: &[Delivery],
    ends: &BTreeMap<String, Dispositions>,
    history: &HashMap<String, Entries>,
) -> Comparison {
    let mut found = Comparison::default();
    let mut deliveries: HashMap<(&str, Instant), Vec<&Delivery>> = HashMap::new();
    for delivery in log {
        let of = deliveries.entry((&delivery.job, delivery.scheduled)).or_default();
        of.push(delivery);
        if of[0].tag != delivery.tag {
            found.wrong.push(format!("TAG: two for one occurrence: {delivery:?}"));
        }
        if delivery.received < delivery.scheduled {
            found.wrong.push(format!("EARLY: {delivery:?}"));
        }
        let ends = ends.get(&delivery.job);
        let is_known = ends.is_some_and(|ends| ends.contains_key(&delivery.scheduled));
        if delivery.scheduled <= plan.until && !is_known {
            found.wrong.push(format!("PHANTOM: {delivery:?}"));
        }
    }
    for (job, ends) in ends {
        for (&at, end) in ends {
            let of = deliveries.remove(&(job.as_str(), at)).unwrap_or_default();
            found.checked += 1;
            found.repeated += of.len().saturating_sub(1);
            found.wrong.extend(repeats_without_cause(plan, &of));
            let entries = history.get(job).and_then(|entries| entries.get(&at));
            let entries = entries.cloned().unwrap_or_default();
            let attempts = entries.iter().filter(|status| *status != "Postponed").count();
            let is_as_recorded = entries.iter().any(|status| status == end);
            let agrees = match (end.as_str(), of.first()) {
                ("Completed", Some(seen)) => !refuses(&seen.tag) && is_as_recorded,
                // An occurrence interrupted four times counts as failed, whatever the target returned.
                ("Failed", Some(seen)) => (refuses(&seen.tag) || of.len() > 3) && is_as_recorded,
                ("Missed" | "SkippedOverlap", None) => {
                    found.omitted += 1;
                    attempts == 0
                }
                _ => false,
            };
            if !agrees || attempts > of.len() {
                found.wrong.push(format!("HISTORY: {job} {at} {end}, {entries:?}, {of:?}"));
            }
        }
    }
    found
}

/// Waits until all expected occurrences have finished and returns their dispositions.
fn all_ends(plan: &Plan, connection: &mut Connection) -> BTreeMap<String, Dispositions> {
    let mut all = BTreeMap::new();
    for (job, &start) in &plan.minutely {
        let minutes = std::iter::successors(Some(start), |&at| Some(later(at, MINUTE)));
        let expected: Vec<_> = minutes.take_while(|&at| at <= plan.until).collect();
        all.insert(job.clone(), ends_of(plan, connection, job, &expected));
    }
    for (job, &start) in &plan.once {
        let expected: Vec<_> = (start <= plan.until).then_some(start).into_iter().collect();
        all.insert(job.clone(), ends_of(plan, connection, job, &expected));
    }
    for (job, &times) in &plan.on_request {
        let ended = wait_for(|| {
            let ends = read_ends(plan, connection, job, "Manual")?;
            (ends.len() >= times).then_some(ends)
        });
        let ended =
            ended.unwrap_or_else(|| panic!("LOST or STUCK: {job}, requested {times} times"));
        assert_eq!(ended.len(), times, "PHANTOM: {job}");
        all.insert(job.clone(), ended);
    }
    all
}

/// Waits until exactly these occurrences of a job have finished.
fn ends_of(
    plan: &Plan,
    connection: &mut Connection,
    job: &str,
    expected: &[Instant],
) -> Dispositions {
    let mut last = None;
    let ended = wait_for(|| {
        last = read_ends(plan, connection, job, "Scheduled");
        let ends = last.as_ref()?;
        (ends.keys().copied().eq(expected.iter().copied())).then(|| ends.clone())
    });
    ended.unwrap_or_else(|| panic!("LOST, STUCK or PHANTOM: {job}: {last:?}, not {expected:?}"))
}

/// Dispositions of a job's occurrences; `None` while one is running. Panics if an occurrence has two.
fn read_ends(
    plan: &Plan,
    connection: &mut Connection,
    job: &str,
    cause: &str,
) -> Option<Dispositions> {
    let mut ends = Dispositions::new();
    let span = format!("&from={}&to={}", later(plan.first, -60 * SECOND), plan.until);
    for row in pages(connection, &format!("{}{span}", job_path(job, "/occurrences"))) {
        let text = |member: &str| row[member].as_str();
        let disposition = text("disposition").unwrap();
        if text("cause") != Some(cause) {
            continue;
        }
        match disposition {
            "Running" | "Retrying" | "Waiting" | "Scheduled" => return None,
            "JobDisabled" | "NotKept" if cause == "Manual" => continue,
            _ => {}
        }
        let from: Instant = text("scheduledTime").unwrap().parse().unwrap();
        let to: Instant = text("lastScheduledTime").map_or(from, |to| to.parse().unwrap());
        let range = std::iter::successors(Some(from), |&at| Some(later(at, MINUTE)));
        for at in range.take_while(|&at| at <= to) {
            let before = ends.insert(at, disposition.to_owned());
            assert_eq!(before, None, "HISTORY: {job} {at} has two ends");
        }
    }
    Some(ends)
}

fn history(connection: &mut Connection, job: &str) -> Entries {
    let mut entries = Entries::new();
    for entry in pages(connection, &job_path(job, "/history")) {
        let text = |member: &str| entry["properties"][member].as_str().unwrap().to_owned();
        let at = text("expectedExecutionTime").parse().unwrap();
        entries.entry(at).or_default().push(text("status"));
    }
    entries
}

/// A second request for an occurrence requires a kill while the first was in flight or before its
/// response was recorded: no job of this test has retries.
fn repeats_without_cause(plan: &Plan, of: &[&Delivery]) -> Vec<String> {
    let has_cause = |first: &Delivery, second: &Delivery| {
        plan.kills.iter().any(|(_, done, _)| {
            let recorded = first.responded.map(|at| later(at, RECORDED_WITHIN));
            *done >= first.received
                && *done <= second.received
                && recorded.is_none_or(|recorded| *done <= recorded)
        })
    };
    let pairs = of.windows(2).filter(|pair| !has_cause(pair[0], pair[1]));
    pairs.map(|pair| format!("DUP: {:?} and {:?}", pair[0], pair[1])).collect()
}

/// All pages of a list.
fn pages(connection: &mut Connection, target: &str) -> Vec<Value> {
    let (mut target, mut values) = (target.to_owned(), Vec::new());
    loop {
        let page = get(connection, &target);
        values.extend(page["value"].as_array().unwrap().iter().cloned());
        let Some(next) = page["nextLink"].as_str() else { return values };
        let (_, below) = next.split_once("://").unwrap();
        target = below.trim_start_matches(|c| c != '/').to_owned();
    }
}

/// Checks one job, due at second 10 and called at second 11; a kill at second 20; end at second 99.
fn one(
    change: impl FnOnce(&mut Plan, &mut Vec<Delivery>, &mut String, &mut Vec<String>),
) -> String {
    let at = |second: i64| later("2026-01-01T00:00:00Z".parse().unwrap(), second * SECOND);
    let mut plan = Plan::new(at(0));
    plan.until = at(99);
    plan.kills.push((at(20), at(20), 1));
    let delivery = Delivery {
        job: "j".into(),
        tag: "f".into(),
        scheduled: at(10),
        received: at(11),
        responded: Some(at(12)),
        is_finished: true,
    };
    let (mut log, mut end, mut entries) =
        (vec![delivery], "Completed".to_owned(), vec!["Completed".to_owned()]);
    change(&mut plan, &mut log, &mut end, &mut entries);
    let ends = [("j".to_owned(), Dispositions::from([(at(10), end)]))].into();
    let history = [("j".to_owned(), Entries::from([(at(10), entries)]))].into();
    let words = compare(&plan, &log, &ends, &history).wrong;
    let words: Vec<_> = words.iter().filter_map(|text| text.split(':').next()).collect();
    words.join(" ")
}

#[test]
fn the_checker_finds_planted_errors_and_nothing_else() {
    let second = |delivery: &Delivery, seconds: i64| Delivery {
        received: later(delivery.received, seconds * SECOND),
        ..delivery.clone()
    };
    assert_eq!(one(|_, _, _, _| {}), "");
    assert_eq!(one(|_, log, _, _| log[0].received = later(log[0].scheduled, -1)), "EARLY");
    assert_eq!(one(|_, log, _, _| log.clear()), "HISTORY", "completed without a call");
    assert_eq!(one(|_, log, _, _| log[0].tag = "0".into()), "HISTORY", "the target refused it");
    assert_eq!(one(|_, _, end, _| *end = "Failed".into()), "HISTORY");
    assert_eq!(one(|_, _, _, entries| entries.clear()), "HISTORY", "no entry");
    assert_eq!(one(|_, _, _, entries| entries.push("Completed".into())), "HISTORY", "one too many");
    assert_eq!(
        one(|_, log, _, _| log[0].scheduled = later(log[0].scheduled, 1)),
        "PHANTOM HISTORY"
    );
    let again = |log: &mut Vec<Delivery>| log.push(second(&log[0], 30));
    assert_eq!(one(|_, log, _, _| again(log)), "DUP", "the response came long before the kill");
    assert_eq!(
        one(|plan, log, _, _| {
            log[0].responded = None;
            plan.kills.clear();
            again(log);
        }),
        "DUP",
        "there was no kill"
    );
    assert_eq!(
        one(|_, log, _, _| {
            log[0].responded = None;
            again(log);
        }),
        "",
        "the kill interrupted it"
    );
    assert_eq!(
        one(|_, log, end, entries| {
            log.clear();
            *end = "Missed".into();
            *entries = vec!["Postponed".into()];
        }),
        ""
    );
    assert_eq!(one(|_, _, end, _| *end = "Missed".into()), "HISTORY", "missed, but called");
}
