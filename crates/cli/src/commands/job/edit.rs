//! `kalends job edit`: in an editor, or by flags.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use kalends_environment::{SystemEntropy, new_guid};
use kalends_recurrence::Instant;
use kalends_wire::{Json, Version, merge_patch};

use super::definition_flags::DefinitionFlags;
use super::editable::editable_definition;
use super::input::{parse_definition, read_definition};
use super::preview::print_preview;
use crate::api::{Call, Response};
use crate::commands::note::NoteArgument;
use crate::error::CliError;
use crate::json::{JsonMembers as _, member_mut, object, set};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Change a job in an editor, or by flags
///
/// Without flags, $VISUAL or $EDITOR opens the JSON of the job. Secrets are shown as "${stored}", which
/// keeps the stored value. The effect is shown before the job is saved. Nothing is saved if another user
/// changed the job meanwhile. An edit never starts a run.
///
/// Examples:
///   kalends job edit nightly
///   kalends job edit nightly --cron "0 3 * * *" --retry 2x1m
///   kalends job edit nightly --timeout 5m --dry-run
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,

    /// File with the new JSON of the job; - for standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only show the effect
    #[arg(long)]
    dry_run: bool,

    /// Save without asking
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    note: NoteArgument,

    #[command(flatten)]
    flags: Box<DefinitionFlags>,
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let job = JobRef::parse(&arguments.job, &session.collection)?;
    let path = session.api.job(&job);
    let stored = session.api.get(&path)?;
    if let Some(file) = &arguments.file {
        let body = read_definition(file)?;
        return save(&job, &stored, &body, arguments, Ask::Never, session);
    }
    if arguments.flags.is_given()? {
        return edit_by_flags(&job, &stored, arguments, session);
    }
    edit_in_editor(&job, &stored, arguments, session)
}

/// Members of a schedule, which a patch would otherwise keep.
const SCHEDULE_MEMBERS: [&str; 6] =
    ["minutes", "hours", "weekDays", "monthDays", "monthlyOccurrences", "months"];

/// Whether the user confirms a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    OnTerminal,
    Never,
}

fn edit_by_flags(
    job: &JobRef,
    stored: &Response,
    arguments: &Arguments,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let now = Instant::from(session.clock.now()).whole_second();
    let mut properties = arguments.flags.patch(now)?;
    // A new pattern replaces the former one; a cron expression and an interval replace each other.
    if let Some(recurrence) = member_mut(&mut properties, "recurrence")
        && recurrence.at("frequency").is_some()
    {
        match member_mut(recurrence, "schedule") {
            None => set(recurrence, "schedule", Json::Null),
            Some(schedule) => {
                for name in SCHEDULE_MEMBERS {
                    if schedule.at(name).is_none() {
                        set(schedule, name, Json::Null);
                    }
                }
            }
        }
    }
    let patch = object([("properties", properties)]);
    let path = session.api.job(job);
    if arguments.dry_run {
        let body = merge_patch(editable_definition(&stored.body), patch, Version::V2026_11_01);
        let call = Call::new(Method::POST, format!("{path}/preview")).body(&body);
        return print_preview(&session.api.send(&call)?.body, job, session);
    }
    let call = Call::new(Method::PATCH, path).body(&patch).if_match(stored.etag.as_deref());
    let edited = session.api.send(&arguments.note.add_to(call))?.body;
    session.output.done(&format!("job {job} changed"), &job.to_string(), Some(&edited))
}

fn edit_in_editor(
    job: &JobRef,
    stored: &Response,
    arguments: &Arguments,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let before = serde_json::to_string_pretty(&editable_definition(&stored.body));
    let before = before.map_err(io::Error::from)? + "\n";
    let folder = TemporaryFolder::create()?;
    let file = folder.path.join(format!("{}.json", job.job));
    fs::write(&file, &before).map_err(CliError::file(&file))?;
    loop {
        open_editor(&file)?;
        let text = fs::read_to_string(&file).map_err(CliError::file(&file))?;
        if text == before {
            return session.output.done(&format!("job {job} not changed"), &job.to_string(), None);
        }
        let saved = parse_definition(&text, "the edited definition")
            .and_then(|body| save(job, stored, &body, arguments, Ask::OnTerminal, session));
        match saved {
            Err(error)
                if io::stdin().is_terminal()
                    && error.exit_status() != crate::ExitStatus::Unreachable =>
            {
                crate::report(&error.to_string(), error.hint().as_deref());
                if !confirm("Edit again?")? {
                    return Err(CliError::Failure(format!("job {job} not changed")));
                }
            }
            result => return result,
        }
    }
}

/// Shows the effect of a definition and saves it.
fn save(
    job: &JobRef,
    stored: &Response,
    body: &Json<'static>,
    arguments: &Arguments,
    ask: Ask,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let path = session.api.job(job);
    let etag = stored.etag.as_deref();
    let preview = Call::new(Method::POST, format!("{path}/preview")).body(body).if_match(etag);
    let preview = session.api.send(&preview)?.body;
    let is_asked = ask == Ask::OnTerminal && io::stdin().is_terminal() && !arguments.yes;
    if arguments.dry_run || (session.output.is_table() && !session.output.is_quiet) {
        print_preview(&preview, job, session)?;
    }
    if arguments.dry_run {
        return Ok(());
    }
    if is_asked && !confirm("Save?")? {
        return Err(CliError::Failure(format!("job {job} not changed")));
    }
    let call = Call::new(Method::PUT, path).body(body).if_match(etag);
    let edited = session.api.send(&arguments.note.add_to(call))?.body;
    session.output.done(&format!("job {job} changed"), &job.to_string(), Some(&edited))
}

fn open_editor(file: &Path) -> Result<(), CliError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let editor = editor.unwrap_or_else(|| OsString::from("vi"));
    // An editor may have arguments, as in `code --wait`, so the shell starts it, as git does.
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let status = Command::new("sh").arg("-c").arg(script).arg("sh").arg(file).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(CliError::Failure(format!(
            "the editor {} failed ({status}); set EDITOR, or use flags or -f",
            editor.display()
        ))),
    }
}

fn confirm(question: &str) -> Result<bool, CliError> {
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// A directory that only this user can read, deleted when dropped: definitions may contain secrets.
struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    fn create() -> Result<TemporaryFolder, CliError> {
        let name = new_guid(&SystemEntropy);
        let path = std::env::temp_dir().join(format!("kalends-{name}"));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(CliError::file(&path))?;
        Ok(TemporaryFolder { path })
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The directory of temporary files is cleaned up anyway.
        let _ = fs::remove_dir_all(&self.path);
    }
}
