//! The way from one node to the store: slow, cut, or losing answers, as the seed says.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_store::{RunWrite, RunWriteResult, Store, StoreError};

use crate::chance::Chance;
use crate::log::{Kind, Log};
use crate::time::{VirtualClock, VirtualTime};

/// More calls than this at one instant of time are a loop that waits for nothing.
const CALLS_AT_ONCE_MAX: u64 = 20_000;
/// How long a node waits for a store that is out of reach.
const CUT_OFF: Duration = Duration::from_secs(2);

/// How the way to the store is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// One call in so many fails before anything is done; 0 for none.
    pub(crate) fails: u64,
    /// One call in so many is done, but its answer is lost; 0 for none.
    pub(crate) loses: u64,
    /// Calls take up to so long, each way.
    pub(crate) delay_max: Duration,
    pub(crate) is_cut: bool,
    /// After so many calls the node dies in the middle of one.
    pub(crate) dies_after: Option<u64>,
}

/// Who is told of everything that was committed.
pub(crate) type Observer = Box<dyn Fn(&[RunWrite], &[RunWriteResult]) + Send + Sync>;

/// The way from one node to the store.
pub(crate) struct Link {
    pub(crate) node: usize,
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) log: Arc<Log>,
    clock: Arc<VirtualClock>,
    chance: Chance,
    weather: Mutex<Weather>,
    /// Set when the node is to die where it stands.
    pub(crate) dying: AtomicBool,
    busy_at: Mutex<(i64, u64)>,
    calls: AtomicU64,
    observer: Option<Observer>,
}

/// Whether a call changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Read,
    Write,
}

impl Link {
    /// A way without weather, and with somebody who watches it.
    pub(crate) fn observed(
        inner: Arc<dyn Store>,
        time: &Arc<VirtualTime>,
        log: &Arc<Log>,
        clock: &Arc<VirtualClock>,
        observer: Observer,
    ) -> Arc<Link> {
        Arc::new(Link { observer: Some(observer), ..Link::made(0, inner, time, log, clock, 0) })
    }

    pub(crate) fn new(
        node: usize,
        inner: Arc<dyn Store>,
        time: &Arc<VirtualTime>,
        log: &Arc<Log>,
        clock: &Arc<VirtualClock>,
        seed: u64,
    ) -> Arc<Link> {
        Arc::new(Link::made(node, inner, time, log, clock, seed))
    }

    fn made(
        node: usize,
        inner: Arc<dyn Store>,
        time: &Arc<VirtualTime>,
        log: &Arc<Log>,
        clock: &Arc<VirtualClock>,
        seed: u64,
    ) -> Link {
        Link {
            node,
            inner,
            time: Arc::clone(time),
            log: Arc::clone(log),
            clock: Arc::clone(clock),
            chance: Chance::of(&[seed, 77, node as u64]),
            weather: Mutex::default(),
            dying: AtomicBool::new(false),
            busy_at: Mutex::default(),
            calls: AtomicU64::new(0),
            observer: None,
        }
    }

