//! `kalends apply` and `kalends diff`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::apply::{ChangeKind, Plan, PlanError, Prune, execute, plan, show, summary, to_json};
use crate::definitions::{DefinitionSet, FileErrors, read_definitions};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::session::{Session, SessionArguments};

/// Make jobs equal to their definitions in files
///
/// Reads YAML, JSON (comments and trailing commas are allowed) and ARM templates, prints the
/// difference to the server, and changes only jobs that differ. It starts no run: an absent
/// startTime or state keeps the stored one, a new recurring job starts with its next match.
///
/// Examples:
///   kalends apply -f jobs/
///   kalends apply -f web.yaml --dry-run
///   kalends apply -f jobs/ --prune --yes
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    files: Files,

    /// Only print the difference
    #[arg(long)]
    dry_run: bool,

    /// Delete jobs with --prune without asking
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    session: SessionArguments,
}

/// Compare jobs with their definitions in files
///
/// Prints what `kalends apply` would change. The exit status is 0 if nothing would change, 1 if
/// something would, and greater for errors.
#[derive(clap::Args)]
pub struct DiffArguments {
    #[command(flatten)]
    files: Files,

    #[command(flatten)]
    session: SessionArguments,
}

#[derive(clap::Args)]
struct Files {
    /// File or directory with definitions; may be repeated
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    files: Vec<PathBuf>,

    /// Delete jobs of the collections in the files that no file has
    #[arg(long)]
    prune: bool,
}

impl Files {
    fn prune(&self) -> Prune {
        if self.prune { Prune::Delete } else { Prune::Keep }
    }
}

pub(super) fn run(arguments: &Arguments, clock: &dyn Clock) -> Result<ExitStatus, CliError> {
    let definitions = read_definitions(&arguments.files.files).map_err(invalid)?;
    let session = Session::new(&arguments.session, clock)?;
    let options = ApplyOptions {
        prune: arguments.files.prune(),
        is_dry_run: arguments.dry_run,
        is_confirmed: arguments.yes,
    };
    apply(&session, &definitions, options)
}

/// Options of an apply.
pub(super) struct ApplyOptions {
    pub(super) prune: Prune,
    pub(super) is_dry_run: bool,
    /// Whether jobs are deleted without a question.
    pub(super) is_confirmed: bool,
}

pub(super) fn apply(
    session: &Session<'_>,
    definitions: &DefinitionSet,
    options: ApplyOptions,
) -> Result<ExitStatus, CliError> {
    let plan = compare(session, definitions, options.prune)?;
    match session.output.is_quiet && !options.is_dry_run {
        true => print_summary(session, &plan)?,
        false => print(session, &plan)?,
    }
    if options.is_dry_run {
        session.output.note("Nothing was changed (--dry-run).");
        return Ok(ExitStatus::Success);
    }
    if plan.changes.is_empty() {
        return Ok(ExitStatus::Success);
    }
    let deletions = plan.changes.iter().filter(|change| change.kind == ChangeKind::Delete).count();
    if deletions > 0 && !options.is_confirmed {
        confirm(deletions)?;
    }
    execute(&session.api, &session.output, &plan)?;
    session.output.note("Applied.");
    Ok(ExitStatus::Success)
}

pub(super) fn diff(arguments: &DiffArguments, clock: &dyn Clock) -> Result<ExitStatus, CliError> {
    let definitions = read_definitions(&arguments.files.files).map_err(invalid)?;
    let session = Session::new(&arguments.session, clock)?;
    let plan = compare(&session, &definitions, arguments.files.prune())?;
    print(&session, &plan)?;
    Ok(if plan.changes.is_empty() { ExitStatus::Success } else { ExitStatus::Failure })
}

fn compare(
    session: &Session<'_>,
    definitions: &DefinitionSet,
    prune: Prune,
) -> Result<Plan, CliError> {
    let now = Instant::from(session.clock.now());
    plan(&session.api, &session.output, definitions, prune, now).map_err(|error| match error {
        PlanError::Definitions(errors) => invalid(errors),
        PlanError::Client(error) => error,
    })
}

/// The error of invalid definitions: one line for each problem.
pub(super) fn invalid(errors: FileErrors) -> CliError {
    CliError::usage(format!("invalid definitions, nothing was changed\n{errors}"))
}

fn print(session: &Session<'_>, plan: &Plan) -> Result<(), CliError> {
    session.output.value(&to_json(plan), "", |output| {
        show(plan, &session.output, output)?;
        writeln!(output, "{}", summary(plan))
    })
}

/// Prints the numbers of changes only.
fn print_summary(session: &Session<'_>, plan: &Plan) -> Result<(), CliError> {
    session.output.value(&to_json(plan), "", |output| writeln!(output, "{}", summary(plan)))
}

fn confirm(deletions: usize) -> Result<(), CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "--prune would delete {deletions} jobs; confirm it with --yes"
        )));
    }
    let mut stderr = io::stderr();
    write!(stderr, "Delete {deletions} jobs with their history? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::usage("not confirmed; nothing was changed")),
    }
}
