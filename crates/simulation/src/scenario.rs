//! A scenario: the nodes, jobs, edits and faults that follow from a seed.

use std::time::Duration;

use kalends_engine::EngineSettings;
use kalends_recurrence::TICKS_PER_SECOND;
use kalends_store::record::JobKey;

use crate::definitions::{DefinitionOptions, Span};
use crate::hosts::Host;
use crate::link::LinkFaults;
use crate::rng::Rng;
use crate::target::TargetBehavior;
use crate::time::ticks;

const SECOND: i64 = TICKS_PER_SECOND;
const MINUTE: i64 = 60 * SECOND;

/// Shape of a world and its timed events.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) start: &'static str,
    pub(crate) definitions: DefinitionOptions,
    pub(crate) nodes: usize,
    pub(crate) machines: Vec<MachineStart>,
    pub(crate) target_behavior: TargetBehavior,
    pub(crate) hosts: Vec<Host>,
    /// One of this many attempts panics; 0 for none.
    pub(crate) panic_one_in: u64,
    pub(crate) limits: AttemptLimits,
    pub(crate) collections: u64,
    /// Number of jobs that exist at the start.
    pub(crate) jobs: u64,
    /// A user edits a job around one of this many claims of its runs; 0 for none.
    pub(crate) edit_one_in_claims: u64,
    /// Whether an edit nudges all nodes, not only the one that handled it.
    pub(crate) nudges_all_nodes: bool,
    /// Link faults outside of injected degradations.
    pub(crate) default_link_faults: LinkFaults,
    /// Events with their time in ticks after the start.
    pub(crate) events: Vec<(i64, ScenarioEvent)>,
}

/// How a machine starts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineStart {
    /// Ticks after the start of the world.
    pub(crate) at: i64,
    /// Difference of its clock from the store's, in ticks.
    pub(crate) clock_offset: i64,
}

/// Maximum numbers of attempts in flight of each node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptLimits {
    pub(crate) all: usize,
    pub(crate) host: usize,
    pub(crate) collection: usize,
}

impl Default for AttemptLimits {
    fn default() -> AttemptLimits {
        let settings = EngineSettings::default();
        AttemptLimits {
            all: settings.attempts_max,
            host: settings.host_attempts_max,
            collection: settings.collection_attempts_max,
        }
    }
}

/// An event of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScenarioEvent {
    /// A user edits a job or a collection; the number seeds the choice.
    UserEdit(u64),
    /// A user skips the next occurrence of a job, or takes that back; the number seeds the choice.
    Skip(u64),
    /// A user edits a job whose run was just claimed.
    EditOfClaimedJob {
        job: JobKey,
        what: u64,
    },
    /// A node crashes; another starts on its machine after `back_after` ticks.
    Crash {
        machine: usize,
        back_after: i64,
    },
    /// A node crashes during a store call, after `calls` more calls.
    CrashDuringCall {
        machine: usize,
        calls: u64,
    },
    Stop {
        machine: usize,
        back_after: i64,
    },
    Pause {
        machine: usize,
        lasts: i64,
    },
    Resume {
        machine: usize,
    },
    Partition {
        machine: usize,
        lasts: i64,
    },
    DegradeLink {
        machine: usize,
        link_faults: LinkFaults,
        lasts: i64,
    },
    RestoreLink {
        machine: usize,
    },
    /// All writes to the store fail, while reads succeed.
    FailWrites {
        lasts: i64,
    },
    Start {
        machine: usize,
    },
    /// All clocks are stepped by the same amount.
    StepAllClocks {
        by: i64,
    },
    /// The clock of one machine is stepped.
    StepClock {
        machine: usize,
        by: i64,
    },
    /// A user pauses all jobs.
    PauseJobs {
        lasts: i64,
        /// Whether the pause ends by itself; otherwise a user ends it.
        ends_by_itself: bool,
    },
    /// The pause of all jobs ends.
    ResumeJobs,
    /// The definition of a job cannot be read any more.
    DamageJob {
        number: u64,
    },
    /// A user replaces the job that cannot be read, or it can be read again.
    RepairJob {
        is_replaced: bool,
    },
}

impl ScenarioEvent {
    /// Whether a user sends a request that writes.
    pub(crate) fn is_request(&self) -> bool {
        matches!(
            self,
            ScenarioEvent::UserEdit(_)
                | ScenarioEvent::Skip(_)
                | ScenarioEvent::EditOfClaimedJob { .. }
                | ScenarioEvent::PauseJobs { .. }
        )
    }
}

