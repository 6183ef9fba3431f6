//! Mutation testing of the checker. Each mutant wraps the store, the targets or the clock and
//! imitates a bug of the engine or of the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kalends_actions::ActionExecutor;
use kalends_domain::{ActionRole, AttemptStatus, HistoryEntry, Lifecycle};
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::record::{
    Cause, Disposition, FencingToken, GateState, JobKey, JobRecord, LedgerRecord, Progress, RunId,
};
use kalends_store::{
    Advance, DecideJob, JobContext, JobPut, JobWrite, Rejection, RunWrite, RunWriteResult, Store,
    StoreError, WaitingRuns,
};

use crate::mutant_targets::{EarlyClock, MutantTargets};
use crate::simulate::Mutation;

/// An imitated bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names describe the bugs")]
pub enum Mutant {
    DropsAnOccurrence,
    DropsMissedRecords,
    DropsOverlapRecords,
    MiscountsARange,
    SendsTwice,
    SendsEarly,
    IgnoresTokens,
    CompletesBeforeTheOutcome,
    RetriesOnceMore,
    RetriesTooSoon,
    GivesUpTooSoon,
    LosesAnEdit,
    RunsOldDefinitions,
    ExceedsTheCount,
    RunsTheErrorActionTwice,
    ForgetsTheErrorAction,
    ForgetsHistory,
    CountsAttemptsTwice,
    NeverEnds,
    ForgetsRetries,
    FiresWhileCollectionDisabled,
    DropsDisabledRecords,
    MiscountsDisabledRecords,
    FiresDisabledOccurrences,
    CompletesAOneTimeJobOnEdit,
    DelaysJobsBecauseAnotherHostHangs,
    NeverReportsAnAttempt,
    MissesEditsForTenSeconds,
    OpensTheGateByAnOldResponse,
    SendsAfterItsLease,
    TakesOverLate,
    RunsOccurrencesOfAnOutage,
    DeclaresMissedWhatWasDue,
    IgnoresTheSendFence,
    FiresHeldRuns,
    ForgetsParkedRuns,
    StopsABatchForOneUnreadableJob,
    CountsWaitingRunsAsRunning,
    TriesOnlyTheFirstParkedRun,
    LosesAnAttemptThatPanics,
    DecidesEditsByAnOldClock,
    IgnoresOtherNodes,
    IgnoresFailedWrites,
    AnswersOnceForTwoRunsOfAJob,
    IgnoresThePauseAtTheGate,
    IgnoresSkips,
    NeverEndsSkip,
    DropsSkipRecords,
}

impl Mutant {
    /// Every mutant.
    pub const ALL: [Mutant; 48] = [
        Mutant::DropsAnOccurrence,
        Mutant::DropsMissedRecords,
        Mutant::DropsOverlapRecords,
        Mutant::MiscountsARange,
        Mutant::SendsTwice,
        Mutant::SendsEarly,
        Mutant::IgnoresTokens,
        Mutant::CompletesBeforeTheOutcome,
        Mutant::RetriesOnceMore,
        Mutant::RetriesTooSoon,
        Mutant::GivesUpTooSoon,
        Mutant::LosesAnEdit,
        Mutant::RunsOldDefinitions,
        Mutant::ExceedsTheCount,
        Mutant::RunsTheErrorActionTwice,
        Mutant::ForgetsTheErrorAction,
        Mutant::ForgetsHistory,
        Mutant::CountsAttemptsTwice,
        Mutant::NeverEnds,
        Mutant::ForgetsRetries,
        Mutant::FiresWhileCollectionDisabled,
        Mutant::DropsDisabledRecords,
        Mutant::MiscountsDisabledRecords,
        Mutant::FiresDisabledOccurrences,
        Mutant::CompletesAOneTimeJobOnEdit,
        Mutant::DelaysJobsBecauseAnotherHostHangs,
        Mutant::NeverReportsAnAttempt,
        Mutant::MissesEditsForTenSeconds,
        Mutant::OpensTheGateByAnOldResponse,
        Mutant::SendsAfterItsLease,
        Mutant::TakesOverLate,
        Mutant::RunsOccurrencesOfAnOutage,
        Mutant::DeclaresMissedWhatWasDue,
        Mutant::FiresHeldRuns,
        Mutant::ForgetsParkedRuns,
        Mutant::IgnoresTheSendFence,
        Mutant::StopsABatchForOneUnreadableJob,
        Mutant::CountsWaitingRunsAsRunning,
        Mutant::TriesOnlyTheFirstParkedRun,
        Mutant::LosesAnAttemptThatPanics,
        Mutant::DecidesEditsByAnOldClock,
        Mutant::IgnoresOtherNodes,
        Mutant::IgnoresFailedWrites,
        Mutant::AnswersOnceForTwoRunsOfAJob,
        Mutant::IgnoresThePauseAtTheGate,
        Mutant::IgnoresSkips,
        Mutant::NeverEndsSkip,
        Mutant::DropsSkipRecords,
    ];
}

