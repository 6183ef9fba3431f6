//! The thread that writes the audit log, and its queue.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use crate::audit::Entry;
use crate::audit::file::LogFile;

/// Lines that wait for the disk; who brings more waits with them.
const WAITING_MAX: usize = 1_024;

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// Nowhere.
    Off,
    /// To standard error.
    StandardError,
    /// To a file, which is begun anew when it is full.
    File(PathBuf),
}

/// How much of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Bytes of a file.
    pub bytes_max: u64,
    /// Files, the one that is written included.
    pub files_max: u32,
}

impl Default for AuditSettings {
    /// Some three million lines in all.
    fn default() -> AuditSettings {
        AuditSettings { bytes_max: 64 * 1024 * 1024, files_max: 10 }
    }
}

/// The audit log. What waits is written before the last of its copies is gone.
#[derive(Clone)]
pub struct AuditLog(Option<Arc<Writing>>);

struct Writing {
    queue: Option<mpsc::Sender<Line>>,
    thread: Option<JoinHandle<()>>,
}

struct Line {
    text: String,
    /// Told when it is written, where somebody waits.
    written: Option<oneshot::Sender<()>>,
}

/// Whether to wait until a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    UntilWritten,
    UntilQueued,
}

enum Output {
    StandardError,
    File(LogFile),
}

impl AuditLog {
    /// None.
    pub fn off() -> AuditLog {
        AuditLog(None)
    }

    /// Opens the log and starts its thread.
    pub fn start(target: AuditTarget, settings: AuditSettings) -> io::Result<AuditLog> {
        let output = match target {
            AuditTarget::Off => return Ok(AuditLog::off()),
            AuditTarget::StandardError => Output::StandardError,
            AuditTarget::File(path) => Output::File(LogFile::open(&path, settings)?),
        };
        let (queue, lines) = mpsc::channel(WAITING_MAX);
        let thread = thread::Builder::new().name("audit-log".into());
        let thread = thread.spawn(move || run(output, lines))?;
        Ok(AuditLog(Some(Arc::new(Writing { queue: Some(queue), thread: Some(thread) }))))
    }

    /// Writes a line, in the order in which they are brought.
    pub(crate) async fn write(&self, entry: &Entry, wait: Wait) {
        let Some(queue) = self.0.as_ref().and_then(|writing| writing.queue.as_ref()) else {
            return;
        };
        let (told, written) = match wait {
            Wait::UntilQueued => (None, None),
            Wait::UntilWritten => {
                let (told, written) = oneshot::channel();
                (Some(told), Some(written))
            }
        };
        // A thread that has ended has said why.
        let _ = queue.send(Line { text: entry.line(), written: told }).await;
        if let Some(written) = written {
            let _ = written.await;
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut output: Output, mut lines: mpsc::Receiver<Line>) {
    let mut is_failing = false;
    let mut batch = Vec::new();
    // What waits is written with one call.
    while lines.blocking_recv_many(&mut batch, WAITING_MAX) > 0 {
        let text: String = batch.iter().map(|line| line.text.as_str()).collect();
        let done = match &mut output {
            Output::StandardError => io::stderr().write_all(text.as_bytes()),
            Output::File(file) => file.write(&text),
        };
        // Said once: what fills a disk would otherwise fill another.
        if let Some(error) = done.as_ref().err().filter(|_| !is_failing) {
            let _ = writeln!(io::stderr(), "the audit log cannot be written: {error}");
        }
        is_failing = done.is_err();
        for line in batch.drain(..) {
            line.written.map(|written| written.send(()));
        }
    }
}
