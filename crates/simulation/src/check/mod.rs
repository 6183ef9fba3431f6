//! Whether a world kept what is promised. It knows what users were told, what targets got and what
//! was kept in the end, and asks nothing of the engine's own reasoning.

mod calls;
mod off;
mod policy;
mod records;
mod tiles;

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_store::record::{Cause, Disposition};

use crate::log::{Kind, Noted, Trouble};
use crate::users::{Kept, Life, Version};
use crate::world::Evidence;

/// After an answer as long is allowed for its recording.
const RECORDING: i64 = 150_000_000;

/// What is checked, and what was found wrong.
pub(crate) struct Check<'a> {
    pub(crate) evidence: &'a Evidence<'a>,
    pub(crate) noted: &'a Noted,
    pub(crate) found: Vec<String>,
    /// How many occurrences were accounted for.
    pub(crate) occurrences: u64,
}

/// Everything about one job.
#[derive(Clone, Copy)]
struct Case<'a> {
    life: &'a Life,
    kept: &'a Kept,
}

/// An occurrence of a schedule, or a stretch of them, as the ledger and the open runs tell.
#[derive(Clone, Copy, Debug)]
struct Item {
    generation: u64,
    from: Instant,
    to: Instant,
    count: u64,
    /// None while it is worked on.
    closed: Option<(Disposition, Instant)>,
}

impl Item {
    fn may_have_begun(&self) -> bool {
        use Disposition::{Completed, Failed, Superseded};
        self.closed.is_none_or(|(how, _)| matches!(how, Completed | Failed | Superseded))
    }
}

impl<'a> Check<'a> {
    pub(crate) fn run(evidence: &'a Evidence<'a>, noted: &'a Noted) -> Check<'a> {
        let mut check = Check { evidence, noted, found: noted.seen.clone(), occurrences: 0 };
        for life in &evidence.users.lives {
            let Some(kept) = &life.kept else {
                check.found.push(format!("LOST {}: the job is not there any more", life.path.job));
                continue;
            };
            let case = Case { life, kept };
            check.tiles(case);
            check.records(case);
            check.calls(case);
        }
        check
    }

    fn fail(&mut self, case: Case<'_>, what: impl std::fmt::Display) {
        let Life { number, path, .. } = case.life;
        self.found.push(format!("{what} [job {number} {}]", path.job));
    }

    /// Whether something went wrong at a node, or everywhere, in a stretch of time.
    fn is_troubled(&self, node: usize, from: i64, to: i64) -> bool {
        let hits = |trouble: &&Trouble| {
            trouble.node.is_none_or(|other| other == node)
                && trouble.from <= to
                && trouble.to >= from
        };
        self.noted.troubles.iter().any(|trouble| hits(&trouble))
    }

    fn clocks_were_set(&self) -> bool {
        self.noted.troubles.iter().any(|trouble| trouble.kind == Kind::Step)
    }
}

impl<'a> Case<'a> {
    fn version(&self, generation: u64) -> Option<&'a Version> {
        self.life.versions.iter().find(|version| version.generation == generation)
    }

    fn rule(&self, version: &Version) -> Option<Rule> {
        let start_months_ahead_max = i64::from(i32::MAX);
        let settings = Settings { start_months_ahead_max, ..Settings::default() };
        let definition = kalends_recurrence::Definition {
            start: version.definition.start,
            created: self.life.created,
            recurrence: version.definition.recurrence.clone(),
        };
        Rule::new(definition, &settings).ok().map(|rule| rule.without_count())
    }

    /// What became of the occurrences of its schedule, in their order.
    fn items(&self) -> Vec<Item> {
        let closed = self.kept.ledger.iter().filter(|row| row.cause == Cause::Scheduled);
        let closed = closed.map(|row| Item {
            generation: row.generation,
            from: row.from,
            to: row.to,
            count: row.count,
            closed: Some((row.disposition, row.closed)),
        });
        let open = self.kept.open.iter().filter(|run| run.cause == Cause::Scheduled);
        let open = open.map(|run| Item {
            generation: run.generation,
            from: run.scheduled,
            to: run.scheduled,
            count: 1,
            closed: None,
        });
        let mut items: Vec<_> = closed.chain(open).collect();
        items.sort_by_key(|item| (item.generation, item.from, item.to));
        items
    }
}