impl Scenario {
    pub(crate) fn from_seed(seed: u64) -> Scenario {
        let rng = Rng::derive(&[seed, 1]);
        let span = match rng.below(8) {
            0..4 => Span::Minutes,
            4..7 => Span::Hours,
            _ => Span::Weeks,
        };
        // Each kind of fault occurs in about half of the scenarios; some have no faults.
        let is_fault_free = rng.one_in(8);
        let has = || !is_fault_free && rng.one_in(2);
        let nodes = rng.pick([1, 1, 2, 3, 4]);
        let width = Width::from_seed(seed, span, nodes, is_fault_free);
        let span = width.definitions.span;
        let mut scenario = Scenario {
            start: rng.pick([
                "2026-03-28T23:50:00Z",
                "2026-10-24T23:40:00Z",
                "2024-02-28T21:00:00Z",
                "2026-12-31T20:00:00Z",
            ]),
            definitions: width.definitions,
            nodes,
            machines: width.machines,
            hosts: width.hosts,
            panic_one_in: width.panic_one_in,
            limits: width.limits,
            collections: width.collections,
            edit_one_in_claims: width.edit_one_in_claims,
            target_behavior: if rng.one_in(3) || width.jobs > 0 {
                TargetBehavior::Reliable
            } else {
                TargetBehavior::Faulty
            },
            jobs: width.jobs.max(rng.between(1, 6)),
            nudges_all_nodes: rng.one_in(2),
            default_link_faults: LinkFaults {
                delay_max: rng.pick([
                    Duration::ZERO,
                    Duration::ZERO,
                    Duration::from_millis(3),
                    Duration::from_millis(200),
                ]),
                ..LinkFaults::default()
            },
            events: vec![],
        };
        if rng.one_in(2) {
            let most = 25.max(width.jobs);
            scenario.add(&rng, 1, most, |rng| ScenarioEvent::UserEdit(rng.next()));
        }
        if has() {
            scenario.add(&rng, 1, 6, |rng| ScenarioEvent::Crash {
                machine: rng.below(nodes as u64) as usize,
                back_after: downtime(rng, span),
            });
        }
        if has() {
            scenario.add(&rng, 1, 8, |rng| ScenarioEvent::CrashDuringCall {
                machine: rng.below(nodes as u64) as usize,
                calls: rng.below(6),
            });
        }
        if has() {
            scenario.add(&rng, 1, 3, |rng| ScenarioEvent::Stop {
                machine: rng.below(nodes as u64) as usize,
                back_after: downtime(rng, span),
            });
        }
        if has() {
            scenario.add(&rng, 1, 5, |rng| ScenarioEvent::Pause {
                machine: rng.below(nodes as u64) as usize,
                lasts: rng.pick([SECOND / 20, SECOND, 5 * SECOND, 11 * SECOND, 40 * SECOND]),
            });
        }
        if has() {
            scenario.add(&rng, 1, 4, |rng| ScenarioEvent::Partition {
                machine: rng.below(nodes as u64) as usize,
                lasts: rng.between(1, 60) as i64 * SECOND,
            });
        }
        if has() {
            scenario.add(&rng, 1, 6, |rng| ScenarioEvent::DegradeLink {
                machine: rng.below(nodes as u64) as usize,
                link_faults: LinkFaults {
                    fail_one_in: rng.pick([0, 3, 10]),
                    lose_reply_one_in: rng.pick([0, 3, 10]),
                    delay_max: Duration::from_millis(rng.pick([0, 5, 500, 3_000])),
                    gate_hold_max: width.gate_hold_max,
                    ..LinkFaults::default()
                },
                lasts: rng.between(1, 120) as i64 * SECOND,
            });
        }
        if !is_fault_free && rng.one_in(5) {
            scenario.add(&rng, 1, 3, |rng| ScenarioEvent::StepAllClocks { by: clock_step(rng) });
        }
        if !is_fault_free && nodes > 1 && rng.one_in(5) {
            scenario.add(&rng, 1, 3, |rng| ScenarioEvent::StepClock {
                machine: rng.below(nodes as u64) as usize,
                by: clock_step(rng),
            });
        }
        if width.fails_writes {
            scenario.add(&rng, 1, 2, |rng| ScenarioEvent::FailWrites {
                lasts: rng.pick([2, 20, 90, 300]) * SECOND,
            });
        }
        scenario.add_unreadable_job(&Rng::derive(&[seed, 9]));
        scenario.add_pauses(&Rng::derive(&[seed, 10]));
        scenario.add_skips(&Rng::derive(&[seed, 11]));
        scenario
    }

    /// In one of four worlds users pause all jobs for a while, some times.
    fn add_pauses(&mut self, rng: &Rng) {
        if rng.one_in(4) {
            // The end of the pause would move with the clock.
            let steps =
                |event: &ScenarioEvent| matches!(event, ScenarioEvent::StepAllClocks { .. });
            let may_end_by_itself = !self.events.iter().any(|(_, event)| steps(event));
            self.add(rng, 1, 3, |rng| ScenarioEvent::PauseJobs {
                lasts: rng.pick([1, 3, 30, 75, 180]) * SECOND + rng.below(10_000_000) as i64,
                ends_by_itself: may_end_by_itself && rng.one_in(2),
            });
        }
    }

