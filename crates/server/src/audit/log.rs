//! The thread that writes the audit log, and its queue.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use kalends_recurrence::Instant;
use kalends_wire::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use crate::audit::AuditEntry;
use crate::audit::file::LogFile;
use crate::audit::refusals::{Refusals, Windows};

/// Queued lines. Requests that add more wait for the disk.
const QUEUE_MAX: usize = 1_024;

/// Destination of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// No audit log.
    Off,
    /// Standard error.
    StandardError,
    /// A file with rotation.
    File(PathBuf),
}

/// Rotation of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Bytes of a file before it is rotated.
    pub bytes_max: u64,
    /// Files to retain, including the current one.
    pub files_max: u32,
}

impl Default for AuditSettings {
    /// 640 MiB, about three million lines.
    fn default() -> AuditSettings {
        AuditSettings { bytes_max: 64 * 1024 * 1024, files_max: 10 }
    }
}

/// The audit log. Dropping the last clone writes the queued lines and ends the thread.
#[derive(Clone)]
pub struct AuditLog(Option<Arc<Writer>>);

struct Writer {
    refusals: Mutex<Refusals>,
    queue: Option<mpsc::Sender<Line>>,
    thread: Option<JoinHandle<()>>,
}

struct Line {
    text: String,
    /// Notified when the line is written, if its request waits for that.
    written: Option<oneshot::Sender<()>>,
}

/// How long a request waits for its line.
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
    /// Discards all entries.
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
        let (queue, lines) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new().name("audit-log".into());
        let thread = thread.spawn(move || run(output, lines))?;
        let refusals = Mutex::default();
        let writer = Writer { refusals, queue: Some(queue), thread: Some(thread) };
        Ok(AuditLog(Some(Arc::new(writer))))
    }

    /// Writes the entry of a request that was refused before its permission was checked, if it is
    /// the first of its source and reason, and counts it otherwise.
    pub(crate) async fn write_refusal(
        &self,
        source: Arc<str>,
        reason: ErrorCode,
        entry: AuditEntry,
    ) {
        let Some(writer) = &self.0 else { return };
        let first = writer.refusals().add(source, reason, entry);
        if let Some(first) = first {
            self.write(&first, Wait::UntilQueued).await;
        }
    }

    /// Writes the counts of refused requests.
    pub(crate) async fn write_refusal_counts(&self, now: Instant, which: Windows) {
        let Some(writer) = &self.0 else { return };
        let counts = writer.refusals().take_counts(now, which);
        let wait = match which {
            Windows::Ended => Wait::UntilQueued,
            Windows::All => Wait::UntilWritten,
        };
        for count in counts {
            self.write(&count, wait).await;
        }
    }

    /// Writes an entry. Lines are written in the order of the calls.
    pub(crate) async fn write(&self, entry: &AuditEntry, wait: Wait) {
        let Some(queue) = self.0.as_ref().and_then(|writer| writer.queue.as_ref()) else {
            return;
        };
        let (notify, written) = match wait {
            Wait::UntilQueued => (None, None),
            Wait::UntilWritten => {
                let (notify, written) = oneshot::channel();
                (Some(notify), Some(written))
            }
        };
        // Fails only if the thread has ended.
        let _ = queue.send(Line { text: entry.line(), written: notify }).await;
        if let Some(written) = written {
            let _ = written.await;
        }
    }
}

impl Writer {
    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writer {
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
    // All queued lines are written with one call.
    while lines.blocking_recv_many(&mut batch, QUEUE_MAX) > 0 {
        let text: String = batch.iter().map(|line| line.text.as_str()).collect();
        let result = match &mut output {
            Output::StandardError => io::stderr().write_all(text.as_bytes()),
            Output::File(file) => file.write(&text),
        };
        // Logged once for a series of failures, not for each line.
        match &result {
            Err(error) if !is_failing => tracing::error!(%error, "writing the audit log failed"),
            Ok(()) if is_failing => tracing::info!("writing the audit log recovered"),
            _ => {}
        }
        is_failing = result.is_err();
        for line in batch.drain(..) {
            line.written.map(|written| written.send(()));
        }
    }
}
