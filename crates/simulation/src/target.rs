//! Targets whose responses follow from the seed, and which record every request.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{
    ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, NotSent, SendFence,
};
use kalends_domain::{ActionRole, Outcome};

use crate::hosts::{self, Host, HostState};
use crate::recorder::{Call, Recorder};
use crate::rng::Rng;
use crate::time::{VirtualClock, VirtualTime};

/// A request may arrive this many ticks (50 ms) after the lease ended: it was sent before.
const LEASE_TOLERANCE: i64 = 500_000;

/// All targets, as seen from one node.
pub(crate) struct Targets {
    pub(crate) node: usize,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) node_clock: Arc<VirtualClock>,
    pub(crate) store_clock: Arc<VirtualClock>,
    pub(crate) target_behavior: TargetBehavior,
    pub(crate) hosts: Vec<Host>,
    /// One of this many attempts panics; 0 for none.
    pub(crate) panic_one_in: u64,
    /// Start of the world and end of its faults, in virtual time.
    pub(crate) faults: (i64, i64),
    pub(crate) seed: u64,
}

/// How the targets of a world respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetBehavior {
    /// Respond within 20 ms and never fail.
    Reliable,
    /// Respond late, fail, time out or lose responses. The mix differs from job to job.
    Faulty,
}

impl ActionExecutor for Targets {
    fn execute<'a>(&'a self, request: AttemptRequest<'a>, fence: SendFence) -> AttemptFuture<'a> {
        Box::pin(async move {
            let [a, b, c, d, e, f, g, h, ..] = request.uid;
            let job = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let call = self.call(job, &request);
            let attempt = self.start_attempt(call.clone());
            self.connect(&request).await;
            if !fence.is_open() {
                let mut observations = self.recorder.observations();
                if let Some(call) = observations.unsent.get_mut(&attempt) {
                    call.response = Some((self.time.now(), Outcome::Indeterminate));
                }
                return Err(NotSent);
            }
            let (index, repeats) = self.record_sent(attempt, call);
            let (duration, outcome) = self.respond(job, &request, repeats);
            if self.panics(index) {
                if let Some(call) = self.recorder.observations().calls.get_mut(index) {
                    call.response = Some((self.time.now(), Outcome::Indeterminate));
                }
                self.recorder.trace(|| format!("node {}: call {index} panics", self.node));
                // Unlike `panic!`, this prints nothing.
                std::panic::resume_unwind(Box::new("simulated"));
            }
            self.node_clock.elapse(duration).await;
            let mut observations = self.recorder.observations();
            if let Some(call) = observations.calls.get_mut(index) {
                call.response = Some((self.time.now(), outcome));
            }
            drop(observations);
            self.recorder.trace(|| format!("node {}: call {index} returns {outcome:?}", self.node));
            Ok(AttemptReport::new(outcome, "simulated"))
        })
    }
}

impl Targets {
    /// Waits for a connection to a slow or hanging host, once in a while longer than a lease.
    async fn connect(&self, request: &AttemptRequest<'_>) {
        let parts = [self.seed, 8, request.scheduled.ticks() as u64, request.retry.into()];
        let rng = Rng::derive(&parts);
        if rng.one_in(4) && self.host_state(request) != HostState::Healthy {
            let wait = Duration::from_millis(rng.pick([10, 900, 4_000, 15_000]));
            self.node_clock.elapse(wait.min(request.timeout)).await;
        }
    }

    fn host_state(&self, request: &AttemptRequest<'_>) -> HostState {
        let (host, _) = hosts::parse(request.action);
        match self.hosts.get(host as usize) {
            Some(host) if self.time.now() < self.faults.1 => {
                host.state_at(self.time.now() - self.faults.0)
            }
            _ => HostState::Healthy,
        }
    }

    fn panics(&self, call: usize) -> bool {
        let rng = Rng::derive(&[self.seed, 5, call as u64]);
        self.panic_one_in > 0 && self.time.now() < self.faults.1 && rng.one_in(self.panic_one_in)
    }

