//! `kalends job preview`: the effect of saving a definition.

use std::path::PathBuf;

use http::Method;
use kalends_wire::Json;

use super::input::read_definition;
use crate::api::Call;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{date_time, printable};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Show what saving a definition would do, without saving it
///
/// Prints whether it creates or changes the job, the schedule in words, the next runs, and waiting runs
/// that it supersedes. `kalends job edit --dry-run` shows the same for changes by flags.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,

    /// File with the JSON of the job; - for standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let job = JobRef::parse(&arguments.job, &session.collection)?;
    let body = read_definition(&arguments.file)?;
    let path = format!("{}/preview", session.api.job(&job));
    let preview = session.api.send(&Call::new(Method::POST, path).body(&body))?.body;
    print_preview(&preview, &job, session)
}

/// Prints a preview.
pub(super) fn print_preview(
    preview: &Json<'static>,
    job: &JobRef,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let output = &session.output;
    output.value(preview, &job.to_string(), |to| {
        let effect = match preview.text("effect") {
            "Create" => "would be created",
            "Replace" => "would change",
            _ => "would not change",
        };
        writeln!(to, "job {job} {effect}; state {}", printable(preview.text("state")))?;
        writeln!(to, "{}", printable(preview.text("description")))?;
        let times = |name: &str| preview.items(name).iter().filter_map(text_of).collect::<Vec<_>>();
        for (heading, times) in
            [("next runs", times("occurrences")), ("superseded runs", times("superseded"))]
        {
            if !times.is_empty() {
                writeln!(to, "{heading}:")?;
            }
            for time in times {
                writeln!(to, "  {}", printable(&date_time(time, output)))?;
            }
        }
        for note in times("notes") {
            writeln!(to, "note: {}", printable(note))?;
        }
        Ok(())
    })
}

fn text_of<'a>(value: &'a Json<'static>) -> Option<&'a str> {
    match value {
        Json::String(text) => Some(text),
        _ => None,
    }
}
