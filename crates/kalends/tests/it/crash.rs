//! The server is killed again and again while jobs run. Afterwards nothing is lost, nothing was
//! early, nothing ran twice without cause, and history and occurrences say what the target saw.
//!
//! What is expected is worked out here by hand, from start and minute alone; what happened is told
//! by the target's own log.

mod checker;
mod sink;

use std::time::Duration;

use kalends_environment::{Clock as _, Entropy as _, SeededEntropy, SystemClock};
use kalends_recurrence::Instant;
use serde_json::json;

use self::checker::{Plan, check};
use self::sink::Sink;
use crate::running::Running;
use crate::target::path;
use crate::timed::job_path;

/// Kills where nobody asks for more with `KALENDS_KILLS`.
const KILLS: u64 = 10;
/// Jobs that run every minute, a second apart from each other.
const MINUTELY: i64 = 60;
/// Jobs that run once, spread over the time of the kills: ten for each, as many as fit into one
/// collection.
const ONCE: std::ops::RangeInclusive<i64> = 100..=800;
/// Disabled jobs that are told to run.
const TOLD: i64 = 40;
const SECOND: i64 = 10_000_000;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn now() -> Instant {
    SystemClock.now().into()
}

fn later(at: Instant, ticks: i64) -> Instant {
    Instant::from_ticks(at.ticks() + ticks).unwrap()
}

/// Chance that can be had again.
struct Chance(SeededEntropy);

impl Chance {
    fn below(&self, end: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes) % end
    }
}

#[test]
fn nothing_is_lost_or_repeated_when_the_server_is_killed_again_and_again() {
    let kills = asked("KALENDS_KILLS").unwrap_or(KILLS);
    let seed = asked("KALENDS_SEED").unwrap_or(1);
    println!("{kills} kills with seed {seed}");
    let chance = Chance(SeededEntropy::new(seed));
    let sink = Sink::start();
    let mut server = Running::start_working();
    let first = later(now().whole_second(), 4 * SECOND);
    let mut plan = Plan::new(first);
    put_jobs(&server, &sink, &mut plan, kills);
    for _ in 0..kills {
        let mut connection = server.connect();
        for _ in 0..chance.below(4) {
            let name = format!("told{}", chance.below(TOLD as u64));
            let answer = connection.ask("POST", &job_path(&name, "/run"), None);
            assert_eq!(answer.status, 200, "{answer:?}");
            *plan.told.entry(name).or_default() += 1;
        }
        // When the kill comes is what is tried here; nothing is waited for.
        std::thread::sleep(Duration::from_millis(200 + chance.below(1_800)));
        let under_way = sink.under_way();
        let began = now();
        server.kill();
        plan.kills.push((began, now(), under_way));
        server.start_again();
    }
    plan.until = now();
    check(&plan, &sink, &mut server.connect());
}

fn put_jobs(server: &Running, sink: &Sink, plan: &mut Plan, kills: u64) {
    let mut connection = server.connect();
    let premium = r#"{"location":"westus","properties":{"sku":{"name":"P20Premium"}}}"#;
    assert_eq!(connection.ask("PUT", &path(""), Some(premium)).status, 201);
    let mut put = |name: &str, more: serde_json::Value| {
        let uri = format!("http://{}/{name}", sink.address);
        let mut properties = json!({"action": {
            "type": "Http",
            "request": {"uri": uri, "method": "POST", "body": name},
            "retryPolicy": {"retryType": "None"}
        }});
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"properties": properties}).to_string();
        let made = connection.ask("PUT", &job_path(name, ""), Some(&body));
        assert_eq!(made.status, 201, "{made:?}");
    };
    for number in 0..MINUTELY {
        let (name, start) = (format!("minutely{number}"), later(plan.first, number * SECOND));
        put(&name, json!({"startTime": start.to_string(), "recurrence": {"frequency": "Minute"}}));
        plan.minutely.insert(name, start);
    }
    // A kill and a start take a second and a half.
    let span = i64::try_from(kills).unwrap() * SECOND * 3 / 2;
    let once = (10 * i64::try_from(kills).unwrap()).clamp(*ONCE.start(), *ONCE.end());
    for number in 0..once {
        let (name, start) = (format!("once{number}"), later(plan.first, number * span / once));
        put(&name, json!({"startTime": start.to_string()}));
        plan.once.insert(name, start);
    }
    for number in 0..TOLD {
        let name = format!("told{number}");
        put(&name, json!({"state": "Disabled", "recurrence": {"frequency": "Minute"}}));
        plan.told.insert(name, 0);
    }
}
