//! Progress of a long command on standard error.

use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows progress: a line that changes on a terminal; elsewhere a line each time the number of rows has
/// doubled, so that a log stays short.
pub(super) struct Progress {
    /// `None` unless standard error is a terminal.
    bar: Option<ProgressBar>,
    what: String,
    /// Number of rows of the next line.
    next: u64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} ({elapsed})");
            let bar = ProgressBar::new_spinner();
            style.into_iter().for_each(|style| bar.set_style(style));
            bar
        });
        Progress { bar, what: String::new(), next: 0 }
    }

    /// Shows that `rows` of `what` are done.
    pub(super) fn show(&mut self, what: &str, rows: u64) {
        if self.what != what {
            what.clone_into(&mut self.what);
            self.next = 0;
            self.bar.iter().for_each(|bar| bar.set_message(what.to_owned()));
        }
        match &self.bar {
            Some(bar) => bar.set_position(rows),
            None if rows >= self.next => {
                self.next = rows * 2;
                // The command goes on if standard error is closed.
                let _ = writeln!(io::stderr(), "{what}: {rows}");
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
