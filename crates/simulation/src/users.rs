//! Simulated API users. Records the edits that the store acknowledged.

mod skips;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kalends_domain::{
    Collection, CollectionName, CollectionPath, CollectionState, EditKind, ErrorAction, GroupName,
    GroupPath, HistoryEntry, JobDefinition, JobName, JobPath, Lifecycle, Location, MainAction,
    Plan as Tier, SubscriptionId, Switch,
};
use kalends_recurrence::{Instant, Settings};
use kalends_store::record::{JobKey, JobRecord, JobUid, LedgerRecord, OpenRun, Pause, PauseRecord};
use kalends_store::{
    CollectionContext, CollectionWrite, JobContext, JobWrite, Page, PauseContext, PauseWrite,
    Rejection, Store,
};

use crate::definitions::{DefinitionOptions, action, random_definition, retry, seconds};
use crate::hosts;
use crate::job_edit::JobEdit;
use crate::recorder::Recorder;
use crate::restartable_store::RestartableStore;
use crate::rng::Rng;
use crate::scenario::Scenario;

/// More rows than any scenario produces.
const ROWS_MAX: usize = 10_000_000;

/// Most manual runs of a job at the same time.
const RUNS_AT_ONCE_MAX: u64 = 30;

/// A job from its creation to its deletion or to the end of the simulation.
#[derive(Debug)]
pub(crate) struct TrackedJob {
    pub(crate) number: u64,
    pub(crate) key: JobKey,
    pub(crate) path: JobPath,
    pub(crate) created: Instant,
    pub(crate) versions: Vec<Version>,
    /// Manual runs: time and generation of the job.
    pub(crate) manual: Vec<(Instant, u64)>,
    /// Deletion in virtual time.
    pub(crate) deleted_at: Option<i64>,
    /// Start and end of the time in which its definition could not be read, in virtual time.
    pub(crate) unreadable: Option<(i64, i64)>,
    /// Final state in the store, read before the deletion or at the end.
    pub(crate) stored: Option<StoredJob>,
}

/// A generation of a job.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) generation: u64,
    pub(crate) definition: JobDefinition,
    /// Time of the edit by the store's clock.
    pub(crate) now: Instant,
    /// Acknowledgement of the edit in virtual time.
    pub(crate) acknowledged: i64,
    /// Whether the edit restarted the counting towards `count`.
    pub(crate) restarts: bool,
    /// Whether the edit changed the schedule and superseded its open runs.
    pub(crate) moves: bool,
    /// Occurrences up to this time are skipped by request.
    pub(crate) skip_until: Option<Instant>,
}

impl Version {
    /// Hosts of the job's actions.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = u64> {
        self.targets().into_iter().map(|(host, _)| host)
    }

    /// Numbers that identify the job's actions.
    pub(crate) fn definitions(&self) -> Vec<u64> {
        self.targets().into_iter().map(|(_, definition)| definition).collect()
    }

    fn targets(&self) -> Vec<(u64, u64)> {
        let MainAction { action, error_action, .. } = &self.definition.action;
        let error = error_action.iter().map(|error| &error.action);
        error.chain([action]).map(hosts::parse).collect()
    }
}

/// Everything that the store holds about a job.
#[derive(Debug)]
pub(crate) struct StoredJob {
    pub(crate) record: JobRecord,
    pub(crate) ledger: Vec<LedgerRecord>,
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) open: Vec<OpenRun>,
}

/// All users of a world.
pub(crate) struct Users<'a> {
    pub(crate) store: &'a dyn Store,
    /// The store below a mutant, in which a job can be damaged.
    pub(crate) damage: &'a RestartableStore,
    pub(crate) recorder: &'a Recorder,
    pub(crate) scenario: &'a Scenario,
    pub(crate) tracked: Vec<TrackedJob>,
    pub(crate) active: BTreeMap<JobPath, usize>,
    /// Changes of whether the jobs of a collection run: path, virtual time, time by the API node's clock,
    /// new state. A pause disables every collection.
    pub(crate) switched: Vec<(CollectionPath, i64, Instant, CollectionState)>,
    pub(crate) pauses: Pauses,
}

/// Pauses of all jobs.
#[derive(Default)]
pub(crate) struct Pauses {
    /// Start and end by the store's clock; the last one may not have ended.
    pub(crate) periods: Vec<(Instant, Option<Instant>)>,
    /// The states that users gave to collections, whether or not a pause disables them.
    own_states: BTreeMap<CollectionPath, CollectionState>,
}

