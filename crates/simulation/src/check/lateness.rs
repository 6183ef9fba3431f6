//! Checks that attempts start on time: within a second unless a fault, a clock step, an edit or a full
//! host or collection explains the delay, and soon after the lease expired if their node crashed.

use std::collections::{BTreeMap, BTreeSet};

use kalends_domain::{ActionRole, CollectionState, MissedPolicy, Outcome, Overlap};
use kalends_recurrence::{Instant, TICKS_PER_SECOND};

use super::retry_policy::ExpectedRetries;
use super::{Check, JobEvidence};
use crate::definitions::Span;
use crate::recorder::{Call, FaultKind, InjectedFault};
use crate::time::ticks;
use crate::users::Version;

const SECOND: i64 = TICKS_PER_SECOND;
/// Ticks (1 s) within which an attempt starts.
const ON_TIME: i64 = SECOND;
/// Ticks (60 s) after a fault in which attempts may start late.
const CALM_AFTER: i64 = 60 * SECOND;
/// Ticks (12 s) within which another node takes over: the lease and two seconds.
const TAKEN_OVER_WITHIN: i64 = 12 * SECOND;
/// Ticks (315 s) within which a job is read again after it could not be read: the job is put aside for
/// five minutes, and then found by a load.
const READ_AGAIN_WITHIN: i64 = 315 * SECOND;
/// Round trips of the longest chain of store calls before an attempt, with the pause between loads.
const ROUND_TRIPS: i64 = 30;

