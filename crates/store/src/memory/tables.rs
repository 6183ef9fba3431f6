//! The tables of the reference store.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use kalends_domain::{
    ClosedRun, CollectionPath, CollectionState, Execution, GroupPath, JobPath, Lifecycle, NewNote,
    NoteAction, NoteRecord, NoteSubject, SubscriptionId, Switch,
};
use kalends_recurrence::Instant;

use crate::api_store::{GROUPS_PER_SUBSCRIPTION_MAX, JobPut, Page, WaitingRuns};
use crate::engine_store::Heartbeat;
use crate::engine_store::{DueJob, Retention};
use crate::record::{
    Cause, CollectionFacts, CollectionKey, CollectionRecord, CollectionStatus, EarlierDefinition,
    GateState, GroupRecord, HistoryRecord, Job, JobFacts, JobKey, JobRecord, LedgerRecord, NodeId,
    OpenRun, Pause, PauseRecord, RunId, both_enabled_since, edited_job,
};
use crate::run_reports::{RUN_COUNTS_RETENTION, RunCounts, bucket_of, count_rows};
use crate::run_state::{
    self, Change, RunChange, RunRow, RunTables, close_superseded_run, expire_claim, manual_run,
    state_after_run_request, unpark,
};
use crate::sessions::{SessionHash, SessionRecord};
use crate::tokens::{TokenId, TokenRecord};

#[derive(Default)]
pub(super) struct Tables {
    /// The last heartbeat of each node.
    pub(super) nodes: BTreeMap<NodeId, Heartbeat>,
    pub(super) groups: BTreeMap<GroupPath, GroupRecord>,
    pub(super) collections: BTreeMap<CollectionPath, CollectionRecord>,
    pub(super) collection_keys: BTreeMap<CollectionPath, CollectionKey>,
    pub(super) jobs: BTreeMap<JobPath, JobRow>,
    pub(super) paths: HashMap<JobKey, JobPath>,
    pub(super) runs: BTreeMap<RunId, RunRow>,
    pub(super) history: BTreeMap<JobKey, Vec<HistoryRecord>>,
    pub(super) ledger: BTreeMap<JobKey, Vec<(u64, ClosedRun)>>,
    /// Counts of closed runs by bucket and collection.
    pub(super) run_counts: BTreeMap<(i64, i64), RunCounts>,
    pub(super) tokens: BTreeMap<TokenId, TokenRecord>,
    pub(super) sessions: BTreeMap<SessionHash, SessionRecord>,
    /// The newest pause of all jobs.
    pub(super) pause: Option<PauseRecord>,
    last_collection: i64,
    last_key: i64,
    last_run: i64,
    last_sequence: u64,
    last_ledger_row: u64,
    /// In the order of their numbers.
    pub(super) notes: Vec<NoteRecord>,
    last_note: u64,
    /// Definitions that edits replaced, by job and generation.
    pub(super) earlier_definitions: BTreeMap<(JobKey, u64), EarlierDefinition>,
}

pub(super) struct JobRow {
    pub(super) record: JobRecord,
    pub(super) facts: JobFacts,
}

impl Tables {
    /// Whether a subscription may have another group.
    pub(super) fn has_room_for_group(&self, subscription: &SubscriptionId) -> bool {
        let same = |path: &&GroupPath| path.subscription == *subscription;
        self.groups.keys().filter(same).count() < GROUPS_PER_SUBSCRIPTION_MAX
    }

