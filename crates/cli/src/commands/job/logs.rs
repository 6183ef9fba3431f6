//! `kalends job logs`: the attempts of a job with their messages.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use http::Method;
use kalends_wire::Json;

use crate::api::{Call, Event, EventFilter};
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Output, Style, printable};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Print the attempts of a job with their messages, oldest first
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,

    /// Number of attempts to print
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Only failed attempts
    #[arg(long)]
    failed: bool,

    /// Continue with new attempts until interrupted
    #[arg(long)]
    follow: bool,
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let job = JobRef::parse(&arguments.job, &session.collection)?;
    let filter =
        EventFilter { collection: Some(job.collection.clone()), job: Some(job.job.clone()) };
    // Open before the history is read, so that no attempt is missed between them.
    let stream = arguments.follow.then(|| session.api.events(filter)).transpose()?;
    let status = arguments.failed.then_some("failed");
    let mut entries = session.history(&job, status, arguments.limit)?;
    entries.reverse();
    let mut printed: BTreeSet<_> =
        entries.iter().map(|entry| entry.text("name").to_owned()).collect();
    for entry in &entries {
        print(entry, &session.output)?;
    }
    let Some(mut stream) = stream else { return Ok(()) };
    loop {
        let Event { kind, data: Some(entry) } = stream.next()? else { continue };
        let is_entry = matches!(kind.as_str(), "attempt" | "postponed");
        let is_wanted = !arguments.failed || entry.text("properties.status") == "Failed";
        if is_entry && is_wanted && printed.insert(entry.text("name").to_owned()) {
            print(&entry, &session.output)?;
        }
    }
}

impl Session<'_> {
    /// The newest history entries of a job, newest first.
    pub(crate) fn history(
        &self,
        job: &JobRef,
        status: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Json<'static>>, CliError> {
        let filter = match status.map(str::to_ascii_lowercase).as_deref() {
            None => None,
            Some("failed") => Some("status eq 'Failed'"),
            Some("completed") => Some("status eq 'Completed'"),
            Some("postponed") => Some("status eq 'Postponed'"),
            Some(other) => {
                return Err(CliError::usage(format!(
                    "--status must be completed, failed or postponed (found {other:?})"
                )));
            }
        };
        let path = format!("{}/history", self.api.job(job));
        let call = Call::new(Method::GET, path)
            .query_some("$filter", filter)
            .query("$top", limit.clamp(1, 100).to_string());
        self.api.list(call, limit, |_| ())
    }
}

fn print(entry: &Json<'static>, output: &Output) -> Result<(), CliError> {
    if !output.is_table() {
        return output.line(entry, entry.text("name"), "");
    }
    let member = |name: &str| entry.text(&format!("properties.{name}"));
    let status = member("status");
    let retry = match entry.integer("properties.retryCount") {
        0 => String::new(),
        number => format!("  retry {number}"),
    };
    let role = if member("actionName") == "ErrorAction" { "  error action" } else { "" };
    let heading = output.styled(status, Style::of_state(status));
    let mut to = io::stdout().lock();
    writeln!(to, "{}  {heading}{role}{retry}", output.absolute(member("startTime")))?;
    for line in printable(member("message")).lines() {
        writeln!(to, "    {line}")?;
    }
    Ok(to.flush()?)
}
