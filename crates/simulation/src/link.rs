//! The network link between a node and the store, with injected delays, partitions, errors and lost
//! replies.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_store::{RunWrite, RunWriteResult, Store, StoreError};

use crate::recorder::{FaultKind, Recorder};
use crate::rng::Rng;
use crate::time::{VirtualClock, VirtualTime};

/// More calls than this without virtual time passing are a busy loop.
const CALLS_AT_ONCE_MAX: u64 = 20_000;
/// A call to an unreachable store fails after this time.
const PARTITION_TIMEOUT: Duration = Duration::from_secs(2);

/// Faults of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkFaults {
    /// One of this many calls fails before it reaches the store; 0 for none.
    pub(crate) fail_one_in: u64,
    /// The reply to one of this many calls is lost; 0 for none.
    pub(crate) lose_reply_one_in: u64,
    /// Maximum delay in each direction.
    pub(crate) delay_max: Duration,
    pub(crate) is_partitioned: bool,
    /// Writes fail, reads succeed.
    pub(crate) fails_writes: bool,
    /// Maximum time for which gate states that were read are held up.
    pub(crate) gate_hold_max: Duration,
    /// The node crashes during a call once it made this many calls.
    pub(crate) crash_after_calls: Option<u64>,
}

/// Called for every commit.
pub(crate) type Observer = Box<dyn Fn(&[RunWrite], &[RunWriteResult]) + Send + Sync>;

/// The link between one node and the store.
pub(crate) struct Link {
    pub(crate) node: usize,
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) recorder: Arc<Recorder>,
    clock: Arc<VirtualClock>,
    rng: Rng,
    link_faults: Mutex<LinkFaults>,
    /// Set when the node must crash at its current await.
    pub(crate) is_crashing: AtomicBool,
    busy_at: Mutex<(i64, u64)>,
    calls: AtomicU64,
    observer: Option<Observer>,
}

/// Whether a call may change the store: decides the error of a lost reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Link {
    /// A link without faults that reports commits to `observer`.
    pub(crate) fn observed(
        inner: Arc<dyn Store>,
        time: &Arc<VirtualTime>,
        recorder: &Arc<Recorder>,
        clock: &Arc<VirtualClock>,
        observer: Observer,
    ) -> Arc<Link> {
        Arc::new(Link {
            observer: Some(observer),
            ..Link::build(0, inner, time, recorder, clock, 0)
        })
    }

    pub(crate) fn new(
        node: usize,
        inner: Arc<dyn Store>,
        time: &Arc<VirtualTime>,
        recorder: &Arc<Recorder>,
        clock: &Arc<VirtualClock>,
        seed: u64,
    ) -> Arc<Link> {
        Arc::new(Link::build(node, inner, time, recorder, clock, seed))
    }

    fn build(
        node: usize,
        inner: Arc<dyn Store>,
        time: &Arc<VirtualTime>,
        recorder: &Arc<Recorder>,
        clock: &Arc<VirtualClock>,
        seed: u64,
    ) -> Link {
        Link {
            node,
            inner,
            time: Arc::clone(time),
            recorder: Arc::clone(recorder),
            clock: Arc::clone(clock),
            rng: Rng::derive(&[seed, 77, node as u64]),
            link_faults: Mutex::default(),
            is_crashing: AtomicBool::new(false),
            busy_at: Mutex::default(),
            calls: AtomicU64::new(0),
            observer: None,
        }
    }

    pub(crate) fn link_faults(&self) -> MutexGuard<'_, LinkFaults> {
        self.link_faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of calls made so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Makes one call, subject to the faults of the link.
    pub(crate) async fn call<T, F>(
        &self,
        access: Access,
        send: impl FnOnce() -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send,
        T: Send,
    {
        if !self.is_making_progress() {
            std::future::pending::<()>().await;
        }
        let link_faults = *self.link_faults();
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let crashes = link_faults.crash_after_calls.is_some_and(|after| number >= after);
        let crashes_before = crashes && self.rng.one_in(2);
        if crashes_before {
            self.crash().await;
        }
        if link_faults.is_partitioned {
            self.record_store_fault();
            self.clock.elapse(PARTITION_TIMEOUT).await;
            return Err(StoreError::Busy("partitioned".into()));
        }
        self.delay(link_faults.delay_max).await;
        if link_faults.fails_writes && access == Access::Write {
            self.record_store_fault();
            return Err(StoreError::Full);
        }
        if link_faults.fail_one_in > 0 && self.rng.one_in(link_faults.fail_one_in) {
            self.record_store_fault();
            return Err(StoreError::Failed("injected".into()));
        }
        let reply = send().await;
        if crashes {
            self.crash().await;
        }
        self.delay(link_faults.delay_max).await;
        let partitioned_meanwhile = self.link_faults().is_partitioned;
        if partitioned_meanwhile
            || link_faults.lose_reply_one_in > 0 && self.rng.one_in(link_faults.lose_reply_one_in)
        {
            self.record_store_fault();
            return Err(match access {
                Access::Read => StoreError::Busy("the reply was lost".into()),
                Access::Write => StoreError::Unknown("the reply was lost".into()),
            });
        }
        reply
    }

    /// Records a commit for the checks of fencing tokens.
    pub(crate) fn record_commit(&self, writes: &[RunWrite], results: &[RunWriteResult]) {
        if let Some(observer) = &self.observer {
            observer(writes, results);
            return;
        }
        let mut observations = self.recorder.observations();
        for (write, result) in writes.iter().zip(results) {
            match (write, result) {
                (RunWrite::Begin { on, scheduled, .. }, RunWriteResult::Begun { run, claim }) => {
                    observations.runs.insert(*run, (on.job, *scheduled));
                    observations.claimed.push(on.job);
                    observations.tokens.extend(claim.map(|claim| (*run, claim.token)));
                }
                (RunWrite::Claim { run, .. }, RunWriteResult::Claimed(claim)) => {
                    observations.tokens.insert(*run, claim.token);
                    let job = observations.runs.get(run).map(|&(job, _)| job);
                    observations.claimed.extend(job);
                }
                (
                    RunWrite::Finish { run, token, .. } | RunWrite::Continue { run, token, .. },
                    RunWriteResult::Done | RunWriteResult::Claimed(_),
                ) if observations.tokens.get(run) != Some(token) => {
                    let node = self.node;
                    observations
                        .violations
                        .push(format!("FENCE a stale write of node {node} was accepted"));
                }
                (RunWrite::Continue { run, .. }, RunWriteResult::Claimed(claim)) => {
                    observations.tokens.insert(*run, claim.token);
                }
                _ => {}
            }
        }
        drop(observations);
        self.recorder.trace(|| {
            let pairs: Vec<_> = writes.iter().zip(results).map(describe_write).collect();
            format!("node {} commits {}", self.node, pairs.join("; "))
        });
    }

    /// Records the leases that the node learned of from a reply. `clock_offset` is that of the store's
    /// clock when it wrote them: the clock may have been stepped since.
    pub(crate) fn record_received_claims(
        &self,
        writes: &[RunWrite],
        results: &[RunWriteResult],
        clock_offset: i64,
    ) {
        if self.observer.is_some() {
            return;
        }
        let mut observations = self.recorder.observations();
        for (write, result) in writes.iter().zip(results) {
            let run = match (write, result) {
                (_, RunWriteResult::Begun { run, claim: Some(claim) }) => Some((*run, claim)),
                (
                    RunWrite::Claim { run, .. }
                    | RunWrite::RenewLease { run, .. }
                    | RunWrite::Continue { run, .. },
                    RunWriteResult::Claimed(claim),
                ) => Some((*run, claim)),
                _ => None,
            };
            if let Some((run, claim)) = run
                && let Some(&(job, scheduled)) = observations.runs.get(&run)
            {
                let until = claim.lease_until.ticks() - clock_offset;
                observations.leases.insert((self.node, job, scheduled), until);
            }
        }
    }

    /// Holds up gate states after they were read.
    pub(crate) async fn hold_gate_states(&self) {
        let longest = self.link_faults().gate_hold_max;
        if !longest.is_zero() {
            let from = self.time.now();
            self.delay(longest).await;
            self.recorder.record_fault(Some(self.node), from, self.time.now(), FaultKind::SlowGate);
        }
    }

    async fn delay(&self, longest: Duration) {
        let max = crate::time::ticks(longest);
        if max > 0 {
            let by = self.rng.below(max.unsigned_abs());
            self.clock.elapse(Duration::from_nanos(by * 100)).await;
        }
    }

    /// Crashes the process here: the world drops the node as soon as it is idle.
    async fn crash(&self) {
        self.is_crashing.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }

    /// Whether the node does not call the store in a busy loop.
    fn is_making_progress(&self) -> bool {
        let now = self.time.now();
        let mut busy_at = self.busy_at.lock().unwrap_or_else(PoisonError::into_inner);
        let count = if busy_at.0 == now { busy_at.1 + 1 } else { 0 };
        *busy_at = (now, count);
        if count == CALLS_AT_ONCE_MAX {
            let what = format!("SPIN node {} calls the store in a busy loop", self.node);
            self.recorder.observations().violations.push(what);
        }
        count < CALLS_AT_ONCE_MAX
    }

    fn record_store_fault(&self) {
        let now = self.time.now();
        self.recorder.trace(|| format!("node {}: store call fails", self.node));
        self.recorder.record_fault(Some(self.node), now, now, FaultKind::Store);
    }
}