    pub(super) fn jobs_of<'a>(
        &'a self,
        path: &'a CollectionPath,
    ) -> impl Iterator<Item = &'a JobRow> {
        self.jobs.values().filter(move |row| row.record.path.collection == *path)
    }

    pub(super) fn job(&self, key: JobKey) -> Option<&JobRow> {
        self.jobs.get(self.paths.get(&key)?)
    }

    fn job_mut(&mut self, key: JobKey) -> Option<&mut JobRow> {
        self.jobs.get_mut(self.paths.get(&key)?)
    }

    /// The times of the newest pause.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.pause.as_ref().map(|record| record.pause)
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.pause().is_some_and(|pause| pause.is_active(now))
    }

    pub(super) fn status(&self, collection: &CollectionRecord, now: Instant) -> CollectionStatus {
        CollectionStatus { state: collection.collection.state, is_paused: self.is_paused(now) }
    }

    pub(super) fn is_enabled(&self, path: &CollectionPath) -> bool {
        let collection = self.collections.get(path);
        collection.is_some_and(|record| record.collection.state == CollectionState::Enabled)
    }

    /// Whether the schedule of a job starts runs.
    pub(super) fn has_active_schedule(&self, row: &JobRow) -> bool {
        row.record.state.lifecycle == Lifecycle::Active
            && row.record.job.definition.switch == Switch::Enabled
            && self.is_enabled(&row.record.path.collection)
    }

    pub(super) fn facts(&self, path: &CollectionPath) -> CollectionFacts {
        self.jobs_of(path).fold(CollectionFacts::default(), |facts, row| CollectionFacts {
            jobs: facts.jobs + 1,
            shortest_gap: facts.shortest_gap.into_iter().chain(row.facts.shortest_gap).min(),
            authenticated: facts.authenticated + u64::from(row.facts.authenticated),
            shortest_retry: facts.shortest_retry.into_iter().chain(row.facts.shortest_retry).min(),
        })
    }

    pub(super) fn put_job(
        &mut self,
        path: JobPath,
        put: JobPut,
        before: Option<&JobRecord>,
        now: Instant,
    ) -> JobRecord {
        let JobPut { uid, created, definition, facts, state, waiting, closed_by_edit } = put;
        let record = match before {
            Some(before) => JobRecord {
                key: before.key,
                path: before.path.clone(),
                job: edited_job(&before.job, definition, waiting, now),
                state,
                version: before.version + 1,
            },
            None => {
                self.last_key += 1;
                let job = Job {
                    uid,
                    created,
                    definition,
                    generation: 1,
                    schedule_generation: 1,
                    enabled_since: None,
                };
                JobRecord { key: JobKey(self.last_key), path, job, state, version: 1 }
            }
        };
        if let Some(before) = before {
            self.retain_definition(before, now);
        }
        if waiting == WaitingRuns::Supersede {
            self.close_superseded_runs(record.key, now);
        }
        let parked: Vec<_> = self.runs_of(record.key).filter_map(unpark).collect();
        self.runs.extend(parked.into_iter().map(|row| (row.run.id, row)));
        self.paths.insert(record.key, record.path.clone());
        self.append_ledger(record.key, closed_by_edit, None);
        self.jobs.insert(record.path.clone(), JobRow { record: record.clone(), facts });
        record
    }

    /// Retains the definition of a job that is replaced, if runs may have used it.
    fn retain_definition(&mut self, before: &JobRecord, now: Instant) {
        if !EarlierDefinition::is_retained(before, &Tables::open_runs(self, before.key)) {
            return;
        }
        let (job, generation) = (before.key, before.job.generation);
        let definition = before.job.definition.clone();
        let earlier = EarlierDefinition { generation, replaced: now, definition };
        self.earlier_definitions.insert((job, generation), earlier);
        let excess = generation.saturating_sub(EarlierDefinition::PER_JOB_MAX);
        self.earlier_definitions.remove(&(job, excess));
    }

    fn close_superseded_runs(&mut self, job: JobKey, now: Instant) {
        for run in Tables::open_runs(self, job) {
            if let Some(record) = close_superseded_run(&run, now) {
                self.runs.remove(&run.id);
                self.append_ledger(job, [record], None);
            }
        }
    }

    pub(super) fn delete_job(&mut self, path: &JobPath) {
        let Some(row) = self.jobs.remove(path) else { return };
        let key = row.record.key;
        self.paths.remove(&key);
        self.runs.retain(|_, row| row.run.job != key);
        self.history.remove(&key);
        self.ledger.remove(&key);
        self.notes.retain(|note| note.subject.job() != Some(path));
        self.earlier_definitions.retain(|(job, _), _| *job != key);
    }

    pub(super) fn gate_state(&self, key: JobKey) -> Option<GateState> {
        let JobRecord { path, job, state, .. } = &self.job(key)?.record;
        let collection = self.collections.get(&path.collection)?;
        Some(GateState {
            generation: job.generation,
            switch: job.definition.switch,
            collection: collection.collection.state.switch(),
            state: *state,
            schedule_generation: job.schedule_generation,
            enabled_since: both_enabled_since(job.enabled_since, collection.enabled_since),
            pause: self.pause(),
        })
    }

    /// Whether the collection of a run is enabled and, for a scheduled one, its job.
    pub(super) fn may_start(&self, run: &OpenRun) -> bool {
        let Some(JobRow { record, .. }) = self.job(run.job) else { return false };
        let is_held =
            run.cause == Cause::Scheduled && record.job.definition.switch == Switch::Disabled;
        self.is_enabled(&record.path.collection) && !is_held
    }

    fn runs_of(&self, job: JobKey) -> impl Iterator<Item = RunRow> {
        self.runs.values().copied().filter(move |row| row.run.job == job)
    }

    pub(super) fn open_runs(&self, job: JobKey) -> Vec<OpenRun> {
        self.runs_of(job).map(|row| row.run).collect()
    }

    pub(super) fn expire_claims(&mut self) -> usize {
        let expired: Vec<_> = self.runs.values().copied().filter_map(expire_claim).collect();
        self.runs.extend(expired.iter().map(|row| (row.run.id, *row)));
        expired.len()
    }

    pub(super) fn put_collection(&mut self, record: CollectionRecord) {
        if !self.collection_keys.contains_key(&record.path) {
            self.last_collection += 1;
            let key = CollectionKey(self.last_collection);
            self.collection_keys.insert(record.path.clone(), key);
        }
        self.collections.insert(record.path.clone(), record);
    }

    pub(super) fn delete_collection(&mut self, path: &CollectionPath) {
        let jobs: Vec<_> = self.jobs_of(path).map(|row| row.record.path.clone()).collect();
        for job in jobs {
            self.delete_job(&job);
        }
        self.notes.retain(|note| note.subject.collection() != Some(path));
        self.collections.remove(path);
        self.collection_keys.remove(path);
    }

    /// Opens the run of a manual `run` request; returns the job afterwards.
    pub(super) fn open_manual_run(&mut self, job: &JobRecord, at: Instant) -> JobRecord {
        self.last_run += 1;
        let id = RunId(self.last_run);
        self.runs.insert(id, manual_run(id, job.key, job.job.generation, at));
        let state = state_after_run_request(job.state, at);
        let record = JobRecord { state, ..job.clone() };
        if let Some(row) = self.jobs.get_mut(&job.path) {
            row.record = record.clone();
        }
        record
    }

    fn append_ledger(
        &mut self,
        job: JobKey,
        rows: impl IntoIterator<Item = LedgerRecord>,
        execution: Option<Execution>,
    ) {
        let collection = self.paths.get(&job).map(|path| &path.collection);
        let collection = collection.and_then(|path| self.collection_keys.get(path)).copied();
        for record in rows {
            let counts = count_rows(collection.map(|key| (key.0, &record)));
            for (position, counts) in counts {
                self.run_counts.entry(position).or_default().add(counts);
            }
            self.last_ledger_row += 1;
            let row = (self.last_ledger_row, ClosedRun { record, execution });
            self.ledger.entry(job).or_default().push(row);
        }
    }

    /// Adds a note, and removes the oldest of its resource beyond the number that is kept.
    pub(super) fn add_note(
        &mut self,
        subject: NoteSubject,
        action: NoteAction,
        note: &NewNote,
        time: Instant,
    ) {
        self.last_note += 1;
        let (author, text) = (note.author.clone(), note.text.as_str().to_owned());
        let number = self.last_note;
        self.notes.push(NoteRecord {
            number,
            time,
            action,
            subject: subject.clone(),
            author,
            text,
        });
        let same = self.notes.iter().filter(|note| note.subject == subject);
        let oldest = same.rev().nth(NoteRecord::PER_SUBJECT_MAX).map(|note| note.number);
        if let Some(oldest) = oldest {
            self.notes.retain(|note| note.subject != subject || note.number > oldest);
        }
    }

    /// A page of the notes that `filter` selects, newest first.
    pub(super) fn notes(
        &self,
        page: &Page<u64>,
        filter: impl Fn(&NoteRecord) -> bool,
    ) -> Vec<NoteRecord> {
        let notes = self.notes.iter().rev().filter(|note| filter(note));
        let notes = notes.filter(|note| page.after.is_none_or(|after| note.number < after));
        notes.skip(page.skip as usize).take(page.limit).cloned().collect()
    }

    pub(super) fn prune(&mut self, retention: Retention, now: Instant, limit: usize) -> usize {
        let oldest = now.saturating_sub(retention.history_age);
        let mut left = limit;
        let mut remove_if = |is_expired: bool| {
            let is_removed = is_expired && left > 0;
            left -= usize::from(is_removed);
            is_removed
        };
        for entries in self.history.values_mut() {
            let excess = entries.len().saturating_sub(retention.history_count as usize);
            let mut number = 0;
            entries.retain(|record| {
                number += 1;
                !remove_if(number <= excess || record.entry.started < oldest)
            });
        }
        for rows in self.ledger.values_mut() {
            rows.retain(|(_, row)| !remove_if(row.record.closed < oldest));
        }
        self.notes.retain(|note| !remove_if(note.time < oldest));
        self.sessions.retain(|_, session| !remove_if(session.expires < now));
        self.earlier_definitions.retain(|_, earlier| earlier.replaced >= oldest);
        let finished_before = now.saturating_sub(retention.finished_jobs);
        let jobs = self.jobs.values().map(|row| &row.record);
        let finished = jobs.filter(|record| {
            record.state.finished.is_some_and(|finished| finished < finished_before)
        });
        let finished: Vec<_> =
            finished.map(|record| record.path.clone()).filter(|_| remove_if(true)).collect();
        finished.iter().for_each(|path| self.delete_job(path));
        let oldest = bucket_of(now.saturating_sub(RUN_COUNTS_RETENTION));
        self.run_counts.retain(|(bucket, _), _| *bucket >= oldest);
        limit - left
    }
}

