//! `kalends job create`.

use std::path::PathBuf;

use http::Method;
use kalends_recurrence::Instant;
use kalends_wire::{Json, Version, merge_patch};

use super::definition_flags::{DefinitionFlags, prevent_immediate_run};
use super::input::read_definition;
use super::preview::print_preview;
use crate::api::Call;
use crate::error::{CliError, Refusal};
use crate::json::{JsonMembers as _, member_mut, object, set};
use crate::output::{date_time, printable};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Create a job
///
/// A job never runs at once, unless --now is given: its first run is the next match of --cron, the next
/// occurrence of --every, or the time of --start or --in. Other actions than HTTP requests, such as queue
/// messages, are written as JSON (-f). The collection is created if there is none.
///
/// Examples:
///   kalends job create nightly --cron "30 2 * * *" --zone Europe/Berlin \
///     --post https://example.com/export --retry 4x30s --on-failure https://example.com/alert
///   kalends job create web/ping --every 5min --get https://example.com/health
///   kalends job create reminder --in 10m --post https://example.com/remind --body @message.json
///   kalends job create export -f export.json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,

    /// File with the JSON of the job; - for standard input. Flags change it
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only check the job and print its first runs
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    flags: Box<DefinitionFlags>,

    /// Run the job at once, in addition to its schedule
    #[arg(long, conflicts_with_all = ["start", "start_in", "disabled"], help_heading = "Schedule")]
    now: bool,

    /// Create the job disabled
    #[arg(long, help_heading = "Schedule")]
    disabled: bool,
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let job = JobRef::parse(&arguments.job, &session.collection)?;
    let now = Instant::from(session.clock.now()).whole_second();
    let body = arguments.body(now)?;
    let path = session.api.job(&job);
    if arguments.dry_run {
        if session.api.get(&path).is_ok() {
            return Err(already_exists(&job));
        }
        let call = Call::new(Method::POST, format!("{path}/preview")).body(&body);
        return print_preview(&session.api.send(&call)?.body, &job, session);
    }
    let call = Call::new(Method::PUT, &path).body(&body).if_absent();
    let created = match session.api.send(&call) {
        Ok(created) => created.body,
        Err(CliError::Refused(refusal)) if refusal.status == 412 => {
            return Err(already_exists(&job));
        }
        Err(error) => return Err(error),
    };
    let is_cron = created.at("properties.recurrence.cron").is_some();
    if arguments.now && is_cron {
        session.api.send(&Call::new(Method::POST, format!("{path}/run")))?;
    }
    let next = match (arguments.now, created.text("properties.status.nextExecutionTime")) {
        (true, _) => "; it runs now".to_owned(),
        (false, "") => String::new(),
        (false, time) => format!("; next run {}", printable(&date_time(time, &session.output))),
    };
    let name = job.to_string();
    session.output.done(&format!("job {job} created{next}"), &name, Some(&created))
}

impl Arguments {
    /// The body of the request.
    fn body(&self, now: Instant) -> Result<Json<'static>, CliError> {
        let mut body = match &self.file {
            Some(path) => read_definition(path)?,
            None if self.flags.has_request() => object([("properties", object([]))]),
            None => {
                return Err(CliError::usage(
                    "the job has no action; give a URL with --get, --post, --put or --delete, or a \
                     definition with -f",
                ));
            }
        };
        let patch = object([("properties", self.flags.patch(now)?)]);
        body = merge_patch(body, patch, Version::V2026_11_01);
        if let Some(properties) = member_mut(&mut body, "properties") {
            if self.disabled {
                set(properties, "state", "Disabled".into());
            }
            // --count, --end and --zone alone are no repetition.
            let recurrence = properties.at("recurrence");
            let is_single = recurrence.is_some_and(|recurrence| {
                recurrence.at("cron").is_none() && recurrence.at("frequency").is_none()
            });
            if is_single && self.file.is_none() {
                crate::json::remove(properties, "recurrence");
            }
            match self.now {
                true => {
                    crate::json::remove(properties, "startTime");
                }
                false => prevent_immediate_run(properties, now)?,
            }
        }
        Ok(body)
    }
}

fn already_exists(job: &JobRef) -> CliError {
    CliError::Refused(Refusal {
        status: 409,
        code: String::new(),
        message: format!("the job {job} exists already; `kalends job edit {job}` changes it"),
        request_id: None,
    })
}
