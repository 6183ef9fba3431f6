//! Targets that answer as the seed says, and write down what they got.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest};
use kalends_domain::{ActionRole, Outcome};

use crate::chance::Chance;
use crate::log::{Call, Log};
use crate::time::{VirtualClock, VirtualTime};

/// A request may leave so long after the end of the lease: it was on its way then.
const LEASE_TOLERANCE: i64 = 500_000;

/// The targets as one node reaches them.
pub(crate) struct Targets {
    pub(crate) node: usize,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) log: Arc<Log>,
    pub(crate) node_clock: Arc<VirtualClock>,
    pub(crate) store_clock: Arc<VirtualClock>,
    pub(crate) temper: Temper,
    pub(crate) seed: u64,
}

/// How targets are in this world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temper {
    /// Quick, and never fail.
    Kind,
    /// Slow, failing, hanging, losing answers: each job's target in its own way.
    Moody,
}

impl ActionExecutor for Targets {
    fn execute(&self, order: AttemptRequest) -> AttemptFuture<'_> {
        Box::pin(async move {
            let [a, b, c, d, e, f, g, h, ..] = order.uid;
            let job = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let (index, again) = self.note(job, &order);
            let (takes, outcome) = self.answer(job, &order, again);
            self.node_clock.lets_pass(takes).await;
            let mut noted = self.log.noted();
            if let Some(call) = noted.calls.get_mut(index) {
                call.answered = Some((self.time.now(), outcome));
                call.answered_shown = self.store_clock.shows();
            }
            drop(noted);
            self.log.trace(|| format!("node {}: call {index} answers {outcome:?}", self.node));
            AttemptReport::new(outcome, "simulated")
        })
    }
}

impl Targets {
    /// Writes a call down. Says its number, and how many like it there were before.
    fn note(&self, job: u64, order: &AttemptRequest) -> (usize, u64) {
        let call = Call {
            node: self.node,
            job,
            generation: order.generation,
            scheduled: order.scheduled,
            role: order.role,
            retry: order.retry,
            started: self.time.now(),
            shown: self.store_clock.shows(),
            answered: None,
            answered_shown: 0,
        };
        let mut noted = self.log.noted();
        let alike = |other: &&Call| {
            other.job == job
                && other.scheduled == call.scheduled
                && (other.role, other.retry) == (call.role, call.retry)
        };
        // Only the newest can be alike: an occurrence does not come back after long.
        let again = noted.calls.iter().rev().take(64).filter(alike).count() as u64;
        let held = noted
            .keys
            .get(&job)
            .and_then(|&key| noted.leases.get(&(self.node, key, call.scheduled)).copied());
        if held.is_none_or(|until| call.shown > until + LEASE_TOLERANCE) {
            noted.seen.push(format!("FENCE {call:?}, held until {held:?}"));
        }
        let index = noted.calls.len();
        noted.calls.push(call);
        drop(noted);
        self.log.trace(|| {
            let AttemptRequest { generation, scheduled, role, retry, .. } = order;
            let node = self.node;
            format!(
                "node {node}: call {index}: job {job}.{generation} of {scheduled} {role:?} retry {retry}"
            )
        });
        (index, again)
    }

    fn answer(&self, job: u64, order: &AttemptRequest, again: u64) -> (Duration, Outcome) {
        if self.temper == Temper::Kind {
            return (Duration::from_millis(1 + job % 20), Outcome::Succeeded);
        }
        let role = u64::from(order.role == ActionRole::Error);
        let parts =
            [self.seed, job, order.scheduled.ticks() as u64, role, order.retry.into(), again];
        let chance = Chance::of(&parts);
        // A job's target has a character: it mostly works, mostly fails, or is slow.
        let character = Chance::of(&[self.seed, job]).below(4);
        let failing = match character {
            0 => 1,
            1 => 60,
            _ => 25,
        };
        let takes = match chance.below(10) {
            0 => Duration::from_secs(chance.between(1, 20)),
            1 if character == 3 => order.timeout,
            2 if character == 3 => Duration::from_secs(chance.between(20, 70)),
            _ => Duration::from_millis(chance.between(1, 900)),
        };
        let failed = Outcome::Failed { retry_after: None };
        let outcome = match chance.below(100) {
            _ if takes >= order.timeout => failed,
            n if n < 3 => Outcome::Indeterminate,
            n if n < 3 + failing => {
                let retry_after =
                    chance.one_in(4).then(|| Duration::from_secs(chance.between(1, 90)));
                Outcome::Failed { retry_after }
            }
            _ => Outcome::Succeeded,
        };
        (takes.min(order.timeout), outcome)
    }
}
