//! The log: a line for each thing that an operator may want to know, on standard error.
//!
//! A line never holds what was sent to the service or to a target, and never a control character.

mod line;

use std::io::Write as _;
use std::sync::Arc;

use clap::ValueEnum;
use kalends_environment::Clock;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::log::line::Line;

/// The log.
#[derive(clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogSettings {
    /// How much is told: error, warn, info, debug, trace or off, and for single parts PART=LEVEL,
    /// such as info,kalends_server=debug
    #[arg(long, env = "KALENDS_LOG", value_name = "LEVELS", default_value = "info", value_parser = levels)]
    log: Targets,

    /// How a line looks
    #[arg(long, env = "KALENDS_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: Format,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

fn levels(text: &str) -> Result<Targets, String> {
    text.parse().map_err(|_| "expected levels such as info,kalends_server=debug".to_owned())
}

impl LogSettings {
    /// Begins the log of this process. The first that does so holds.
    pub(crate) fn begin(self, clock: Arc<dyn Clock>) {
        let lines = Lines { format: self.log_format, clock };
        let _ = tracing_subscriber::registry().with(self.log).with(lines).try_init();
    }
}

struct Lines {
    format: Format,
    clock: Arc<dyn Clock>,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = Line::of(event, self.clock.now()).written(self.format);
        // Nothing more can be done where even this cannot be written.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}
