//! Kills the server repeatedly while jobs run. Afterwards no occurrence is lost or early, none ran
//! twice without a cause, and history and occurrences match the requests that the target received.
//!
//! The expected occurrences are computed here from start time and interval alone, and compared with the
//! target's own log.

mod checker;
mod sink;

use std::time::Duration;

use kalends_environment::{Clock as _, Entropy as _, SeededEntropy, SystemClock};
use kalends_recurrence::Instant;
use serde_json::json;

use self::checker::{Plan, check};
use self::sink::Sink;
use crate::clocked_server::job_path;
use crate::target::path;
use crate::test_server::TestServer;

/// Number of kills; `KALENDS_KILLS` overrides it.
const KILLS: u64 = 10;
/// Number of jobs that run every minute, one second apart.
const MINUTELY: i64 = 60;
/// Number of jobs that run once, spread over the test: ten per kill, limited by the size of a
/// collection.
const ONCE: std::ops::RangeInclusive<i64> = 100..=800;
/// Number of disabled jobs that run on request.
const ON_REQUEST: i64 = 40;
pub(crate) const SECOND: i64 = 10_000_000;

pub(crate) fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

pub(crate) fn now() -> Instant {
    SystemClock.now().into()
}

pub(crate) fn later(at: Instant, ticks: i64) -> Instant {
    Instant::from_ticks(at.ticks() + ticks).unwrap()
}

/// Reproducible random numbers.
pub(crate) struct Random(SeededEntropy);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SeededEntropy::new(seed))
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes) % end
    }
}

#[test]
fn no_occurrence_is_lost_or_repeated_when_the_server_is_killed_repeatedly() {
    let kills = number_from_environment("KALENDS_KILLS").unwrap_or(KILLS);
    let seed = number_from_environment("KALENDS_SEED").unwrap_or(1);
    println!("{kills} kills with seed {seed}");
    let random = Random::new(seed);
    let sink = Sink::start();
    let mut server = TestServer::start_working();
    let first = later(now().whole_second(), 4 * SECOND);
    let mut plan = Plan::new(first);
    put_jobs(&server, &sink, &mut plan, kills);
    for _ in 0..kills {
        let mut connection = server.connect();
        for _ in 0..random.below(4) {
            let name = format!("requested{}", random.below(ON_REQUEST as u64));
            let response = connection.request("POST", &job_path(&name, "/run"), None);
            assert_eq!(response.status, 200, "{response:?}");
            *plan.on_request.entry(name).or_default() += 1;
        }
        // The time of the kill is random on purpose.
        std::thread::sleep(Duration::from_millis(200 + random.below(1_800)));
        let in_flight = sink.in_flight();
        let began = now();
        server.kill();
        plan.kills.push((began, now(), in_flight));
        server.restart();
    }
    plan.until = now();
    check(&plan, &sink, &mut server.connect());
}

fn put_jobs(server: &TestServer, sink: &Sink, plan: &mut Plan, kills: u64) {
    let mut connection = server.connect();
    let premium = r#"{"location":"westus","properties":{"sku":{"name":"P20Premium"}}}"#;
    assert_eq!(connection.request("PUT", &path(""), Some(premium)).status, 201);
    let mut put = |name: &str, more: serde_json::Value| {
        let uri = format!("http://{}/{name}", sink.address);
        let mut properties = json!({"action": {
            "type": "Http",
            "request": {"uri": uri, "method": "POST", "body": name},
            "retryPolicy": {"retryType": "None"}
        }});
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"properties": properties}).to_string();
        let created = connection.request("PUT", &job_path(name, ""), Some(&body));
        assert_eq!(created.status, 201, "{created:?}");
    };
    for number in 0..MINUTELY {
        let (name, start) = (format!("minutely{number}"), later(plan.first, number * SECOND));
        put(&name, json!({"startTime": start.to_string(), "recurrence": {"frequency": "Minute"}}));
        plan.minutely.insert(name, start);
    }
    // A kill and a restart take about a second and a half.
    let span = i64::try_from(kills).unwrap() * SECOND * 3 / 2;
    let once = (10 * i64::try_from(kills).unwrap()).clamp(*ONCE.start(), *ONCE.end());
    for number in 0..once {
        let (name, start) = (format!("once{number}"), later(plan.first, number * span / once));
        put(&name, json!({"startTime": start.to_string()}));
        plan.once.insert(name, start);
    }
    for number in 0..ON_REQUEST {
        let name = format!("requested{number}");
        put(&name, json!({"state": "Disabled", "recurrence": {"frequency": "Minute"}}));
        plan.on_request.insert(name, 0);
    }
}
