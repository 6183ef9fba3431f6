//! Three nodes on one PostgreSQL database run jobs while clients edit, disable, enable and delete them
//! through random nodes. Each node reaches the database through a forwarder that delays responses,
//! and the clock of one node is an hour ahead.
//!
//! The expectations are derived from the acknowledgements that the clients received, and compared with
//! the requests that the target received.

mod checker;
mod editor;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kalends_environment::Stopwatch;
use kalends_recurrence::Instant;

use self::checker::{check, check_nodes, check_times, wait_for_ends};
use self::editor::{Editor, Kind, Step};
use self::target::Target;
use crate::crash::{Random, SECOND, later, now, number_from_environment};
use crate::forwarder::{Forwarder, Link};
use crate::postgres::{KEY, one_hour_ahead};
use crate::target::path;
use crate::test_server::{TestServer, clock_library, database, run_jobs};

/// Seconds over which the jobs are due; `KALENDS_SECONDS` overrides it.
const SECONDS: u64 = 10;
/// Number of jobs that are due at each second.
const JOBS_PER_SECOND: u64 = 5;
/// Seconds of retries after the last job was due: the shortest retry interval and some more.
const RETRY_SECONDS: u64 = 17;
/// Number of clients. Each edits its own jobs, one request after the other, through random nodes.
const EDITORS: usize = 40;
/// Longest delay of a response, in milliseconds.
const DELAY_MAX: u64 = 2_500;
/// Limit for the start of an attempt that asked for the state of its job before an edit was
/// acknowledged. The server starts it within 200 ms; the rest is for the way to the target. Stalls of
/// the machine are added.
const START_WITHIN: Duration = Duration::from_secs(1);

/// A node and its connection to the database.
struct Node {
    server: TestServer,
    link: Forwarder,
}

impl Node {
    /// Starts a node that reaches the database through a forwarder.
    fn start(database: &str, prepare: impl FnOnce(&mut std::process::Command)) -> Node {
        let (user, rest) = database.split_once('@').unwrap();
        let (address, name) = rest.split_once('/').unwrap();
        let link = Forwarder::start(address);
        let store = format!("{user}@{}/{name}", link.address);
        let server = TestServer::start_in(&store, |command| {
            run_jobs(command);
            command.env("KALENDS_KEY", KEY).env("KALENDS_AUDIT_LOG", "off");
            prepare(command);
        });
        Node { server, link }
    }
}

#[test]
fn edits_through_any_node_hold_on_all_nodes_while_responses_of_the_database_are_delayed() {
    let (Some(database), Some(library)) = (database("delays"), clock_library()) else { return };
    let seconds = number_from_environment("KALENDS_SECONDS").unwrap_or(SECONDS);
    let seed = number_from_environment("KALENDS_SEED").unwrap_or(1);
    println!("{seconds} seconds with seed {seed}");
    let began = now();
    let nodes = [
        Node::start(&database, |_| {}),
        Node::start(&database, |_| {}),
        Node::start(&database, |command| one_hour_ahead(command, &library)),
    ];
    let premium = r#"{"location":"westus","properties":{"sku":{"name":"P20Premium"}}}"#;
    let created = nodes[0].server.connect().request("PUT", &path(""), Some(premium));
    assert_eq!(created.status, 201, "{created:?}");
    let target = Target::start();
    let first = later(now().whole_second(), 3 * SECOND);
    let mut editors: Vec<_> = (0..EDITORS)
        .map(|number| Editor::new(&nodes, seed + number as u64, target.address))
        .collect();
    plan(&mut editors, &Random::new(seed), first, seconds);
    let links = nodes.each_ref().map(|node| node.link.clone());
    let is_over = AtomicBool::new(false);
    let mut stall = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(|| stall = longest_stall(&is_over));
        scope.spawn(|| delay_responses(&links, &Random::new(!seed), &is_over));
        let edits: Vec<_> = editors.iter_mut().map(|one| scope.spawn(|| one.work())).collect();
        let edits: Vec<_> = edits.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let retried = later(first, i64::try_from(seconds + RETRY_SECONDS).unwrap() * SECOND);
        // Delays continue while runs are retried.
        std::thread::sleep(retried.since(now()));
        is_over.store(true, Ordering::Relaxed);
        assert!(edits.iter().all(Result::is_ok), "a request failed");
    });
    let jobs: Vec<_> = editors.into_iter().flat_map(|editor| editor.jobs).collect();
    wait_for_ends(&jobs, &mut nodes[0].server.connect());
    check(&jobs, &target.log(), START_WITHIN + 4 * stall);
    check_nodes(&nodes);
    check_times(&database, began);
}

/// Gives each editor its jobs and the times of their edits, at random around the scheduled time.
fn plan(editors: &mut [Editor], random: &Random, first: Instant, seconds: u64) {
    let milliseconds = |at, value: i64| later(at, value * SECOND / 1_000);
    let between = |from: i64, to: i64| from + random.below((to - from) as u64) as i64;
    for number in 0..seconds * JOBS_PER_SECOND {
        let scheduled = later(first, (number / JOBS_PER_SECOND) as i64 * SECOND);
        let kind = Kind::ALL[number as usize % Kind::ALL.len()];
        let editor = &mut editors[random.below(EDITORS as u64) as usize];
        let job = editor.add(kind, number, scheduled);
        let mut step = |step, from, to| {
            let at = milliseconds(scheduled, between(from, to));
            editor.steps.push((at, job, step));
            at
        };
        step(Step::Put, -3_000, -2_500);
        match kind {
            Kind::Once | Kind::Minutely | Kind::Failing => {}
            Kind::Edited => {
                for _ in 0..3 {
                    step(Step::Put, -1_500, 1_000);
                }
            }
            Kind::Toggled | Kind::ToggledMinutely => {
                step(Step::Disable, -1_500, 1_000);
                step(Step::Enable, 1_000, 4_000);
            }
            Kind::Deleted => drop(step(Step::Delete, -1_500, 1_000)),
            // The retry is due 15 s after the first attempt.
            Kind::FailingDeleted => drop(step(Step::Delete, 1_000, 15_500)),
            Kind::FailingToggled => {
                step(Step::Disable, 1_000, 15_500);
                step(Step::Enable, 15_600, 16_500);
            }
            Kind::Requested => {
                for _ in 0..3 {
                    step(Step::Run, -1_000, 2_000);
                }
            }
        }
    }
}

/// Delays responses of the database to all nodes but one, which changes every second.
fn delay_responses(links: &[Forwarder], random: &Random, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let up = random.below(links.len() as u64) as usize;
        for (number, link) in links.iter().enumerate() {
            let delay = Duration::from_millis(100 + random.below(DELAY_MAX));
            link.set(if number == up { Link::Up } else { Link::Slow(delay) });
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    links.iter().for_each(|link| link.set(Link::Up));
}

/// The longest time by which a short sleep took too long: a measure of the load of the machine.
fn longest_stall(is_over: &AtomicBool) -> Duration {
    const SLEEP: Duration = Duration::from_millis(5);
    let mut longest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let stopwatch = Stopwatch::start();
        std::thread::sleep(SLEEP);
        longest = longest.max(stopwatch.elapsed().saturating_sub(SLEEP));
    }
    longest
}
