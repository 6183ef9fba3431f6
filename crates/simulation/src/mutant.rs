//! Bugs that can be planted between the engine and its world. Each makes the two see of each other
//! what a broken engine or a broken store would make them see, so that the checker can be tested
//! without a broken line in either.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kalends_actions::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest};
use kalends_domain::{ActionRole, Lifecycle, Outcome};
use kalends_environment::{Clock, Sleep};
use kalends_recurrence::Instant;
use kalends_store::record::{Disposition, FencingToken, JobKey, JobRecord, LedgerRecord, RunId};
use kalends_store::{JobPut, JobWrite, RunWrite, RunWriteResult, Store, WaitingRuns};

use crate::seed::Plant;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Mutant {
    DropsAnOccurrence,
    DropsWhatIsMissed,
    DropsWhatOverlaps,
    CountsAStretchWrong,
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
    FiresWhatWasOff,
    ForgetsWhatPassedOff,
    CountsWhatPassedOffWrong,
    FiresWhatPassedOff,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 24] = [
        Mutant::DropsAnOccurrence,
        Mutant::DropsWhatIsMissed,
        Mutant::DropsWhatOverlaps,
        Mutant::CountsAStretchWrong,
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
        Mutant::FiresWhatWasOff,
        Mutant::ForgetsWhatPassedOff,
        Mutant::CountsWhatPassedOffWrong,
        Mutant::FiresWhatPassedOff,
    ];
}

/// A bug that bites now and then.
pub(crate) struct Planted {
    pub(crate) mutant: Mutant,
    pub(crate) inner: Arc<dyn Store>,
    chances: AtomicU64,
    /// The newest proof of each claim.
    tokens: Mutex<BTreeMap<RunId, FencingToken>>,
    /// Jobs as they were when they were first read.
    first_seen: Mutex<BTreeMap<JobKey, JobRecord>>,
}

/// A bug bites once in as many chances: it must be found though it is rare.
const BITES_ONCE_IN: u64 = 3;

impl Planted {
    pub(crate) fn new(mutant: Mutant, inner: Arc<dyn Store>) -> Planted {
        Planted {
            mutant,
            inner,
            chances: AtomicU64::new(0),
            tokens: Mutex::default(),
            first_seen: Mutex::default(),
        }
    }

    fn bites(&self) -> bool {
        self.chances.fetch_add(1, Ordering::Relaxed) % BITES_ONCE_IN == BITES_ONCE_IN - 1
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == mutant && self.bites()
    }

    /// What becomes of a write on its way to the store.
    pub(crate) fn spoil(&self, write: RunWrite) -> RunWrite {
        match write {
            RunWrite::Begin { on, advance, closed, postponed, .. }
                if self.is(Mutant::DropsAnOccurrence) =>
            {
                RunWrite::Skip { on, advance, closed, postponed }
            }
            RunWrite::Begin {
                on,
                scheduled,
                progress,
                owner,
                lease,
                mut advance,
                mut closed,
                postponed,
            } => {
                if self.mutant == Mutant::ExceedsTheCount && advance.due.is_none() && self.bites() {
                    advance.due = Instant::from_ticks(scheduled.ticks() + 600_000_000);
                }
                self.spoil_closed(&mut closed);
                RunWrite::Begin {
                    on,
                    scheduled,
                    progress,
                    owner,
                    lease,
                    advance,
                    closed,
                    postponed,
                }
            }
            RunWrite::Skip { on, mut advance, mut closed, postponed } => {
                self.spoil_closed(&mut closed);
                if self.mutant == Mutant::NeverEnds {
                    advance.lifecycle = Lifecycle::Active;
                }
                RunWrite::Skip { on, advance, closed, postponed }
            }
            RunWrite::Continue { run, token, entry, mut counts, mut progress } => {
                match self.mutant {
                    Mutant::RetriesOnceMore if progress.retry > 0 && self.bites() => {
                        progress.retry -= 1;
                    }
                    Mutant::GivesUpTooSoon if progress.retry > 0 => progress.retry += 1,
                    Mutant::RetriesTooSoon if progress.retry > 0 => {
                        let sooner = progress.next_at.ticks() - 10_000_000;
                        progress.next_at = Instant::from_ticks(sooner).unwrap_or(progress.next_at);
                    }
                    Mutant::ForgetsRetries if progress.retry > 0 => {
                        progress.next_at =
                            progress.next_at.saturating_add(Duration::from_secs(90_000_000));
                    }
                    Mutant::CountsAttemptsTwice => counts.failed = false,
                    _ => {}
                }
                let entry = if self.is(Mutant::ForgetsHistory) { None } else { entry };
                RunWrite::Continue { run, token, entry, counts, progress }
            }
            RunWrite::Finish { run, token, entry, counts, mut closed, lifecycle } => {
                let is_failed = closed.disposition == Disposition::Failed;
                if self.mutant == Mutant::CompletesBeforeTheOutcome && is_failed {
                    closed.disposition = Disposition::Completed;
                }
                let lifecycle = lifecycle.filter(|_| self.mutant != Mutant::NeverEnds);
                RunWrite::Finish { run, token, entry, counts, closed, lifecycle }
            }
            other => other,
        }
    }

