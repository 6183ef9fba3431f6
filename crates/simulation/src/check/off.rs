//! Instants that passed while a collection was switched off: none of them runs later, except of what
//! runs once.

use kalends_domain::CollectionState;
use kalends_store::record::Disposition;

use super::{Case, Check, Item};
use crate::time::ticks;
use crate::users::Version;

/// What is due so soon may have been claimed when the collection was switched off.
const CLAIMED_AHEAD: i64 = 20_000_000;

/// What was due so long before in a healthy world has been seen to.
const SEEN_TO: i64 = 600_000_000;

/// A stretch of time in which a collection was off, by the clock of the store.
#[derive(Clone, Copy)]
struct Spell {
    off: i64,
    /// None where it was never switched on again.
    on: Option<i64>,
}

impl Check<'_> {
    pub(super) fn off(&mut self, case: Case<'_>, version: &Version, item: &Item) {
        // What is known of the time is as old as the way is long.
        let apart = 8 * ticks(self.evidence.plan.climate.delay_max);
        let (from, to) = (item.from.ticks(), item.to.ticks());
        let runs_once = version.definition.recurrence.is_none();
        let spells = self.spells(case);
        match item.closed {
            Some((Disposition::SkippedDisabled, closed)) => {
                let closed = closed.ticks();
                let explains = |spell: &Spell| {
                    let on = spell.on.unwrap_or(i64::MAX);
                    spell.off <= closed + apart
                        && to <= on.saturating_add(apart)
                        && (to >= spell.off - apart
                            || self.is_troubled_anywhere(from - SEEN_TO, closed + SEEN_TO))
                };
                let explained = self.clocks_were_set() || spells.iter().any(explains);
                if runs_once || !explained {
                    self.fail(case, format!("HELD {item:?}, and its collection was on"));
                }
            }
            // An edit may have come before anything else.
            Some((Disposition::Superseded, _)) => {}
            _ => {
                let is_inside = |spell: &Spell| {
                    let on = spell.on.unwrap_or(i64::MAX);
                    spell.off + CLAIMED_AHEAD + apart < from && from + apart < on
                };
                if !runs_once && !self.clocks_were_set() && spells.iter().any(is_inside) {
                    self.fail(case, format!("HELD {item:?} passed while its collection was off"));
                }
            }
        }
    }

    /// When the collection of a job was off.
    fn spells(&self, case: Case<'_>) -> Vec<Spell> {
        let mut spells: Vec<Spell> = vec![];
        for (path, _, at, state) in &self.evidence.users.switched {
            if *path != case.life.path.collection {
                continue;
            }
            let at = at.ticks();
            match (*state, spells.last_mut()) {
                (CollectionState::Enabled, Some(last)) => {
                    last.on.get_or_insert(at);
                }
                (CollectionState::Enabled, None) => {}
                (_, Some(Spell { on: None, .. })) => {}
                _ => spells.push(Spell { off: at, on: None }),
            }
        }
        spells
    }

    fn is_troubled_anywhere(&self, from: i64, to: i64) -> bool {
        self.noted.troubles.iter().any(|trouble| trouble.from <= to && trouble.to >= from)
    }
}