impl RunTables for Tables {
    type Error = Infallible;

    fn due_job(&mut self, expected: DueJob) -> Result<Option<run_state::JobRow>, Infallible> {
        self.job(expected.job)
    }

    fn job(&mut self, job: JobKey) -> Result<Option<run_state::JobRow>, Infallible> {
        Ok(Tables::job(self, job).map(|row| run_state::JobRow {
            generation: row.record.job.generation,
            schedule_generation: row.record.job.schedule_generation,
            is_enabled: row.record.job.definition.switch == Switch::Enabled
                && self.is_enabled(&row.record.path.collection),
            state: row.record.state,
        }))
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>, Infallible> {
        Ok(self.runs.get(&run).copied())
    }

    fn open_runs(&mut self, job: JobKey) -> Result<Vec<OpenRun>, Infallible> {
        Ok(Tables::open_runs(self, job))
    }

    fn pause(&mut self) -> Result<Option<Pause>, Infallible> {
        Ok(Tables::pause(self))
    }

    fn next_run_id(&mut self) -> Result<RunId, Infallible> {
        Ok(RunId(self.last_run + 1))
    }

    fn save(&mut self, change: Change<'_>) -> Result<(), Infallible> {
        match change.run {
            RunChange::None => {}
            RunChange::Open(row) => {
                self.last_run = row.run.id.0;
                self.runs.insert(row.run.id, row);
            }
            RunChange::Update(row) => drop(self.runs.insert(row.run.id, row)),
            RunChange::Close(run) => drop(self.runs.remove(&run)),
        }
        let Some((job, state)) = change.job else { return Ok(()) };
        if let Some(row) = self.job_mut(job) {
            row.record.state = state;
        }
        self.append_ledger(job, change.ledger.iter().cloned(), change.execution);
        for entry in change.history.iter().cloned() {
            self.last_sequence += 1;
            let record = HistoryRecord { sequence: self.last_sequence, entry };
            self.history.entry(job).or_default().push(record);
        }
        Ok(())
    }
}
