//! `kalends job explain`: why a job runs or does not run.

use http::Method;
use kalends_recurrence::Instant;

use crate::api::Call;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{date_time, printable};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Explain why a job is not running now, or what happened at a time
///
/// Examples:
///   kalends job explain nightly
///   kalends job explain nightly --at 2026-11-16T02:30
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(in crate::commands) struct Arguments {
    /// Name of the job
    #[arg(value_name = "JOB")]
    pub(in crate::commands) job: String,

    /// Time to explain; without an offset in the time zone of this machine [default: now]
    #[arg(long, value_name = "TIME")]
    pub(in crate::commands) at: Option<String>,
}

pub(in crate::commands) fn run(
    arguments: &Arguments,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let job = JobRef::parse(&arguments.job, &session.collection)?;
    let at = arguments.at.as_deref().map(|text| session.time("--at", text)).transpose()?;
    let path = format!("{}/explain", session.api.job(&job));
    let call = Call::new(Method::GET, path).query_some("at", at.map(|at| at.to_string()));
    let body = session.api.send(&call)?.body;
    let output = &session.output;
    output.value(&body, &job.to_string(), |to| {
        writeln!(to, "{}", printable(body.text("explanation")))?;
        for (name, label) in [
            ("occurrence", "occurrence"),
            ("previousOccurrence", "previous occurrence"),
            ("nextOccurrence", "next occurrence"),
        ] {
            if !body.text(name).is_empty() {
                writeln!(to, "{label:<20}{}", date_time(body.text(name), output))?;
            }
        }
        for note in body.items("notes") {
            if let kalends_wire::Json::String(note) = note {
                writeln!(to, "note: {}", printable(note))?;
            }
        }
        for entry in body.items("history") {
            let message = entry.text("properties.message").lines().next().unwrap_or_default();
            let status = entry.text("properties.status");
            let time = output.absolute(entry.text("properties.startTime"));
            writeln!(to, "attempt {time} {status}: {}", printable(message))?;
        }
        Ok(())
    })
}

impl Session<'_> {
    /// Parses a time; without an offset it is a wall time of the user.
    pub(crate) fn time(&self, flag: &str, text: &str) -> Result<Instant, CliError> {
        Instant::parse_in(text, &self.output.zone)
            .map_err(|error| CliError::usage(format!("{flag} {error} (found {text:?})")))
    }
}
