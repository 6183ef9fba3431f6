//! The SQLite store at several sizes, compared with plain SQL that stores the same bytes.
//!
//! | module | contents |
//! |---|---|
//! | [`kalends`] | the store, asked as the API and the engine ask it |
//! | [`floor`] | the least that SQLite must do for it: a table, a key, the same commits |
//! | [`report`] | both as a table, with ratios between sizes |

pub mod floor;
pub mod kalends;
pub mod report;

use std::collections::VecDeque;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Number of jobs per collection, a realistic size.
pub const JOBS_PER_COLLECTION: usize = 10_000;
/// Number of rows per page.
pub const PAGE: usize = 100;
/// Number of runs in a commit of the engine.
pub const BATCH: usize = 500;
/// Number of requests in flight.
pub const CONCURRENT: usize = 64;
/// A typical history message.
pub const MESSAGE: &str = "Http Action - Response from host 'example.com': 'OK' Response Headers: \
    Date: Mon, 16 Nov 2026 05:15:00 GMT Content-Type: application/json Body: {\"accepted\": true, \
    \"order\": 4711, \"batch\": \"2026-11-16\", \"items\": 17}";

/// A measured value.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the operation.
    pub name: &'static str,
    /// Microseconds per operation, or bytes.
    pub value: f64,
    /// Microseconds of processor time per operation, including the caller, if measured. On a busy
    /// machine more reliable than elapsed time.
    pub processor: Option<f64>,
}

impl Figure {
    /// A measurement without processor time.
    pub fn new(name: &'static str, value: f64) -> Figure {
        Figure { name, value, processor: None }
    }
}

/// Measures microseconds per operation of `count` operations.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub fn time<E>(
    name: &'static str,
    count: usize,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<Figure, E> {
    let (begin, processor) = (Instant::now(), processor_micros());
    work()?;
    let value = micros(begin.elapsed()) / count as f64;
    let processor = (processor_micros() - processor) / count as f64;
    if count > 1 {
        eprintln!("{name}: {value:.1}, processor {processor:.1}");
    }
    Ok(Figure { name, value, processor: (count > 1).then_some(processor) })
}

/// Processor time of the current threads of this process; 0 if the system does not report it.
fn processor_micros() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e3
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Deterministic pseudo-random numbers.
pub fn scattered(count: usize, below: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    })
    .take(count)
}

/// Total size of the files in a directory.
pub fn bytes_in(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Awaits results in order with at most `width` in flight.
pub fn in_flight<T, E, F: Future<Output = Result<T, E>>>(
    width: usize,
    requests: impl Iterator<Item = F>,
    mut answered: impl FnMut(T),
) -> Result<(), E> {
    let mut under_way = VecDeque::with_capacity(width);
    for request in requests {
        if under_way.len() == width
            && let Some(first) = under_way.pop_front()
        {
            answered(wait(first)?);
        }
        under_way.push_back(request);
    }
    under_way.into_iter().try_for_each(|request| wait(request).map(&mut answered))
}

/// Blocks until a future is ready.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
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
