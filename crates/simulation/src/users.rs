//! People who make, change, run and delete jobs, and what they were told.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kalends_domain::{
    Collection, CollectionName, CollectionPath, CollectionState, EditKind, GroupName, GroupPath,
    HistoryEntry, JobDefinition, JobName, JobPath, Lifecycle, Location, Plan as Tier,
    SubscriptionId, Switch,
};
use kalends_recurrence::{Instant, Settings};
use kalends_store::record::{JobKey, JobRecord, JobUid, LedgerRecord, OpenRun};
use kalends_store::{
    CollectionContext, CollectionWrite, JobContext, JobWrite, Page, Refusal, RefusalKind, Store,
};

use crate::chance::Chance;
use crate::definitions::{Span, definition};
use crate::edits::Edit;
use crate::log::Log;

/// More rows than any world of this size has.
const ROWS_MAX: usize = 10_000_000;

/// A job from its creation to its deletion, or to the end of the world.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) number: u64,
    pub(crate) key: JobKey,
    pub(crate) path: JobPath,
    pub(crate) created: Instant,
    pub(crate) versions: Vec<Version>,
    /// Runs that users asked for, with the edit they were of.
    pub(crate) manual: Vec<(Instant, u64)>,
    /// When it was deleted, in virtual time.
    pub(crate) gone: Option<i64>,
    /// What the store kept of it when it was deleted, or at the end.
    pub(crate) kept: Option<Kept>,
}

/// A job between two edits.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) generation: u64,
    pub(crate) definition: JobDefinition,
    /// The time by which the edit was decided.
    pub(crate) now: Instant,
    /// When it was acknowledged, in virtual time.
    pub(crate) acknowledged: i64,
    /// Whether the use of `count` began anew with it.
    pub(crate) restarts: bool,
}

/// What the store keeps of a job.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) record: JobRecord,
    pub(crate) ledger: Vec<LedgerRecord>,
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) open: Vec<OpenRun>,
}

/// Everybody who uses a world.
pub(crate) struct Users<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) log: &'a Log,
    pub(crate) span: Span,
    pub(crate) lives: Vec<Life>,
    pub(crate) living: BTreeMap<JobPath, usize>,
    /// When collections were switched, in virtual time and by the user's clock, and to what.
    pub(crate) switched: Vec<(CollectionPath, i64, Instant, CollectionState)>,
}

/// The answer of a store that answers at once.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the reference store answers at once"),
    }
}

pub(crate) fn collection_path(number: u64) -> CollectionPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
    let collection = CollectionName::new(&format!("c{number}")).unwrap();
    CollectionPath { group, collection }
}

pub(crate) fn job_path(number: u64) -> JobPath {
    let job = JobName::new(&format!("j{number}")).unwrap();
    JobPath { collection: collection_path(number % 2), job }
}

