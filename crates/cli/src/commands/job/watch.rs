//! `kalends job watch` and `kalends run watch`: attempts and runs as they end.

use kalends_wire::Json;

use super::run::job_of_entry;
use crate::api::{Event, EventFilter};
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Format, Output, Style, printable};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Longest message of a line, in characters; `-o wide` shows all of it.
const MESSAGE_CHARACTERS_MAX: usize = 100;

/// Print attempts and runs as they end, until interrupted
///
/// -o json prints one JSON object per line.
///
/// Examples:
///   kalends job watch
///   kalends job watch nightly
///   kalends job watch -c web -o json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(in crate::commands) struct Arguments {
    /// Names of jobs [default: all jobs, or those of --collection]
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,

    /// Stop after this number of events
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

pub(in crate::commands) fn run(
    arguments: &Arguments,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let jobs = JobRef::parse_all(&arguments.jobs, &session.collection)?;
    for job in &jobs {
        session.api.get(&session.api.job(job))?;
    }
    let filter = match jobs.as_slice() {
        [] => EventFilter { collection: session.only_collection().map(str::to_owned), job: None },
        [job] => {
            EventFilter { collection: Some(job.collection.clone()), job: Some(job.job.clone()) }
        }
        _ => EventFilter::default(),
    };
    let mut stream = session.api.events(filter)?;
    session.output.note("watching; press Ctrl-C to stop");
    let mut left = arguments.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let Event { kind, data } = stream.next()?;
        let data = data.unwrap_or(Json::Null);
        match kind.as_str() {
            "attempt" | "postponed" | "occurrence" => {}
            "end" => {
                return Err(CliError::Failure("the token expired or was revoked".to_owned()));
            }
            "gap" => {
                session.output.note("some events are missing");
                continue;
            }
            _ => continue,
        }
        let name = match kind.as_str() {
            "occurrence" => data.text("jobName").to_owned(),
            _ => job_of_entry(&data),
        };
        let is_wanted = |job: &JobRef| job.to_string().eq_ignore_ascii_case(&name);
        if !jobs.is_empty() && !jobs.iter().any(is_wanted) {
            continue;
        }
        let text = line(&kind, &name, &data, &session.output);
        session.output.line(&data, &name, &text)?;
        left -= 1;
    }
    Ok(())
}

/// One line for an event.
fn line(kind: &str, name: &str, data: &Json<'static>, output: &Output) -> String {
    let (time, state, detail) = match kind {
        "occurrence" => {
            let count = data.integer("count");
            let count = if count > 1 { format!(", {count} occurrences") } else { String::new() };
            let cause = match data.text("cause") {
                "Manual" => "manual run".to_owned(),
                _ => format!("scheduled {}", output.absolute(data.text("scheduledTime"))),
            };
            (data.text("decidedTime"), data.text("disposition"), format!("{cause}{count}"))
        }
        _ => {
            let entry = |member: &str| data.text(&format!("properties.{member}"));
            let retry = match data.integer("properties.retryCount") {
                0 => String::new(),
                number => format!("retry {number}: "),
            };
            let role = if entry("actionName") == "ErrorAction" { "error action: " } else { "" };
            let detail = format!("{role}{retry}{}", message(entry("message"), output));
            (entry("endTime"), entry("status"), detail)
        }
    };
    let kind = if kind == "occurrence" { "run" } else { kind };
    let state = output.styled(&format!("{state:<14}"), Style::of_state(state));
    let time = output.absolute(time);
    format!("{time}  {:<24}  {kind:<9}  {state}  {}", printable(name), printable(&detail))
        .trim_end()
        .to_owned()
}

/// The message in one line, cut unless the output is wide.
fn message(text: &str, output: &Output) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if output.format == Format::Wide || line.chars().count() <= MESSAGE_CHARACTERS_MAX {
        return line;
    }
    let cut: String = line.chars().take(MESSAGE_CHARACTERS_MAX - 1).collect();
    format!("{cut}…")
}