impl Check<'_> {
    pub(super) fn lateness(&mut self, job: JobEvidence<'_>) {
        if self.clocks_were_stepped() {
            return;
        }
        let mut groups: BTreeMap<(u64, Instant), Vec<&Call>> = BTreeMap::new();
        for call in self.observations.calls.iter().filter(|call| call.job == job.tracked.number) {
            groups.entry((call.generation, call.scheduled)).or_default().push(call);
        }
        let mut previous = i64::MIN;
        for (&(generation, scheduled), calls) in &groups {
            if let Some(call) = calls.first() {
                let mut expected = self.first_start(job, generation, scheduled);
                // Missed occurrences run one after the other, and later ones after them.
                if job.version(generation).is_some_and(runs_all_missed) {
                    expected = expected.max(previous);
                }
                self.starts_on_time(job, call, expected);
                previous = call.started;
            }
            for (first, second) in calls.iter().zip(calls.iter().skip(1)) {
                let expected = first.response.map_or(first.started, |(at, outcome)| {
                    let is_retry = second.role == first.role && second.retry > first.retry;
                    at + if is_retry { longest_wait(job, second, outcome) } else { 0 }
                });
                self.starts_on_time(job, second, expected);
            }
        }
    }

    /// When the first attempt of an occurrence is due, and no earlier run of the job blocks it.
    fn first_start(&self, job: JobEvidence<'_>, generation: u64, scheduled: Instant) -> i64 {
        if job.tracked.manual.contains(&(scheduled, generation)) {
            return scheduled.ticks();
        }
        let start = job.start_of(generation, scheduled);
        let version = job.version(generation);
        let overlap = version.and_then(|version| version.definition.extensions.overlap);
        let records = job.records();
        let earlier = records.iter().filter(|record| {
            overlap != Some(Overlap::Allow) && record.may_have_begun() && record.from < scheduled
        });
        let closed = earlier.filter_map(|record| record.closed).map(|(_, at)| at.ticks());
        closed.fold(start, i64::max)
    }

    fn starts_on_time(&mut self, job: JobEvidence<'_>, call: &Call, expected: i64) {
        let edits = job.tracked.versions.iter().map(|version| version.acknowledged);
        let switched = self.evidence.users.switched.iter();
        let switched = switched.filter(|(path, ..)| *path == job.tracked.path.collection);
        let changes = edits.chain(switched.map(|&(_, at, ..)| at));
        let expected = changes.filter(|&at| at <= call.started).fold(expected, i64::max);
        let readable = job.readable_again(call.started);
        let readable = readable.map(|at| at.saturating_add(self.longest_between_loads()));
        let expected = readable.map_or(expected, |at| expected.max(at));
        let bound = ON_TIME + ROUND_TRIPS * 2 * ticks(self.delay_max());
        if call.started <= expected + bound {
            return;
        }
        let window = (expected - CALM_AFTER - self.longest_between_loads(), call.started);
        let is_calm = match self.disturbance(window) {
            Disturbance::None => true,
            Disturbance::Fault => false,
            Disturbance::Crash { last } => {
                let latest = expected.max(last) + TAKEN_OVER_WITHIN + bound;
                call.started > latest + self.longest_between_loads()
            }
        };
        if is_calm && !self.is_full_until(job, expected, call.started, bound) {
            let late = (call.started - expected) / (SECOND / 1_000);
            self.violation(job, format!("LATE by {late} ms: {call:?}"));
        }
    }

    fn delay_max(&self) -> std::time::Duration {
        self.evidence.scenario.default_link_faults.delay_max
    }

    /// Time after which a node certainly learns of a run that another node released.
    fn longest_between_loads(&self) -> i64 {
        match self.evidence.scenario.definitions.span {
            Span::Weeks => 300 * SECOND,
            _ => 0,
        }
    }

    /// The faults of a period.
    fn disturbance(&self, (from, to): (i64, i64)) -> Disturbance {
        let is_in = |at: i64| from <= at && at <= to;
        let faults = || self.observations.faults.iter();
        let is_down = |fault: &&InjectedFault| fault.kind == FaultKind::Down;
        if faults().any(|fault| !is_down(&fault) && fault.from <= to && fault.to >= from) {
            return Disturbance::Fault;
        }
        let nodes = self.observations.lifetimes.values();
        let survivors =
            nodes.filter(|&&(start, end)| start < from && end.is_none_or(|end| end > to));
        if survivors.count() == 0 {
            return Disturbance::Fault;
        }
        let crashes = faults().filter(|fault| is_down(fault) && fault.node.is_some());
        match crashes.map(|fault| fault.from).filter(|&at| is_in(at)).max() {
            Some(last) => Disturbance::Crash { last },
            None => Disturbance::None,
        }
    }

    /// Whether there was never a free slot for the job for longer than `bound` until an attempt
    /// started.
    fn is_full_until(&self, job: JobEvidence<'_>, from: i64, started: i64, bound: i64) -> bool {
        let mut starts = (from..started - bound).step_by(bound.unsigned_abs() as usize);
        starts.all(|at| self.is_full(job, (at - SECOND, at + bound)))
    }

    /// Whether a node reached a limit that applies to the job at some time in a period.
    pub(super) fn is_full(&self, job: JobEvidence<'_>, (from, to): (i64, i64)) -> bool {
        let limits = self.evidence.scenario.limits;
        let hosts: BTreeSet<_> = job.tracked.versions.iter().flat_map(Version::hosts).collect();
        let in_collection: BTreeSet<_> = {
            let tracked = self.evidence.users.tracked.iter();
            let same = tracked.filter(|other| other.path.collection == job.tracked.path.collection);
            same.map(|other| other.number).collect()
        };
        // Slots are taken before an attempt starts and returned after its result was received.
        let overlaps =
            |call: &&Call| call.started - SECOND <= to && self.ended(call) + SECOND >= from;
        let attempts = self.observations.calls.iter().chain(self.observations.unsent.values());
        let calls: Vec<_> = attempts.filter(overlaps).collect();
        let most = |applies: &dyn Fn(&Call) -> bool| {
            let nodes: BTreeSet<_> = calls.iter().map(|call| call.node).collect();
            let of_node = |node| {
                let calls = calls.iter().filter(move |call| call.node == node && applies(call));
                let changes = calls
                    .flat_map(|call| [(call.started - SECOND, 1), (self.ended(call) + SECOND, -1)]);
                let mut changes: Vec<(i64, i64)> = changes.collect();
                changes.sort_unstable();
                let in_flight = changes.into_iter().scan(0, |count, (_, by)| {
                    *count += by;
                    Some(*count)
                });
                in_flight.max().unwrap_or_default()
            };
            nodes.into_iter().map(of_node).max().unwrap_or_default().unsigned_abs() as usize
        };
        most(&|_| true) >= limits.all
            || hosts.iter().any(|host| most(&|call| call.host == *host) >= limits.host)
            || most(&|call| in_collection.contains(&call.job)) >= limits.collection
    }

    /// End of a call: its response, or the end of its node.
    fn ended(&self, call: &Call) -> i64 {
        let lifetime = self.observations.lifetimes.get(&call.node);
        let end_of_node = lifetime.and_then(|&(_, end)| end).unwrap_or(i64::MAX / 2);
        call.response.map_or(end_of_node, |(at, _)| at)
    }
}