fn describe_write((write, result): (&RunWrite, &RunWriteResult)) -> String {
    let text = match write {
        RunWrite::Begin { on, scheduled, advance, closed, owner, .. } => format!(
            "begin job {} of {scheduled}{} (was due {}, next {:?}, used {}, {:?}, closed {:?})",
            on.job.0,
            if owner.is_none() { " for later" } else { "" },
            on.due,
            advance.due,
            advance.used,
            advance.lifecycle,
            closed.iter().map(|c| (c.disposition, c.from, c.to, c.count)).collect::<Vec<_>>(),
        ),
        RunWrite::Skip { on, advance, closed, .. } => format!(
            "skip job {} due {} (next {:?}, {:?}, closed {:?})",
            on.job.0,
            on.due,
            advance.due,
            advance.lifecycle,
            closed.iter().map(|c| (c.disposition, c.from, c.to, c.count)).collect::<Vec<_>>(),
        ),
        RunWrite::Reschedule { job, advance, .. } => {
            format!("reschedule job {} (next {:?}, {:?})", job.0, advance.due, advance.lifecycle)
        }
        RunWrite::Claim { run, progress, .. } => format!("claim run {} {progress:?}", run.0),
        RunWrite::Park { run, progress, .. } => format!("park run {} {progress:?}", run.0),
        RunWrite::RenewLease { run, .. } => format!("renew lease of run {}", run.0),
        RunWrite::Continue { run, progress, claim, .. } => {
            format!("continue run {} {progress:?} {claim:?}", run.0)
        }
        RunWrite::Finish { run, closed, lifecycle, .. } => {
            format!("finish run {} {:?} {lifecycle:?}", run.0, closed.disposition)
        }
    };
    match result {
        RunWriteResult::Stale => format!("{text}: STALE"),
        RunWriteResult::Begun { run, .. } => format!("{text}: run {}", run.0),
        _ => text,
    }
}
