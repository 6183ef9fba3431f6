//! `kalends job notes`: what users did to jobs, and why.

use http::Method;
use kalends_wire::Json;

use crate::api::Call;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Cell, Column};
use crate::resource_name::JobRef;
use crate::session::Session;

/// List the notes that users gave with changes and runs of jobs, newest first
///
/// Examples:
///   kalends job disable nightly --note "target moves on Friday"
///   kalends job notes nightly
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,

    /// Maximum number of notes of each job
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

const COLUMNS: [Column; 5] = [
    Column::new("JOB", |note, _| Cell::new(job_of(note))),
    Column::new("TIME", |note, output| Cell::new(output.absolute(note.text("time")))),
    Column::new("ACTION", |note, _| Cell::new(note.text("action"))),
    Column::new("BY", |note, _| match note.text("byName") {
        "" => Cell::new(note.text("by")),
        name => Cell::new(name),
    }),
    Column::new("NOTE", |note, _| Cell::new(note.text("note"))),
];

fn job_of(note: &Json<'static>) -> String {
    format!("{}/{}", note.text("collection"), note.text("job"))
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let mut notes = Vec::new();
    for job in JobRef::parse_all(&arguments.jobs, &session.collection)? {
        let call = Call::new(Method::GET, format!("{}/notes", session.api.job(&job)))
            .query("$top", arguments.limit.clamp(1, 100).to_string());
        notes.extend(session.api.list(call, arguments.limit, |_| ())?);
    }
    session.output.list(notes, &COLUMNS, job_of)
}
