//! The SQLite store at several sizes, compared with plain tables in the same SQLite.
//!
//! | module | contents |
//! |---|---|
//! | [`workload`] | jobs and runs, the same for both contenders |
//! | [`kalends`] | the store, called as the API and the engine call it |
//! | [`plain`] | plain tables with group commit and a background checkpoint |
//! | [`checkpoint`] | that checkpoint, by the rules of the store |
//! | [`report`] | both as Markdown tables, with ratios between sizes |

pub mod checkpoint;
pub mod kalends;
pub mod plain;
pub mod report;
pub mod workload;

use std::collections::VecDeque;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Instant;

/// Jobs of a collection; a job's name is unique in its collection.
pub const JOBS_PER_COLLECTION: usize = 10_000;
/// Rows of a page.
pub const PAGE: usize = 100;
/// Runs of a commit of the engine.
pub const BATCH: usize = 500;
/// Batches of runs that are timed; each takes two commits, one that begins the runs and one that
/// finishes them. Enough for several flushes and checkpoints.
pub const BATCHES: usize = 400;
/// Batches that are timed with next due times far apart, which cost more.
pub const FAR_APART_BATCHES: usize = BATCHES / 4;
/// Concurrent requests, or jobs of a transaction, while jobs are loaded.
pub const LOADING: usize = 1_000;
/// Timed operations of most rows.
pub const TIMED: usize = 2_000;
/// Concurrent requests of the rows that measure concurrency.
pub const CONCURRENT: usize = 64;
/// A history message as a typical target causes it.
pub const MESSAGE: &str = "Http Action - Response from host 'example.com': 'OK' Response Headers: \
    Date: Mon, 16 Nov 2026 05:15:00 GMT Content-Type: application/json Body: {\"accepted\": true, \
    \"order\": 4711, \"batch\": \"2026-11-16\", \"items\": 17}";

/// The rows of the report that both contenders measure have one name.
pub mod row {
    /// All jobs created, including the flush of the write-back cache.
    pub const LOAD: &str = "load, 1,000 concurrent, including the flush";
    /// One edit after the other, each with a commit of its own.
    pub const PUT: &str = "PUT, sequential";
    /// One random job after the other.
    pub const GET: &str = "GET, sequential";
    /// A page of jobs after a random name.
    pub const LIST: &str = "list, page of 100";
    /// Complete runs of jobs that are due together again, after all others.
    pub const OTHER_JOBS: &str = "run with history, 500 other jobs each time";
    /// The same with next due times spread over a day.
    pub const FAR_APART: &str = "run with history, next due times far apart";
    /// Size of the files after loading.
    pub const BYTES: &str = "bytes per job";
}

/// Which rows of the report are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of them.
    All,
    /// Only those that decide between the write-back cache and plain tables: load, sequential GET,
    /// runs of other jobs each time, and runs with next due times far apart.
    Comparison,
}

/// A row of the report for one contender and size.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Name of the row.
    pub name: &'static str,
    /// Wall time of one operation in microseconds, or another quantity that the name states.
    pub value: f64,
    /// CPU time of one operation in microseconds, of all threads of the process including the load
    /// generator; `None` for a row that is not a mean of operations. Comparable on a busy machine.
    pub cpu: Option<f64>,
}

impl Measurement {
    /// A row without CPU time.
    pub fn new(name: &'static str, value: f64) -> Measurement {
        Measurement { name, value, cpu: None }
    }
}

/// Times `work`, which carries out `count` operations, and logs the result to standard error.
pub fn time<E>(
    name: &'static str,
    count: usize,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<Measurement, E> {
    let cpu = cpu_micros();
    let ((), wall) = wall_micros(work)?;
    let (value, cpu) = (wall / count as f64, (cpu_micros() - cpu) / count as f64);
    eprintln!("{name}: {value:.1} µs, CPU {cpu:.1} µs");
    Ok(Measurement { name, value, cpu: Some(cpu) })
}

/// The wall time of one operation in microseconds, with its result. Reads no CPU time, which takes
/// longer than some operations.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub fn wall_micros<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, f64), E> {
    let begin = Instant::now();
    let result = work()?;
    Ok((result, begin.elapsed().as_secs_f64() * 1e6))
}

/// CPU time of the threads that this process has now; 0 on systems without `/proc`.
fn cpu_micros() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e3
}

/// Pseudo-random numbers, the same in each run.
pub fn scattered(count: usize, below: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    })
    .take(count)
}

/// Total size of the files of a folder.
pub fn bytes_in(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Completes requests in their order, with at most `width` of them in flight.
pub fn in_flight<T, E, F: Future<Output = Result<T, E>>>(
    width: usize,
    requests: impl Iterator<Item = F>,
    mut completed: impl FnMut(T),
) -> Result<(), E> {
    let mut pending = VecDeque::with_capacity(width);
    for request in requests {
        if pending.len() == width
            && let Some(first) = pending.pop_front()
        {
            completed(wait(first)?);
        }
        pending.push_back(request);
    }
    pending.into_iter().try_for_each(|request| wait(request).map(&mut completed))
}

/// Blocks the thread until a future completes.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
