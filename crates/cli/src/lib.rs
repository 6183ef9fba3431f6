//! The command line client: commands that use a server through its public REST API, and conversions of
//! job definitions between files and the API. It has no access to the store or the engine.
//!
//! [`Command`] is the command line, [`execute`] executes it. A `Session` has the server that the user
//! selected (`Api`) and the output format. Commands are in `commands`, one file each. `definitions` reads
//! and writes files, `import` converts jobs of other schedulers, `apply` compares both with a server.

mod api;
mod apply;
mod commands;
mod context;
mod definitions;
mod error;
mod exit_status;
mod import;
mod json;
mod output;
mod resource_name;
mod schedule_flags;
mod session;
mod target;

use std::io::Write as _;

pub use commands::{Command, execute};
pub use error::{CliError, Refusal};
pub use exit_status::ExitStatus;
pub use schedule_flags::ScheduleFlags;

/// Prints an error and the next step to standard error.
pub fn report(message: &str, hint: Option<&str>) {
    let mut stderr = std::io::stderr();
    // If standard error is closed there is nowhere left to report to.
    let _ = writeln!(stderr, "error: {}", output::printable(message));
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
}