    fn spoil_closed(&self, closed: &mut Vec<LedgerRecord>) {
        let dropped = match self.mutant {
            Mutant::DropsWhatIsMissed => Some(Disposition::Missed),
            Mutant::DropsWhatOverlaps => Some(Disposition::SkippedOverlap),
            _ => None,
        };
        closed.retain(|row| Some(row.disposition) != dropped);
        if self.mutant == Mutant::CountsAStretchWrong {
            closed.iter_mut().filter(|row| row.count > 1).for_each(|row| row.count -= 1);
        }
    }

    /// Lets a write through with whatever proof is the newest.
    pub(crate) fn forge(&self, write: RunWrite) -> RunWrite {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match write {
            RunWrite::Finish { run, token, entry, counts, closed, lifecycle } => {
                let token = tokens.get(&run).copied().unwrap_or(token);
                RunWrite::Finish { run, token, entry, counts, closed, lifecycle }
            }
            RunWrite::Continue { run, token, entry, counts, progress } => {
                let token = tokens.get(&run).copied().unwrap_or(token);
                RunWrite::Continue { run, token, entry, counts, progress }
            }
            other => other,
        }
    }

    /// Remembers the proofs of claims.
    pub(crate) fn remember(&self, writes: &[RunWrite], answers: &[RunWriteResult]) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        for (write, answer) in writes.iter().zip(answers) {
            match (write, answer) {
                (_, RunWriteResult::Begun { run, claim: Some(claim) }) => {
                    tokens.insert(*run, claim.token);
                }
                (RunWrite::Claim { run, .. }, RunWriteResult::Claimed(claim)) => {
                    tokens.insert(*run, claim.token);
                }
                _ => {}
            }
        }
    }

    /// A job as it was once, now and then.
    pub(crate) fn old(&self, job: JobRecord) -> JobRecord {
        let mut seen = self.first_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = seen.entry(job.key).or_insert_with(|| job.clone()).clone();
        if self.is(Mutant::RunsOldDefinitions) { first } else { job }
    }

    /// What makes something else of an edit.
    pub(crate) fn spoiler(&self) -> impl FnMut(JobWrite, Existed) -> JobWrite + Send + use<> {
        let loses = self.is(Mutant::LosesAnEdit);
        let keeps = self.mutant == Mutant::RunsOldDefinitions;
        let mutant = self.mutant;
        move |write, existed| match write {
            JobWrite::Put(_) if existed == Existed::Yes && loses => JobWrite::Keep,
            JobWrite::Put(mut put) => {
                if keeps {
                    put.waiting = WaitingRuns::Keep;
                }
                spoil_passed(&mut put, mutant);
                JobWrite::Put(put)
            }
            other => other,
        }
    }
}

/// Spoils what an edit says of the instants that closed_by_edit while the job was off.
fn spoil_passed(put: &mut JobPut, mutant: Mutant) {
    let JobPut { closed_by_edit, state, .. } = put;
    let Some(row) = closed_by_edit else { return };
    if row.disposition != Disposition::SkippedDisabled {
        return;
    }
    match mutant {
        Mutant::ForgetsWhatPassedOff => *closed_by_edit = None,
        Mutant::CountsWhatPassedOffWrong => row.count += 1,
        Mutant::FiresWhatPassedOff if state.due.is_some() => state.due = Some(row.to),
        _ => {}
    }
}

/// Whether a job was there before an edit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existed {
    Yes,
    No,
}

/// Targets behind a bug of the engine.
pub(crate) struct PlantedTargets {
    pub(crate) mutant: Mutant,
    pub(crate) inner: Arc<dyn ActionExecutor>,
    pub(crate) calls: AtomicU64,
}

impl ActionExecutor for PlantedTargets {
    fn execute(&self, order: AttemptRequest) -> AttemptFuture<'_> {
        Box::pin(async move {
            let bites =
                self.calls.fetch_add(1, Ordering::Relaxed) % BITES_ONCE_IN == BITES_ONCE_IN - 1;
            let is_error = order.role == ActionRole::Error;
            let twice = match self.mutant {
                Mutant::SendsTwice => bites,
                Mutant::RunsTheErrorActionTwice => is_error,
                _ => false,
            };
            if self.mutant == Mutant::ForgetsTheErrorAction && is_error {
                return AttemptReport::new(Outcome::Succeeded, "never sent");
            }
            if twice {
                self.inner.execute(order.clone()).await;
            }
            self.inner.execute(order).await
        })
    }
}

/// A clock that shows a millisecond too much, as by a mistake of rounding.
pub(crate) struct EarlyClock(pub(crate) Arc<dyn Clock>);

pub(crate) const EARLY_BY: Duration = Duration::from_millis(1);

impl Clock for EarlyClock {
    fn now(&self) -> Timestamp {
        self.0.now().saturating_add(EARLY_BY).unwrap_or(Timestamp::MAX)
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        self.0.sleep_until(until.saturating_sub(EARLY_BY).unwrap_or(until))
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        self.0.sleep(duration)
    }
}

impl Plant for Mutant {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Planted::new(*self, inner))
    }

    fn targets(&self, inner: Arc<dyn ActionExecutor>) -> Arc<dyn ActionExecutor> {
        Arc::new(PlantedTargets { mutant: *self, inner, calls: AtomicU64::new(0) })
    }

    fn clock(&self, inner: Arc<dyn Clock>) -> Arc<dyn Clock> {
        if *self == Mutant::SendsEarly { Arc::new(EarlyClock(inner)) } else { inner }
    }
}