/// A store with an imitated bug.
pub(crate) struct MutantStore {
    pub(crate) mutant: Mutant,
    pub(crate) inner: Arc<dyn Store>,
    opportunities: AtomicU64,
    /// The newest fencing token of each run.
    tokens: Mutex<BTreeMap<RunId, FencingToken>>,
    /// The first version read of each job.
    first_seen: Mutex<BTreeMap<JobKey, JobRecord>>,
    /// The last gate state read of each job.
    gate_states: Mutex<BTreeMap<JobKey, Option<GateState>>>,
    /// When each job was last edited.
    edited: Mutex<BTreeMap<JobKey, Instant>>,
}

/// A node with [`Mutant::SendsAfterItsLease`] believes that its lease lasts this many times as long.
const LEASE_SHARE: u32 = 10_000;
/// How long an edit of [`Mutant::DecidesEditsByAnOldClock`] waits for the store.
const EDIT_WAITS: Duration = Duration::from_secs(1);
/// A rare mutant takes effect in one of this many opportunities.
pub(crate) const TRIGGERS_ONCE_IN: u64 = 3;

impl MutantStore {
    pub(crate) fn new(mutant: Mutant, inner: Arc<dyn Store>) -> MutantStore {
        MutantStore {
            mutant,
            inner,
            opportunities: AtomicU64::new(0),
            tokens: Mutex::default(),
            first_seen: Mutex::default(),
            gate_states: Mutex::default(),
            edited: Mutex::default(),
        }
    }

    fn triggers(&self) -> bool {
        self.opportunities.fetch_add(1, Ordering::Relaxed) % TRIGGERS_ONCE_IN
            == TRIGGERS_ONCE_IN - 1
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == mutant && self.triggers()
    }

    /// Results of writes that failed because the store is full. Every second failure is taken for the
    /// success of another node.
    pub(crate) fn results_of_failed(
        &self,
        writes: &[RunWrite],
        error: StoreError,
    ) -> Result<Vec<RunWriteResult>, StoreError> {
        let starts =
            |write: &RunWrite| matches!(write, RunWrite::Begin { .. } | RunWrite::Skip { .. });
        let is_ignored = self.mutant == Mutant::IgnoresFailedWrites
            && matches!(error, StoreError::Full)
            && writes.iter().all(starts)
            && self.opportunities.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if is_ignored { Ok(vec![RunWriteResult::Stale; writes.len()]) } else { Err(error) }
    }

    /// Decides an edit, possibly by the time at which it began to wait for the store.
    pub(crate) fn decide(
        mutant: Mutant,
        decide: &mut DecideJob,
        context: JobContext<'_>,
    ) -> Result<JobWrite, Rejection> {
        let before = JobContext { now: context.now.saturating_sub(EDIT_WAITS), ..context };
        let moves = |write: &JobWrite| matches!(write, JobWrite::Put(put) if put.waiting == WaitingRuns::Supersede);
        match mutant {
            Mutant::DecidesEditsByAnOldClock if context.existing.is_some() => {
                let write = decide(before)?;
                if moves(&write) { Ok(write) } else { decide(context) }
            }
            _ => decide(context),
        }
    }