    /// In one of three worlds users skip occurrences.
    fn add_skips(&mut self, rng: &Rng) {
        if rng.one_in(3) {
            let most = 25.max(self.jobs / 2);
            self.add(rng, 1, most, |rng| ScenarioEvent::Skip(rng.next()));
        }
    }

    /// In one of six worlds a job cannot be read for a while. It ends early enough for the job to
    /// run again before the end.
    fn add_unreadable_job(&mut self, rng: &Rng) {
        if rng.one_in(6) {
            let length = ticks(self.definitions.span.length()).unsigned_abs();
            let from = rng.below(length / 2) as i64;
            let to = from + rng.below(length / 4) as i64;
            let number = rng.below(self.jobs);
            self.events.push((from, ScenarioEvent::DamageJob { number }));
            self.events.push((to, ScenarioEvent::RepairJob { is_replaced: rng.one_in(2) }));
        }
    }

    fn add(&mut self, rng: &Rng, low: u64, high: u64, act: impl Fn(&Rng) -> ScenarioEvent) {
        let length = ticks(self.definitions.span.length());
        for _ in 0..rng.between(low, high) {
            let mut at = rng.below(length.unsigned_abs()) as i64;
            // Most jobs are due at whole minutes: half of the faults happen around them.
            if rng.one_in(2) {
                at = at / MINUTE * MINUTE + rng.below(100_000_000) as i64 / 50 - SECOND / 10;
            }
            self.events.push((at.max(1_234_567), act(rng)));
        }
    }
}

/// Options that are drawn independently of the faults.
struct Width {
    definitions: DefinitionOptions,
    machines: Vec<MachineStart>,
    hosts: Vec<Host>,
    panic_one_in: u64,
    limits: AttemptLimits,
    collections: u64,
    /// Least number of jobs.
    jobs: u64,
    edit_one_in_claims: u64,
    gate_hold_max: Duration,
    fails_writes: bool,
}

impl Width {
    fn from_seed(seed: u64, span: Span, nodes: usize, is_fault_free: bool) -> Width {
        let rng = Rng::derive(&[seed, 3]);
        let has = |one_in| !is_fault_free && rng.one_in(one_in);
        // Many jobs with few slots: each of them runs at its time unless its own host is full.
        let is_crowded = rng.one_in(4);
        let span = match span {
            _ if is_crowded => Span::Minutes,
            // They take ten times as long as the others.
            Span::Weeks if rng.one_in(2) => Span::Hours,
            span => span,
        };
        let length = ticks(span.length());
        let hosts = if is_crowded { rng.between(2, 6) } else { rng.between(1, 3) };
        let has_host_faults = is_crowded || rng.one_in(3);
        let host = |number| match number > 0 && has_host_faults {
            true => Host::random(&rng, length),
            false => Host::HEALTHY,
        };
        let hosts: Vec<_> = (0..hosts).map(host).collect();
        let machine = |number| MachineStart {
            at: if number > 0 && rng.one_in(4) {
                rng.below(length.unsigned_abs()) as i64
            } else {
                0
            },
            clock_offset: match nodes > 1 && rng.one_in(4) {
                true => clock_step(&rng),
                false => 0,
            },
        };
        Width {
            machines: (0..nodes).map(machine).collect(),
            definitions: DefinitionOptions {
                span,
                hosts: hosts.len() as u64,
                has_jitter: rng.one_in(3),
            },
            hosts,
            panic_one_in: if has(6) { 30 } else { 0 },
            limits: match is_crowded {
                true => AttemptLimits {
                    all: rng.pick([8, 16, 40]),
                    host: rng.pick([1, 2, 4]),
                    collection: rng.pick([4, 8, 40]),
                },
                false => AttemptLimits::default(),
            },
            collections: if is_crowded { rng.between(2, 6) } else { 2 },
            jobs: if is_crowded { rng.pick([20, 40, 80, 200]) } else { 0 },
            edit_one_in_claims: if rng.one_in(3) { rng.pick([5, 20]) } else { 0 },
            gate_hold_max: match has(3) {
                true => Duration::from_secs(rng.pick([1, 5, 9])),
                false => Duration::ZERO,
            },
            fails_writes: has(4),
        }
    }
}

/// How long a machine stays without a node, in ticks.
fn downtime(rng: &Rng, span: Span) -> i64 {
    let longest = ticks(span.length()) / 5;
    match rng.below(3) {
        0 => rng.below(2 * SECOND as u64) as i64,
        1 => rng.below(90 * SECOND as u64) as i64,
        _ => rng.below(longest.unsigned_abs()) as i64,
    }
}

/// Size of a clock step in ticks: a second to a year, forward or back.
fn clock_step(rng: &Rng) -> i64 {
    let by = rng.pick([
        SECOND,
        20 * SECOND,
        10 * MINUTE,
        60 * MINUTE,
        30 * 24 * 60 * MINUTE,
        365 * 24 * 60 * MINUTE,
    ]);
    if rng.one_in(2) { by } else { -by }
}