impl Users<'_> {
    pub(crate) fn switch_collection(
        &mut self,
        number: u64,
        state: CollectionState,
        at: (i64, Instant),
    ) {
        let path = collection_path(number);
        let collection = Collection {
            location: Location::new("West US").unwrap(),
            tags: None,
            plan: Tier::Standard,
            state,
            quota: None,
        };
        let decide = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
        now_or_never(self.store.edit_collection(path.clone(), Box::new(decide))).unwrap();
        self.log.trace(|| format!("user switches collection {} {state:?}", path.collection));
        self.switched.push((path, at.0, at.1, state));
    }

    /// Does what a number says. `at` is virtual time, `now` what the clock of the API's node shows.
    pub(crate) fn act(&mut self, what: u64, at: i64, now: Instant) {
        let chance = Chance::new(what);
        let path = job_path(chance.below(8));
        let existing = self.living.get(&path).copied();
        let definition_now = existing.map(|life| {
            let versions = &self.lives[life].versions;
            versions[versions.len() - 1].definition.clone()
        });
        match (definition_now, chance.below(12)) {
            (None, _) => self.make(path, definition(&chance, self.span, now), at, now),
            (Some(_), 0 | 1) => {
                let new = definition(&chance, self.span, now);
                self.edit(path, new, EditKind::Replace, at, now);
            }
            (Some(old), 2 | 3) => {
                let mut new = old;
                new.extensions.description = Some(what.to_string());
                self.edit(path, new, EditKind::Change, at, now);
            }
            (Some(old), 4) => {
                let other = definition(&chance, self.span, now);
                let new = JobDefinition { start: other.start, recurrence: other.recurrence, ..old };
                self.edit(path, new, EditKind::Change, at, now);
            }
            (Some(old), 5 | 6) => {
                let switch = match old.switch {
                    Switch::Enabled => Switch::Disabled,
                    Switch::Disabled => Switch::Enabled,
                };
                self.edit(path, JobDefinition { switch, ..old }, EditKind::Change, at, now);
            }
            (Some(_), 7) => self.delete(path, at),
            (Some(_), 8 | 9) => {
                let number = chance.below(2);
                let path = collection_path(number);
                let last = self.switched.iter().rev().find(|(other, ..)| *other == path);
                let state = match last.map(|(_, _, _, state)| *state) {
                    Some(CollectionState::Enabled) => CollectionState::Disabled,
                    _ => CollectionState::Enabled,
                };
                self.switch_collection(number, state, (at, now));
            }
            _ => self.run(path, now),
        }
    }

    pub(crate) fn make(&mut self, path: JobPath, definition: JobDefinition, at: i64, now: Instant) {
        let number = self.lives.len() as u64 + 1;
        if let Some((record, _)) = self.put(&path, definition, EditKind::Replace, number, now) {
            self.living.insert(path.clone(), self.lives.len());
            let version = Version {
                generation: record.job.generation,
                definition: record.job.definition,
                now,
                acknowledged: at,
                restarts: true,
            };
            self.lives.push(Life {
                number,
                key: record.key,
                path,
                created: record.job.created,
                versions: vec![version],
                manual: vec![],
                gone: None,
                kept: None,
            });
            self.log.noted().keys.insert(number, record.key);
        }
    }

    fn edit(&mut self, path: JobPath, new: JobDefinition, kind: EditKind, at: i64, now: Instant) {
        let life = self.living[&path];
        let versions = &self.lives[life].versions;
        let old = &versions[versions.len() - 1].definition;
        let moved = old.start != new.start || old.recurrence != new.recurrence;
        let restarts = kind == EditKind::Replace || moved;
        let is_other = *old != new;
        let put = self.put(&path, new.clone(), kind, 0, now);
        if put.as_ref().is_some_and(|(record, _)| is_other && record.job.definition != new) {
            let what = format!("LOST an edit of {} was answered and not stored", path.job);
            self.log.noted().seen.push(what);
        }
        if let Some((record, true)) = put {
            let generation = record.job.generation;
            self.lives[life].versions.push(Version {
                generation,
                definition: new,
                now,
                acknowledged: at,
                restarts,
            });
        }
    }

    /// The job as it was answered, and whether it changed.
    fn put(
        &self,
        path: &JobPath,
        definition: JobDefinition,
        kind: EditKind,
        number: u64,
        now: Instant,
    ) -> Option<(JobRecord, bool)> {
        let mut uid = [0; 16];
        uid[..8].copy_from_slice(&number.to_le_bytes());
        let edit = Edit { definition, kind, now, uid: JobUid(uid) };
        let decide = move |context: JobContext<'_>| edit.decide(&Settings::default(), &context);
        let edited = now_or_never(self.store.edit_job(path.clone(), Box::new(decide)));
        self.log.trace(|| match &edited {
            Ok(edited) => format!("user puts {}: {:?}", path.job, edited.after),
            Err(error) => format!("user puts {}: {error}", path.job),
        });
        let edited = edited.ok()?;
        let after = edited.after?;
        let changed = edited.before.is_none_or(|before| before.version != after.version);
        Some((after, changed))
    }

    fn delete(&mut self, path: JobPath, at: i64) {
        let Some(life) = self.living.remove(&path) else { return };
        self.lives[life].kept = self.kept(&self.lives[life]);
        self.lives[life].gone = Some(at);
        let decide = |_: JobContext<'_>| Ok(JobWrite::Delete);
        now_or_never(self.store.edit_job(path.clone(), Box::new(decide))).unwrap();
        self.log.trace(|| format!("user deletes {}", path.job));
    }

    fn run(&mut self, path: JobPath, now: Instant) {
        let decide = move |context: JobContext<'_>| match context.existing {
            Some(job) if job.state.lifecycle == Lifecycle::Active => Ok(JobWrite::Run { at: now }),
            _ => {
                Err(Refusal { kind: RefusalKind::JobFinished, path: None, message: "over".into() })
            }
        };
        let edited = now_or_never(self.store.edit_job(path.clone(), Box::new(decide)));
        let Ok(edited) = edited else { return };
        let Some(job) = edited.after else { return };
        self.log.trace(|| format!("user runs {}", path.job));
        for run in now_or_never(self.store.open_runs(job.key)).unwrap() {
            self.log.noted().runs.insert(run.id, (job.key, run.scheduled));
        }
        let life = self.living[&path];
        self.lives[life].manual.push((now, job.job.generation));
    }

    /// What the store keeps of a job that lives.
    pub(crate) fn kept(&self, life: &Life) -> Option<Kept> {
        let (record, _) = now_or_never(self.store.job(life.path.clone())).ok()??;
        let ledger = self.store.ledger(life.key, Instant::MIN, Instant::MAX, ROWS_MAX);
        let history =
            self.store.history(life.path.clone(), Default::default(), Page::first(ROWS_MAX));
        Some(Kept {
            record,
            ledger: now_or_never(ledger).ok()?,
            history: now_or_never(history).ok()??.into_iter().rev().map(|r| r.entry).collect(),
            open: now_or_never(self.store.open_runs(life.key)).ok()?,
        })
    }
}