/// Polls a future of the reference store, which is always ready.
pub(crate) fn block_on_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the reference store never waits"),
    }
}

pub(crate) fn collection_path(number: u64) -> CollectionPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
    let collection = CollectionName::new(&format!("c{number}")).unwrap();
    CollectionPath { group, collection }
}

pub(crate) fn job_path(number: u64, collections: u64) -> JobPath {
    let job = JobName::new(&format!("j{number}")).unwrap();
    JobPath { collection: collection_path(number % collections), job }
}

/// A definition that differs from `old` in one member other than the schedule and the switch.
fn edited_except_schedule(
    old: JobDefinition,
    rng: &Rng,
    number: u64,
    options: DefinitionOptions,
) -> JobDefinition {
    let mut new = old;
    match rng.below(6) {
        0 => new.action.action = action(number, options),
        1 => new.action.retry = rng.one_in(2).then(|| Box::new(retry(rng))),
        2 => {
            let error = Box::new(ErrorAction { action: action(number ^ 1, options), retry: None });
            let has_none = new.action.error_action.is_none();
            new.action.error_action = has_none.then_some(error);
        }
        3 => new.extensions.timeout = Some(seconds(rng.between(5, 30))),
        _ => new.extensions.description = Some(number.to_string()),
    }
    new
}