/// The faults that may delay an attempt.
enum Disturbance {
    None,
    /// Nodes crashed while another one was running, the last of them at this time.
    Crash {
        last: i64,
    },
    Fault,
}

fn runs_all_missed(version: &Version) -> bool {
    let missed = version.definition.extensions.missed_runs.as_ref();
    missed.is_some_and(|missed| missed.policy == MissedPolicy::All)
}

/// The longest wait before a retry by any definition of the job.
fn longest_wait(job: JobEvidence<'_>, retry: &Call, outcome: Outcome) -> i64 {
    let retry_after = match outcome {
        Outcome::Failed { retry_after } => retry_after,
        _ => None,
    };
    let role = if retry.role == ActionRole::Error { ActionRole::Error } else { ActionRole::Main };
    let policies = job.tracked.versions.iter().map(|version| &version.definition);
    let policies = policies.map(|definition| ExpectedRetries::of(definition, role));
    let waits = policies.map(|policy| ticks(policy.wait(retry.retry, retry_after)));
    waits.max().unwrap_or_default()
}

impl Check<'_> {
    /// An occurrence whose start passed while its job or collection was disabled does not run when
    /// it is enabled, unless the job runs once.
    pub(super) fn held_occurrences(
        &mut self,
        job: JobEvidence<'_>,
        scheduled: Instant,
        first: &Call,
    ) {
        let version = job.version(first.generation);
        let recurs = version.is_some_and(|version| version.definition.recurrence.is_some());
        if !recurs || self.clocks_were_stepped() {
            return;
        }
        let switched = self.evidence.users.switched.iter();
        let switched = switched.filter(|(path, ..)| *path == job.tracked.path.collection);
        // The first entry is the creation of the collection.
        let is_enabled = |(_, at, _, state): &&(_, i64, _, CollectionState)| {
            *at <= first.started && *state == CollectionState::Enabled
        };
        let enabled_since = switched.skip(1).filter(is_enabled).last();
        let start = job.start_of(first.generation, scheduled);
        let tolerance = ROUND_TRIPS * ticks(self.delay_max());
        // Another node cannot know whether a node that died after its claim made the attempt.
        let may_be_redelivered = self
            .observations
            .lifetimes
            .values()
            .any(|(_, end)| end.is_some_and(|end| (start..first.started).contains(&end)));
        if let Some((_, at, ..)) = enabled_since.filter(|(_, at, ..)| start + tolerance < *at)
            && !may_be_redelivered
        {
            let at = Instant::from_ticks(*at);
            self.violation(
                job,
                format!("HELD {first:?} started before its collection was enabled at {at:?}"),
            );
        }
    }
}

impl JobEvidence<'_> {
    /// When a node certainly read a job again that could not be read before `at`.
    pub(super) fn readable_again(&self, at: i64) -> Option<i64> {
        let (_, to) = self.tracked.unreadable.filter(|&(from, _)| from <= at)?;
        Some(to.saturating_add(READ_AGAIN_WITHIN))
    }

    /// Scheduled time plus jitter, in ticks.
    pub(super) fn start_of(&self, generation: u64, scheduled: Instant) -> i64 {
        let Some(version) = self.version(generation) else { return scheduled.ticks() };
        let Some(jitter) = &version.definition.extensions.jitter else { return scheduled.ticks() };
        let next = self.rule(version).and_then(|rule| rule.next_after(scheduled));
        let recurs = version.definition.recurrence.is_some();
        let next = next.filter(|_| recurs).map_or(i64::MAX, Instant::ticks);
        let span = ticks(*jitter.value()).min(next - scheduled.ticks());
        // The number of the job is in the first eight bytes of its uid, lowest byte first.
        let fraction = u128::from(self.tracked.number.swap_bytes());
        scheduled.ticks() + ((fraction * u128::from(span.unsigned_abs())) >> 64) as i64
    }
}
