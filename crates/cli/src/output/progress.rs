//! Progress of long work, on standard error.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::Output;

/// Redraws per second are limited by indicatif; this is how often a spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// A progress bar, hidden unless standard error is a terminal. Removed when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for work with a known number of steps.
    pub(crate) fn bar(output: &Output, steps: usize, message: &'static str) -> Progress {
        let bar = Progress::new(output, Some(steps as u64), message);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.0.set_style(style);
        }
        bar
    }

    /// A spinner for work of unknown length.
    pub(crate) fn spinner(
        output: &Output,
        message: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Progress {
        let spinner = Progress::new(output, None, message);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            spinner.0.set_style(style);
        }
        spinner.0.enable_steady_tick(TICK);
        spinner
    }

    fn new(
        output: &Output,
        steps: Option<u64>,
        message: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Progress {
        if output.is_quiet || !io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = steps.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        Progress(bar.with_message(message))
    }

    /// One more step is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Prints to standard output or error without disturbing the bar.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    pub(crate) fn message(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