impl<'a> Users<'a> {
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
        block_on_ready(self.store.edit_collection(path.clone(), Box::new(decide))).unwrap();
        self.recorder.trace(|| format!("user switches collection {} {state:?}", path.collection));
        self.pauses.own_states.insert(path.clone(), state);
        if !self.is_paused() {
            self.switched.push((path, at.0, at.1, state));
        }
    }

    fn is_paused(&self) -> bool {
        self.pauses.periods.last().is_some_and(|(_, end)| end.is_none())
    }

    /// Pauses all jobs for `lasts` ticks. Returns `false` if they are paused already.
    pub(crate) fn pause(&mut self, lasts: i64, ends_by_itself: bool, at: (i64, Instant)) -> bool {
        if self.is_paused() {
            return false;
        }
        let end = Instant::from_ticks(at.1.ticks() + lasts);
        let until = end.filter(|_| ends_by_itself);
        let pause = Pause::new(at.1, until);
        let record = PauseRecord { pause, reason: "a pause".into(), by: "user".into() };
        let decide = move |_: PauseContext<'_>| Ok(PauseWrite::Put(record.clone()));
        block_on_ready(self.store.edit_pause(Box::new(decide))).unwrap();
        self.recorder.trace(|| format!("user pauses all jobs until {until:?}"));
        for path in self.pauses.own_states.keys() {
            self.switched.push((path.clone(), at.0, at.1, CollectionState::Disabled));
        }
        self.pauses.periods.push((at.1, None));
        true
    }

    /// Ends the pause, unless it ends by itself at this time.
    pub(crate) fn resume(&mut self, at: (i64, Instant)) {
        let decide = move |context: PauseContext<'_>| {
            Ok(context.active.map_or(PauseWrite::Keep, |record| {
                let pause = record.pause.resumed(at.1);
                PauseWrite::Put(PauseRecord { pause, ..record.clone() })
            }))
        };
        let active = block_on_ready(self.store.edit_pause(Box::new(decide))).unwrap();
        assert_eq!(active, None, "the pause has ended");
        self.recorder.trace(|| "the pause of all jobs ends".to_owned());
        for (path, state) in &self.pauses.own_states {
            self.switched.push((path.clone(), at.0, at.1, *state));
        }
        if let Some((_, end)) = self.pauses.periods.last_mut() {
            end.get_or_insert(at.1);
        }
    }

    /// Edits any job or its collection as `what` says. `at` is virtual time, `now` the time of the
    /// store's clock.
    pub(crate) fn act(&mut self, what: u64, at: i64, now: Instant) {
        let rng = Rng::new(what);
        let Scenario { jobs, collections, .. } = *self.scenario;
        let path = job_path(rng.below(jobs.max(8)), collections);
        self.act_on(path, &rng, what, at, now);
    }

    /// Edits the job with a key, if it still exists, or its collection.
    pub(crate) fn act_on_key(&mut self, job: JobKey, what: u64, at: i64, now: Instant) {
        let mut tracked = self.active.iter().map(|(path, &index)| (path, &self.tracked[index]));
        if let Some((path, _)) = tracked.find(|(_, tracked)| tracked.key == job) {
            self.act_on(path.clone(), &Rng::new(what), what, at, now);
        }
    }

    fn act_on(&mut self, path: JobPath, rng: &Rng, what: u64, at: i64, now: Instant) {
        let options = self.scenario.definitions;
        let existing = self.active.get(&path).copied();
        let definition_now = existing.map(|index| {
            let versions = &self.tracked[index].versions;
            versions[versions.len() - 1].definition.clone()
        });
        match (definition_now, rng.below(12)) {
            (None, _) => self.create(path, random_definition(rng, options, now), at, now),
            (Some(_), 0 | 1) if self.is_unreadable(existing) => {
                self.replace(path, random_definition(rng, options, now), at, now);
            }
            // The API rejects them.
            (Some(_), 2..=6 | 10..) if self.is_unreadable(existing) => {}
            (Some(_), 0 | 1) => {
                let new = random_definition(rng, options, now);
                self.edit(path, new, EditKind::Replace, at, now);
            }
            (Some(old), 2 | 3) => {
                let new = edited_except_schedule(old, rng, what, options);
                self.edit(path, new, EditKind::Change, at, now);
            }
            (Some(old), 4) => {
                let other = random_definition(rng, options, now);
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
                let number = rng.below(self.scenario.collections);
                let path = collection_path(number);
                let state = match self.pauses.own_states.get(&path) {
                    Some(CollectionState::Enabled) => CollectionState::Disabled,
                    _ => CollectionState::Enabled,
                };
                self.switch_collection(number, state, (at, now));
            }
            _ => {
                let burst = if rng.one_in(4) { rng.between(2, RUNS_AT_ONCE_MAX) } else { 1 };
                for number in 0..burst {
                    // Runs of one job differ in their time.
                    self.run(path.clone(), now.saturating_add(Duration::from_nanos(100 * number)));
                }
            }
        }
    }

    pub(crate) fn create(
        &mut self,
        path: JobPath,
        definition: JobDefinition,
        at: i64,
        now: Instant,
    ) {
        let number = self.tracked.len() as u64 + 1;
        if let Some((record, _)) = self.put(&path, definition, EditKind::Replace, number) {
            self.active.insert(path.clone(), self.tracked.len());
            let version = Version {
                generation: record.job.generation,
                definition: record.job.definition,
                now,
                acknowledged: at,
                restarts: true,
                moves: true,
                skip_until: None,
            };
            self.tracked.push(TrackedJob {
                number,
                key: record.key,
                path,
                created: record.job.created,
                versions: vec![version],
                manual: vec![],
                deleted_at: None,
                unreadable: None,
                stored: None,
            });
            self.recorder.observations().keys.insert(number, record.key);
        }
    }

    fn edit(&mut self, path: JobPath, new: JobDefinition, kind: EditKind, at: i64, now: Instant) {
        let index = self.active[&path];
        let versions = &self.tracked[index].versions;
        let old = &versions[versions.len() - 1].definition;
        let moved = old.start != new.start || old.recurrence != new.recurrence;
        let restarts = kind == EditKind::Replace || moved;
        let is_other = *old != new;
        let skip_until = versions[versions.len() - 1].skip_until.filter(|_| !moved);
        let put = self.put(&path, new.clone(), kind, 0);
        if put.as_ref().is_some_and(|(record, _)| is_other && record.job.definition != new) {
            let what = format!("LOST an edit of {} was acknowledged and not stored", path.job);
            self.recorder.observations().violations.push(what);
        }
        if let Some((record, true)) = put {
            let generation = record.job.generation;
            self.tracked[index].versions.push(Version {
                generation,
                definition: new,
                now,
                acknowledged: at,
                restarts,
                moves: moved,
                skip_until,
            });
        }
    }

    /// The acknowledged job and whether the edit changed it.
    fn put(
        &self,
        path: &JobPath,
        definition: JobDefinition,
        kind: EditKind,
        number: u64,
    ) -> Option<(JobRecord, bool)> {
        let mut uid = [0; 16];
        uid[..8].copy_from_slice(&number.to_le_bytes());
        let edit = JobEdit { definition, kind, uid: JobUid(uid) };
        let decide = move |context: JobContext<'_>| edit.decide(&Settings::default(), &context);
        let edited = block_on_ready(self.store.edit_job(path.clone(), Box::new(decide)));
        self.recorder.trace(|| match &edited {
            Ok(edited) => format!("user puts {}: {:?}", path.job, edited.after),
            Err(error) => format!("user puts {}: {error}", path.job),
        });
        let edited = edited.ok()?;
        let after = edited.after?;
        let changed = edited.before.is_none_or(|before| before.version != after.version);
        Some((after, changed))
    }

    /// Makes the definition of a job unreadable, if the job exists.
    pub(crate) fn damage(&mut self, number: u64, at: i64) {
        let path = job_path(number, self.scenario.collections);
        let Some(&index) = self.active.get(&path) else { return };
        let job = &mut self.tracked[index];
        job.unreadable = Some((at, i64::MAX));
        self.damage.set_unreadable(Some(job.key));
        self.recorder.trace(|| format!("{} cannot be read", path.job));
    }

    /// Replaces the job that cannot be read as `what` says, or makes it readable again.
    pub(crate) fn repair(&mut self, what: Option<u64>, at: i64, now: Instant) {
        let mut damaged = self.active.iter().filter(|(_, index)| self.is_unreadable(Some(**index)));
        let Some((path, &index)) = damaged.next() else { return };
        match what {
            Some(what) => {
                let new = random_definition(&Rng::new(what), self.scenario.definitions, now);
                self.replace(path.clone(), new, at, now);
            }
            None => {
                self.recorder.trace(|| format!("{} can be read again", path.job));
                self.end_damage(index, at);
            }
        }
    }

    fn is_unreadable(&self, index: Option<usize>) -> bool {
        let job = index.and_then(|index| self.tracked.get(index));
        job.and_then(|job| job.unreadable).is_some_and(|(_, to)| to == i64::MAX)
    }

    fn end_damage(&mut self, index: usize, at: i64) {
        if let Some((_, to)) = &mut self.tracked[index].unreadable {
            *to = at.min(*to);
            self.damage.set_unreadable(None);
        }
    }

    /// Replaces a job that cannot be read: a new job without history takes its place.
    fn replace(&mut self, path: JobPath, definition: JobDefinition, at: i64, now: Instant) {
        self.delete(path.clone(), at);
        self.create(path, definition, at, now);
    }

    fn delete(&mut self, path: JobPath, at: i64) {
        let Some(index) = self.active.remove(&path) else { return };
        self.end_damage(index, at);
        self.tracked[index].stored = self.read_stored(&self.tracked[index]);
        self.tracked[index].deleted_at = Some(at);
        let decide = |_: JobContext<'_>| Ok(JobWrite::Delete);
        block_on_ready(self.store.edit_job(path.clone(), Box::new(decide))).unwrap();
        self.recorder.trace(|| format!("user deletes {}", path.job));
    }

    fn run(&mut self, path: JobPath, now: Instant) {
        let decide = move |context: JobContext<'_>| match context.existing {
            Some(job) if job.state.lifecycle == Lifecycle::Active => Ok(JobWrite::Run { at: now }),
            _ => Err(Rejection::from(std::io::Error::other("finished"))),
        };
        let edited = block_on_ready(self.store.edit_job(path.clone(), Box::new(decide)));
        let Ok(edited) = edited else { return };
        let Some(job) = edited.after else { return };
        self.recorder.trace(|| format!("user runs {}", path.job));
        for run in block_on_ready(self.store.open_runs(job.key)).unwrap() {
            self.recorder.observations().runs.insert(run.id, (job.key, run.scheduled));
        }
        let index = self.active[&path];
        self.tracked[index].manual.push((now, job.job.generation));
    }

    /// Reads everything that the store holds about an existing job.
    pub(crate) fn read_stored(&self, job: &TrackedJob) -> Option<StoredJob> {
        let (record, _) = block_on_ready(self.store.job(job.path.clone())).ok()??;
        let ledger = self.store.ledger(job.key, Instant::MIN, Instant::MAX, ROWS_MAX);
        let history =
            self.store.history(job.path.clone(), Default::default(), Page::first(ROWS_MAX));
        Some(StoredJob {
            record,
            ledger: block_on_ready(ledger).ok()?,
            history: block_on_ready(history).ok()??.into_iter().rev().map(|r| r.entry).collect(),
            open: block_on_ready(self.store.open_runs(job.key)).ok()?,
        })
    }
}
