//! `kalends pause` and `kalends resume`: all jobs of a server.

use http::Method;
use kalends_environment::Clock;
use kalends_wire::Json;

use super::job::definition_flags::duration;
use super::note::NoteArgument;
use crate::api::Call;
use crate::error::CliError;
use crate::json::{JsonMembers as _, object, set};
use crate::output::{Output, date_time};
use crate::session::{Session, SessionArguments};

/// Pause all jobs of the server
///
/// Attempts in flight finish. Recurring occurrences that come due during the pause are skipped; everything
/// else runs when it ends. A second pause replaces reason and end.
///
/// Examples:
///   kalends pause --reason "database upgrade" --for 2h
///   kalends resume
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct PauseArguments {
    /// Reason, shown where users ask why a job does not run
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// End of the pause; without an offset in the time zone of this machine [default: until resume]
    #[arg(long, value_name = "TIME", conflicts_with = "duration")]
    until: Option<String>,

    /// Length of the pause, such as 2h
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,

    #[command(flatten)]
    session: SessionArguments,
}

/// End the pause of all jobs
#[derive(clap::Args)]
pub struct ResumeArguments {
    #[command(flatten)]
    note: NoteArgument,

    #[command(flatten)]
    session: SessionArguments,
}

pub(super) fn pause(arguments: &PauseArguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = Session::new(&arguments.session, clock)?;
    let until = match (&arguments.until, &arguments.duration) {
        (Some(text), _) => Some(session.time("--until", text)?),
        (None, Some(text)) => Some(session.output.now.saturating_add(duration("--for", text)?)),
        (None, None) => None,
    };
    let mut body = object([("reason", arguments.reason.clone().into())]);
    if let Some(until) = until {
        set(&mut body, "until", until.into());
    }
    let pause = session.api.send(&Call::new(Method::POST, "/api/pause").body(&body))?.body;
    let state = describe(&pause, &session.output).unwrap_or_default();
    session.output.done(&format!("all jobs are {state}"), "paused", Some(&pause))
}

pub(super) fn resume(arguments: &ResumeArguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = Session::new(&arguments.session, clock)?;
    let before = session.api.get("/api/pause")?.body;
    let call = arguments.note.add_to(Call::new(Method::POST, "/api/resume"));
    let after = session.api.send(&call)?.body;
    let sentence = match describe(&before, &session.output) {
        Some(_) => "all jobs resumed",
        None => "all jobs were not paused",
    };
    session.output.done(sentence, "resumed", Some(&after))
}

/// `paused until …: reason (since …, by …)`; `None` if the server is not paused.
pub(super) fn describe(pause: &Json<'static>, output: &Output) -> Option<String> {
    if pause.at("paused") != Some(&Json::Bool(true)) {
        return None;
    }
    let until = match pause.text("until") {
        "" => String::new(),
        until => format!(" until {}", date_time(until, output)),
    };
    let (reason, since) = (pause.text("reason"), output.absolute(pause.text("since")));
    Some(format!("paused{until}: {reason} (since {since}, by {})", pause.text("by")))
}