    /// The call of an attempt that starts now.
    fn call(&self, job: u64, request: &AttemptRequest<'_>) -> Call {
        let (host, definition) = hosts::parse(request.action);
        Call {
            host,
            definition,
            node: self.node,
            job,
            generation: request.generation,
            scheduled: request.scheduled,
            role: request.role,
            retry: request.retry,
            started: self.time.now(),
            started_by_store: self.store_clock.reading(),
            response: None,
        }
    }

    /// Records an attempt whose request is not sent yet. Returns its number.
    fn start_attempt(&self, call: Call) -> u64 {
        let mut observations = self.recorder.observations();
        observations.attempts += 1;
        let number = observations.attempts;
        observations.unsent.insert(number, call);
        number
    }

    /// Records the call of an attempt. Returns its index and the number of earlier calls of the same
    /// attempt.
    fn record_sent(&self, attempt: u64, call: Call) -> (usize, u64) {
        let mut observations = self.recorder.observations();
        observations.unsent.remove(&attempt);
        let is_same_attempt = |other: &&Call| {
            other.job == call.job
                && other.scheduled == call.scheduled
                && (other.role, other.retry) == (call.role, call.retry)
        };
        // A bounded window suffices: attempts of one occurrence are close together.
        let repeats =
            observations.calls.iter().rev().take(64).filter(is_same_attempt).count() as u64;
        let lease_end = observations
            .keys
            .get(&call.job)
            .and_then(|&key| observations.leases.get(&(self.node, key, call.scheduled)).copied());
        if lease_end.is_none_or(|until| self.time.now() > until + LEASE_TOLERANCE) {
            observations.violations.push(format!("FENCE {call:?}, lease ends at {lease_end:?}"));
        }
        let index = observations.calls.len();
        observations.calls.push(call.clone());
        drop(observations);
        self.recorder.trace(|| {
            let Call { node, job, generation, scheduled, role, retry, host, definition, .. } = call;
            format!(
                "node {node}: call {index}: job {job}.{generation} of {scheduled} {role:?} \
                 retry {retry}, host {host}, definition {definition}"
            )
        });
        (index, repeats)
    }

    fn respond(&self, job: u64, request: &AttemptRequest<'_>, repeats: u64) -> (Duration, Outcome) {
        let state = self.host_state(request);
        let role = u64::from(request.role == ActionRole::Error);
        let parts =
            [self.seed, job, request.scheduled.ticks() as u64, role, request.retry.into(), repeats];
        let rng = Rng::derive(&parts);
        if let Some(response) = state.respond(&rng, request.timeout) {
            return response;
        }
        if self.target_behavior == TargetBehavior::Reliable {
            return (Duration::from_millis(1 + job % 20), Outcome::Succeeded);
        }
        // Per job: 0 mostly succeeds, 1 mostly fails, 3 is slow.
        let profile = Rng::derive(&[self.seed, job]).below(4);
        let failure_percent = match profile {
            0 => 1,
            1 => 60,
            _ => 25,
        };
        let duration = match rng.below(10) {
            0 => Duration::from_secs(rng.between(1, 20)),
            1 if profile == 3 => request.timeout,
            2 if profile == 3 => Duration::from_secs(rng.between(20, 70)),
            _ => Duration::from_millis(rng.between(1, 900)),
        };
        let failed = Outcome::Failed { retry_after: None };
        let outcome = match rng.below(100) {
            _ if duration >= request.timeout => failed,
            n if n < 3 => Outcome::Indeterminate,
            n if n < 3 + failure_percent => {
                let retry_after = rng.one_in(4).then(|| Duration::from_secs(rng.between(1, 90)));
                Outcome::Failed { retry_after }
            }
            _ => Outcome::Succeeded,
        };
        (duration.min(request.timeout), outcome)
    }
}
