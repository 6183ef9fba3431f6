//! Interleaved rounds: each round times every workload once, so that a temporary disturbance affects one
//! sample of many workloads instead of all samples of one. The result is the median of the rounds.

use std::time::{Duration, Instant};

use crate::peers::median;

/// Number of rounds.
pub const ROUNDS: usize = 9;

/// Minimum duration of a sample: much longer than reading the clock, and short enough to fit between two
/// interruptions.
const SAMPLE: Duration = Duration::from_millis(2);

/// A repeatable workload.
pub trait Work {
    /// Runs the workload `calls` times.
    fn run(&self, calls: usize);

    /// Number of calls that use every input once.
    fn pass(&self) -> usize;
}

/// Nanoseconds per call of each workload: the medians of [`ROUNDS`] interleaved rounds.
pub fn median_nanoseconds(works: &[&dyn Work]) -> Vec<f64> {
    let calls: Vec<_> = works.iter().map(|&work| calls_of_a_sample(work)).collect();
    let mut samples = vec![Vec::with_capacity(ROUNDS); works.len()];
    for _ in 0..ROUNDS {
        for ((work, &calls), samples) in works.iter().zip(&calls).zip(&mut samples) {
            samples.push(time(*work, calls).as_secs_f64() * 1e9 / calls as f64);
        }
    }
    samples.into_iter().map(median).collect()
}

/// Also warms caches and lazily initialised data.
fn calls_of_a_sample(work: &dyn Work) -> usize {
    let pass = work.pass();
    work.run(pass);
    let one = time(work, pass).as_secs_f64();
    let passes = (SAMPLE.as_secs_f64() / one) as usize;
    pass * passes.max(1)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time(work: &dyn Work, calls: usize) -> Duration {
    let begin = Instant::now();
    work.run(calls);
    begin.elapsed()
}
