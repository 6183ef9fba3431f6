//! The log on standard error: one line for each event.
//!
//! Lines contain no request or response bodies, no header values and no control characters.

mod line;

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use kalends_environment::Clock;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{self, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::log::line::LogLine;

/// Settings of the log.
#[derive(clap::Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogSettings {
    /// Log level: error, warn, info, debug, trace or off. Add MODULE=LEVEL for single modules, such
    /// as info,kalends_server=debug
    #[arg(long, env = "KALENDS_LOG", value_name = "LEVELS", default_value = "info", value_parser = levels)]
    log: Targets,

    /// Format of log lines
    #[arg(long, env = "KALENDS_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: Format,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable, with key=value fields
    Text,
    /// One JSON object per line
    Json,
}

fn levels(text: &str) -> anyhow::Result<Targets> {
    for entry in text.split(',') {
        // Without this check a misspelled level would be taken for a module.
        let level = entry.rsplit('=').next().unwrap_or_default().trim();
        ensure!(
            !level.is_empty() && level.parse::<LevelFilter>().is_ok(),
            "must have levels out of error, warn, info, debug, trace and off (found {level:?})"
        );
    }
    text.parse().context("must be levels such as info,kalends_server=debug")
}

impl LogSettings {
    /// Installs the process-wide log. Only the first call has an effect.
    pub(crate) fn install(self, clock: Arc<dyn Clock>) {
        let writer = LogWriter { format: self.log_format, clock };
        let _ = tracing_subscriber::registry().with(self.log).with(writer).try_init();
    }
}

/// Writes events to standard error.
struct LogWriter {
    format: Format,
    clock: Arc<dyn Clock>,
}

impl<S: Subscriber> Layer<S> for LogWriter {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let line = LogLine::of(event, self.clock.now()).format(self.format);
        // If standard error is closed there is nowhere left to report to.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}
