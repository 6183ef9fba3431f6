//! A workload with comparable results.

use std::hint::black_box;

use crate::rounds::Work;

/// A workload whose results can be compared between contenders.
pub(crate) trait Question: Work {
    /// Results for all inputs as plain numbers; `None` for no result.
    fn answers(&self) -> Vec<Option<i64>>;
}

/// One query on many inputs in the types of the contender; `number` makes its results comparable and is
/// not timed.
pub(crate) fn asked<I: 'static, A: 'static, F: Fn(&I) -> A + 'static>(
    inputs: Vec<I>,
    ask: F,
    number: fn(A) -> Option<i64>,
) -> Box<dyn Question> {
    Box::new(Asked { inputs, ask, number })
}

struct Asked<I, A, F> {
    inputs: Vec<I>,
    ask: F,
    number: fn(A) -> Option<i64>,
}

impl<I, A, F: Fn(&I) -> A> Work for Asked<I, A, F> {
    fn run(&self, calls: usize) {
        let ask = |input| {
            black_box((self.ask)(black_box(input)));
        };
        for _ in 0..calls / self.inputs.len() {
            self.inputs.iter().for_each(ask);
        }
        self.inputs.iter().take(calls % self.inputs.len()).for_each(ask);
    }

    fn pass(&self) -> usize {
        self.inputs.len()
    }
}

impl<I, A, F: Fn(&I) -> A> Question for Asked<I, A, F> {
    fn answers(&self) -> Vec<Option<i64>> {
        self.inputs.iter().map(|input| (self.number)((self.ask)(input))).collect()
    }
}
