//! A question put again and again.

use std::hint::black_box;

use crate::rounds::Work;

/// Work whose answers can be compared with another contender's.
pub(crate) trait Question: Work {
    /// The answers for every input, as plain numbers; `None` where there is none.
    fn answers(&self) -> Vec<Option<i64>>;
}

/// One question about many inputs, each in the types of the contender; `number` makes its answers
/// comparable, outside of what is timed.
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