    pub(crate) fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// One call, and what the weather makes of it.
    pub(crate) async fn call<T, F>(
        &self,
        does: Does,
        make: impl FnOnce() -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send,
        T: Send,
    {
        if !self.has_sense() {
            std::future::pending::<()>().await;
        }
        let weather = *self.weather();
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let dies = weather.dies_after.is_some_and(|after| number >= after);
        let dies_before = dies && self.chance.one_in(2);
        if dies_before {
            self.die().await;
        }
        if weather.is_cut {
            self.trouble();
            self.clock.lets_pass(CUT_OFF).await;
            return Err(StoreError::Busy("cut off".into()));
        }
        self.delay(weather).await;
        if weather.fails > 0 && self.chance.one_in(weather.fails) {
            self.trouble();
            return Err(StoreError::Failed("planned".into()));
        }
        let answer = make().await;
        if dies {
            self.die().await;
        }
        self.delay(weather).await;
        let cut_meanwhile = self.weather().is_cut;
        if cut_meanwhile || weather.loses > 0 && self.chance.one_in(weather.loses) {
            self.trouble();
            return Err(match does {
                Does::Read => StoreError::Busy("the answer was lost".into()),
                Does::Write => StoreError::Unknown("the answer was lost".into()),
            });
        }
        answer
    }

    /// A commit that was carried out, for who checks claims.
    pub(crate) fn note_commit(&self, writes: &[RunWrite], answers: &[RunWriteResult]) {
        if let Some(observer) = &self.observer {
            observer(writes, answers);
            return;
        }
        let mut noted = self.log.noted();
        for (write, answer) in writes.iter().zip(answers) {
            match (write, answer) {
                (RunWrite::Begin { on, scheduled, .. }, RunWriteResult::Begun { run, claim }) => {
                    noted.runs.insert(*run, (on.job, *scheduled));
                    noted.tokens.extend(claim.map(|claim| (*run, claim.token)));
                }
                (RunWrite::Claim { run, .. }, RunWriteResult::Claimed(claim)) => {
                    noted.tokens.insert(*run, claim.token);
                }
                (
                    RunWrite::Finish { run, token, .. } | RunWrite::Continue { run, token, .. },
                    RunWriteResult::Done,
                ) if noted.tokens.get(run) != Some(token) => {
                    let node = self.node;
                    noted.seen.push(format!("FENCE a stale write of node {node} was accepted"));
                }
                _ => {}
            }
        }
        drop(noted);
        self.log.trace(|| {
            let pairs: Vec<_> = writes.iter().zip(answers).map(in_words).collect();
            format!("node {} commits {}", self.node, pairs.join("; "))
        });
    }

    /// What the node was told about its claims.
    pub(crate) fn note_told(&self, writes: &[RunWrite], answers: &[RunWriteResult]) {
        if self.observer.is_some() {
            return;
        }
        let mut noted = self.log.noted();
        for (write, answer) in writes.iter().zip(answers) {
            let run = match (write, answer) {
                (_, RunWriteResult::Begun { run, claim: Some(claim) }) => Some((*run, claim)),
                (
                    RunWrite::Claim { run, .. } | RunWrite::RenewLease { run, .. },
                    RunWriteResult::Claimed(claim),
                ) => Some((*run, claim)),
                _ => None,
            };
            if let Some((run, claim)) = run
                && let Some(&(job, scheduled)) = noted.runs.get(&run)
            {
                noted.leases.insert((self.node, job, scheduled), claim.lease_until.ticks());
            }
        }
    }

    async fn delay(&self, weather: Weather) {
        let max = crate::time::ticks(weather.delay_max);
        if max > 0 {
            let by = self.chance.below(max.unsigned_abs());
            self.clock.lets_pass(Duration::from_nanos(by * 100)).await;
        }
    }

    /// The process dies here; the world sees to it when nothing can go on.
    async fn die(&self) {
        self.dying.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }

    /// Whether the node still does anything else than call.
    fn has_sense(&self) -> bool {
        let now = self.time.now();
        let mut busy_at = self.busy_at.lock().unwrap_or_else(PoisonError::into_inner);
        let count = if busy_at.0 == now { busy_at.1 + 1 } else { 0 };
        *busy_at = (now, count);
        if count == CALLS_AT_ONCE_MAX {
            let what = format!("SPIN node {} calls the store without end", self.node);
            self.log.noted().seen.push(what);
        }
        count < CALLS_AT_ONCE_MAX
    }

    fn trouble(&self) {
        let now = self.time.now();
        self.log.trace(|| format!("node {}: the store fails", self.node));
        self.log.trouble(Some(self.node), now, now, Kind::Store);
    }
}

fn in_words((write, answer): (&RunWrite, &RunWriteResult)) -> String {
    let what = match write {
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
            "pass job {} due {} (next {:?}, {:?}, closed {:?})",
            on.job.0,
            on.due,
            advance.due,
            advance.lifecycle,
            closed.iter().map(|c| (c.disposition, c.from, c.to, c.count)).collect::<Vec<_>>(),
        ),
        RunWrite::Claim { run, progress, .. } => format!("claim run {} {progress:?}", run.0),
        RunWrite::RenewLease { run, .. } => format!("extend run {}", run.0),
        RunWrite::Continue { run, progress, .. } => format!("continue run {} {progress:?}", run.0),
        RunWrite::Finish { run, closed, lifecycle, .. } => {
            format!("finish run {} {:?} {lifecycle:?}", run.0, closed.disposition)
        }
    };
    match answer {
        RunWriteResult::Stale => format!("{what}: STALE"),
        RunWriteResult::Begun { run, .. } => format!("{what}: run {}", run.0),
        _ => what,
    }
}
