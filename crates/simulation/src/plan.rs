//! What a seed makes of a world: how many nodes, which faults, and when.

use std::time::Duration;

use crate::chance::Chance;
use crate::definitions::Span;
use crate::link::Weather;
use crate::target::Temper;
use crate::time::ticks;

const SECOND: i64 = 10_000_000;
const MINUTE: i64 = 60 * SECOND;

/// What happens to a world, and when.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) start: &'static str,
    pub(crate) span: Span,
    pub(crate) nodes: usize,
    pub(crate) temper: Temper,
    /// Jobs that there are from the beginning.
    pub(crate) jobs: u64,
    /// Whether nodes are told at once of edits made at others.
    pub(crate) all_are_nudged: bool,
    /// How the way to the store is when nothing special happens.
    pub(crate) climate: Weather,
    /// In ticks after the start.
    pub(crate) acts: Vec<(i64, Act)>,
}

/// Something that happens to a world.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Somebody edits something; the number says what.
    User(u64),
    /// A node dies, and another takes its place after so long.
    Crash {
        slot: usize,
        back_after: i64,
    },
    /// A node dies in the middle of one of its next calls of the store.
    CrashInCall {
        slot: usize,
        calls: u64,
    },
    Stop {
        slot: usize,
        back_after: i64,
    },
    Pause {
        slot: usize,
        lasts: i64,
    },
    Resume {
        slot: usize,
    },
    Cut {
        slot: usize,
        lasts: i64,
    },
    Weather {
        slot: usize,
        weather: Weather,
        lasts: i64,
    },
    Calm {
        slot: usize,
    },
    Start {
        slot: usize,
    },
    /// All clocks are set.
    Step {
        by: i64,
    },
    /// The clock of one node is set.
    StepOne {
        slot: usize,
        by: i64,
    },
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let chance = Chance::of(&[seed, 1]);
        let span = match chance.below(8) {
            0..4 => Span::Minutes,
            4..7 => Span::Hours,
            _ => Span::Weeks,
        };
        // Each kind of fault is in about half of the worlds; in some there is none.
        let is_calm = chance.one_in(8);
        let has = || !is_calm && chance.one_in(2);
        let nodes = chance.pick([1, 1, 2, 3, 4]);
        let mut plan = Plan {
            start: chance.pick([
                "2026-03-28T23:50:00Z",
                "2026-10-24T23:40:00Z",
                "2024-02-28T21:00:00Z",
                "2026-12-31T20:00:00Z",
            ]),
            span,
            nodes,
            temper: if chance.one_in(3) { Temper::Kind } else { Temper::Moody },
            jobs: chance.between(1, 6),
            all_are_nudged: chance.one_in(2),
            climate: Weather {
                delay_max: chance.pick([
                    Duration::ZERO,
                    Duration::ZERO,
                    Duration::from_millis(3),
                    Duration::from_millis(200),
                ]),
                ..Weather::default()
            },
            acts: vec![],
        };
        if chance.one_in(2) {
            plan.add(&chance, 1, 25, |chance| Act::User(chance.next()));
        }
        if has() {
            plan.add(&chance, 1, 6, |chance| Act::Crash {
                slot: chance.below(nodes as u64) as usize,
                back_after: away(chance, span),
            });
        }
        if has() {
            plan.add(&chance, 1, 8, |chance| Act::CrashInCall {
                slot: chance.below(nodes as u64) as usize,
                calls: chance.below(6),
            });
        }
        if has() {
            plan.add(&chance, 1, 3, |chance| Act::Stop {
                slot: chance.below(nodes as u64) as usize,
                back_after: away(chance, span),
            });
        }
        if has() {
            plan.add(&chance, 1, 5, |chance| Act::Pause {
                slot: chance.below(nodes as u64) as usize,
                lasts: chance.pick([SECOND / 20, SECOND, 5 * SECOND, 11 * SECOND, 40 * SECOND]),
            });
        }
        if has() {
            plan.add(&chance, 1, 4, |chance| Act::Cut {
                slot: chance.below(nodes as u64) as usize,
                lasts: chance.between(1, 60) as i64 * SECOND,
            });
        }
        if has() {
            plan.add(&chance, 1, 6, |chance| Act::Weather {
                slot: chance.below(nodes as u64) as usize,
                weather: Weather {
                    fails: chance.pick([0, 3, 10]),
                    loses: chance.pick([0, 3, 10]),
                    delay_max: Duration::from_millis(chance.pick([0, 5, 500, 3_000])),
                    ..Weather::default()
                },
                lasts: chance.between(1, 120) as i64 * SECOND,
            });
        }
        if !is_calm && chance.one_in(5) {
            plan.add(&chance, 1, 3, |chance| Act::Step { by: step(chance) });
        }
        if !is_calm && nodes > 1 && chance.one_in(5) {
            plan.add(&chance, 1, 3, |chance| Act::StepOne {
                slot: chance.below(nodes as u64) as usize,
                by: step(chance),
            });
        }
        plan
    }

    fn add(&mut self, chance: &Chance, low: u64, high: u64, act: impl Fn(&Chance) -> Act) {
        let length = ticks(self.span.length());
        for _ in 0..chance.between(low, high) {
            let mut at = chance.below(length.unsigned_abs()) as i64;
            // Jobs like whole minutes, and so do faults.
            if chance.one_in(2) {
                at = at / MINUTE * MINUTE + chance.below(100_000_000) as i64 / 50 - SECOND / 10;
            }
            self.acts.push((at.max(1_234_567), act(chance)));
        }
    }
}

/// How long a node is away.
fn away(chance: &Chance, span: Span) -> i64 {
    let longest = ticks(span.length()) / 5;
    match chance.below(3) {
        0 => chance.below(2 * SECOND as u64) as i64,
        1 => chance.below(90 * SECOND as u64) as i64,
        _ => chance.below(longest.unsigned_abs()) as i64,
    }
}

/// How far a clock is set: a second to a year, ahead or back.
fn step(chance: &Chance) -> i64 {
    let by = chance.pick([
        SECOND,
        20 * SECOND,
        10 * MINUTE,
        60 * MINUTE,
        30 * 24 * 60 * MINUTE,
        365 * 24 * 60 * MINUTE,
    ]);
    if chance.one_in(2) { by } else { -by }
}
