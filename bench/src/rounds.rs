//! Interleaved rounds: every work is timed once in each round, so that what else the machine does
//! for a while spoils one sample of many works and not all samples of one, and the median of the
//! rounds is taken.

use std::time::{Duration, Instant};

/// How many rounds the median is taken of.
pub const ROUNDS: usize = 9;

/// A sample lasts about this long, where one pass is not longer already: much longer than reading
/// the clock takes, and short enough to fit between two interruptions.
const SAMPLE: Duration = Duration::from_millis(2);

/// Something that can be repeated.
pub trait Work {
    /// Does it `calls` times.
    fn run(&self, calls: usize);

    /// How many calls meet every input once.
    fn pass(&self) -> usize;
}

/// Nanoseconds per call of each work: the medians of [`ROUNDS`] interleaved rounds.
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

/// Also warms caches and whatever is made on first use.
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

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