    /// Changes a write before the store receives it.
    pub(crate) fn mutate(&self, mut write: RunWrite) -> RunWrite {
        if self.mutant == Mutant::SendsAfterItsLease
            && let RunWrite::Begin { lease, .. } | RunWrite::Claim { lease, .. } = &mut write
        {
            *lease /= LEASE_SHARE;
        }
        match write {
            RunWrite::Begin { on, advance, closed, postponed, .. }
                if self.is(Mutant::DropsAnOccurrence) =>
            {
                RunWrite::Skip { on, advance, closed, postponed }
            }
            RunWrite::Begin { on, scheduled, advance, mut closed, mut postponed, .. }
                if self.is(Mutant::DeclaresMissedWhatWasDue) =>
            {
                closed.push(missed_record(on.generation, scheduled));
                postponed.push(missed_entry(scheduled));
                let advance = Advance { used: advance.used.saturating_sub(1), ..advance };
                RunWrite::Skip { on, advance, closed, postponed }
            }
            RunWrite::Begin {
                on,
                mut scheduled,
                mut progress,
                owner,
                lease,
                mut advance,
                mut closed,
                postponed,
                waits_for,
            } => {
                if self.mutant == Mutant::ExceedsTheCount
                    && advance.due.is_none()
                    && self.triggers()
                {
                    advance.due = Some(scheduled.saturating_add(Duration::from_secs(60)));
                }
                self.mutate_closed(&mut closed);
                // The missed occurrence runs, and then the one after it.
                if self.mutant == Mutant::RunsOccurrencesOfAnOutage
                    && let [missed] = closed.as_slice()
                    && missed.count == 1
                    && missed.disposition == Disposition::Missed
                {
                    advance.due = Some(scheduled);
                    (scheduled, progress) = (missed.from, Progress::first(missed.from));
                    closed.clear();
                }
                RunWrite::Begin {
                    on,
                    scheduled,
                    progress,
                    owner,
                    lease,
                    advance,
                    closed,
                    postponed,
                    waits_for,
                }
            }
            RunWrite::Skip { on, mut advance, mut closed, postponed } => {
                self.mutate_closed(&mut closed);
                if self.mutant == Mutant::NeverEnds {
                    advance.lifecycle = Lifecycle::Active;
                }
                RunWrite::Skip { on, advance, closed, postponed }
            }
            RunWrite::Continue { run, token, entry, mut counts, mut progress, claim } => {
                match self.mutant {
                    Mutant::RetriesOnceMore if progress.retry > 0 && self.triggers() => {
                        progress.retry -= 1;
                    }
                    Mutant::GivesUpTooSoon if progress.retry > 0 => progress.retry += 1,
                    Mutant::RetriesTooSoon if progress.retry > 0 => {
                        progress.next_at = progress.next_at.saturating_sub(Duration::from_secs(1));
                    }
                    Mutant::ForgetsRetries if progress.retry > 0 => {
                        progress.next_at =
                            progress.next_at.saturating_add(Duration::from_secs(90_000_000));
                    }
                    Mutant::CountsAttemptsTwice => counts.failed = false,
                    _ => {}
                }
                let entry = if self.is(Mutant::ForgetsHistory) { None } else { entry };
                RunWrite::Continue { run, token, entry, counts, progress, claim }
            }
            RunWrite::Finish { run, token, entry, counts, mut closed, lifecycle, unused } => {
                let is_failed = closed.disposition == Disposition::Failed;
                if self.mutant == Mutant::CompletesBeforeTheOutcome && is_failed {
                    closed.disposition = Disposition::Completed;
                }
                let lifecycle = lifecycle.filter(|_| self.mutant != Mutant::NeverEnds);
                RunWrite::Finish { run, token, entry, counts, closed, lifecycle, unused }
            }
            other => other,
        }
    }

    fn mutate_closed(&self, closed: &mut Vec<LedgerRecord>) {
        let dropped = match self.mutant {
            Mutant::DropsMissedRecords => Some(Disposition::Missed),
            Mutant::DropsOverlapRecords => Some(Disposition::SkippedOverlap),
            Mutant::DropsSkipRecords => Some(Disposition::SkippedByRequest),
            _ => None,
        };
        closed.retain(|row| Some(row.disposition) != dropped);
        if self.mutant == Mutant::MiscountsARange {
            closed.iter_mut().filter(|row| row.count > 1).for_each(|row| row.count -= 1);
        }
    }

    /// Replaces a stale fencing token by the newest one.
    pub(crate) fn with_latest_token(&self, write: RunWrite) -> RunWrite {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match write {
            RunWrite::Finish { run, token, entry, counts, closed, lifecycle, unused } => {
                let token = tokens.get(&run).copied().unwrap_or(token);
                RunWrite::Finish { run, token, entry, counts, closed, lifecycle, unused }
            }
            RunWrite::Continue { run, token, entry, counts, progress, claim } => {
                let token = tokens.get(&run).copied().unwrap_or(token);
                RunWrite::Continue { run, token, entry, counts, progress, claim }
            }
            other => other,
        }
    }

