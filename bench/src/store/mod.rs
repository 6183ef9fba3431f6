//! The store in SQLite at several sizes, beside plain SQL that keeps the same bytes.
//!
//! | part | what it is |
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

/// Jobs of a collection: as many as clients keep in one, so that names are spread.
pub const JOBS_PER_COLLECTION: usize = 10_000;
/// Rows of a page.
pub const PAGE: usize = 100;
/// Runs of a commit of the engine.
pub const BATCH: usize = 500;
/// Requests under way at a time.
pub const CONCURRENT: usize = 64;
/// A history message as a target gives it.
pub const MESSAGE: &str = "Http Action - Response from host 'example.com': 'OK' Response Headers: \
    Date: Mon, 16 Nov 2026 05:15:00 GMT Content-Type: application/json Body: {\"accepted\": true, \
    \"order\": 4711, \"batch\": \"2026-11-16\", \"items\": 17}";

/// What was measured, with its unit last.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was done.
    pub name: &'static str,
    /// Microseconds for one, or bytes.
    pub value: f64,
    /// Microseconds of processor time for one, of the store and of what asks, where it was taken: it
    /// says more than the time where the machine has other things to do.
    pub processor: Option<f64>,
}

impl Figure {
    /// A figure that is no time, or of which only the time is known.
    pub fn new(name: &'static str, value: f64) -> Figure {
        Figure { name, value, processor: None }
    }
}

/// Microseconds per operation of something done `count` times.
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

/// Processor time of the threads that this process has now; none where the system does not say.
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

/// Numbers that look random and are the same each time.
pub fn scattered(count: usize, below: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    })
    .take(count)
}

/// The bytes of all files of a folder.
pub fn bytes_in(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Waits for answers in their order while at most `width` are under way.
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

/// Waits for an answer.
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