    /// Records the tokens of new claims.
    pub(crate) fn track_tokens(&self, writes: &[RunWrite], results: &[RunWriteResult]) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        for (write, result) in writes.iter().zip(results) {
            match (write, result) {
                (_, RunWriteResult::Begun { run, claim: Some(claim) }) => {
                    tokens.insert(*run, claim.token);
                }
                (
                    RunWrite::Claim { run, .. } | RunWrite::Continue { run, .. },
                    RunWriteResult::Claimed(claim),
                ) => {
                    tokens.insert(*run, claim.token);
                }
                _ => {}
            }
        }
    }

    /// Returns an outdated version of the job once in a while.
    pub(crate) fn outdated(&self, job: JobRecord) -> JobRecord {
        let mut seen = self.first_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = seen.entry(job.key).or_insert_with(|| job.clone()).clone();
        if self.is(Mutant::RunsOldDefinitions) { first } else { job }
    }

    /// The job with another end of the skip that users requested.
    pub(crate) fn with_other_skip(&self, mut job: JobRecord) -> JobRecord {
        let until = job.state.skip_until;
        job.state.skip_until = match self.mutant {
            Mutant::IgnoresSkips => None,
            Mutant::NeverEndsSkip => until.zip(job.state.due).map(|(until, due)| until.max(due)),
            _ => until,
        };
        job
    }

    /// The gate state of the previous read, once in a while.
    pub(crate) fn outdated_gate(&self, job: JobKey, state: Option<GateState>) -> Option<GateState> {
        let mut states = self.gate_states.lock().unwrap_or_else(PoisonError::into_inner);
        let before = states.insert(job, state).unwrap_or(state);
        let state = state.map(|state| GateState {
            enabled_since: match self.mutant {
                Mutant::FiresHeldRuns => Instant::MIN,
                _ => state.enabled_since,
            },
            pause: match self.mutant {
                Mutant::FiresHeldRuns | Mutant::IgnoresThePauseAtTheGate => None,
                _ => state.pause,
            },
            ..state
        });
        if self.is(Mutant::OpensTheGateByAnOldResponse) { before } else { state }
    }

    /// Records the time of an edit.
    pub(crate) fn edited(&self, job: JobKey, at: Instant) {
        self.edited.lock().unwrap_or_else(PoisonError::into_inner).insert(job, at);
    }

    /// Whether the job was edited in the last ten seconds.
    pub(crate) fn was_just_edited(&self, job: JobKey, now: Instant) -> bool {
        let edited = self.edited.lock().unwrap_or_else(PoisonError::into_inner);
        edited.get(&job).is_some_and(|at| now < at.saturating_add(Duration::from_secs(10)))
    }

    /// A function that changes the writes of edits.
    pub(crate) fn edit_mutator(&self) -> impl FnMut(JobWrite, Existed) -> JobWrite + Send + use<> {
        let loses = self.is(Mutant::LosesAnEdit);
        let keeps = self.mutant == Mutant::RunsOldDefinitions;
        let mutant = self.mutant;
        move |write, existed| match write {
            JobWrite::Put(_) if existed == Existed::Yes && loses => JobWrite::Keep,
            JobWrite::Put(mut put) => {
                if keeps {
                    put.waiting = WaitingRuns::Keep;
                }
                let runs_once = put.definition.recurrence.is_none();
                if mutant == Mutant::CompletesAOneTimeJobOnEdit
                    && existed == Existed::Yes
                    && runs_once
                {
                    put.state.due = None;
                    put.state.lifecycle = Lifecycle::Completed;
                }
                mutate_closed_by_edit(&mut put, mutant);
                JobWrite::Put(put)
            }
            other => other,
        }
    }
}

fn missed_record(generation: u64, scheduled: Instant) -> LedgerRecord {
    LedgerRecord {
        generation,
        from: scheduled,
        to: scheduled,
        count: 1,
        cause: Cause::Scheduled,
        disposition: Disposition::Missed,
        closed: scheduled,
    }
}

fn missed_entry(scheduled: Instant) -> HistoryEntry {
    HistoryEntry {
        started: scheduled,
        ended: scheduled,
        expected: scheduled,
        status: AttemptStatus::Postponed,
        message: String::new(),
        retry: 0,
        repeat: 0,
        role: ActionRole::Main,
        timing: Default::default(),
        generation: None,
    }
}

/// Changes the record of occurrences that an edit closed because the job was disabled.
fn mutate_closed_by_edit(put: &mut JobPut, mutant: Mutant) {
    let JobPut { closed_by_edit, state, .. } = put;
    let Some(row) = closed_by_edit else { return };
    if row.disposition != Disposition::SkippedDisabled {
        return;
    }
    match mutant {
        Mutant::DropsDisabledRecords => *closed_by_edit = None,
        Mutant::MiscountsDisabledRecords => row.count += 1,
        Mutant::FiresDisabledOccurrences if state.due.is_some() => state.due = Some(row.to),
        _ => {}
    }
}

/// Whether the job existed before the edit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existed {
    Yes,
    No,
}

impl Mutation for Mutant {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MutantStore::new(*self, inner))
    }

    fn store_of_node(&self, link: Arc<dyn Store>) -> Arc<dyn Store> {
        match self {
            Mutant::IgnoresFailedWrites => Arc::new(MutantStore::new(*self, link)),
            _ => link,
        }
    }

    fn targets(&self, inner: Arc<dyn ActionExecutor>) -> Arc<dyn ActionExecutor> {
        Arc::new(MutantTargets::new(*self, inner))
    }

    fn clock(&self, inner: Arc<dyn Clock>) -> Arc<dyn Clock> {
        if *self == Mutant::SendsEarly { Arc::new(EarlyClock(inner)) } else { inner }
    }
}
