//! `kalends import`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kalends_domain::CollectionName;
use kalends_environment::Clock;
use kalends_recurrence::{Instant, Zone};
use kalends_wire::Json;

use super::apply::{ApplyOptions, apply, invalid};
use super::export::{session_arguments, write_file};
use crate::apply::Prune;
use crate::definitions::{
    DefinitionSet, FileError, FileErrors, definition_of, read_documents, read_text,
};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::import::{
    CrontabForm, Import, ImportOptions, ImportedJob, RUNS_SHOWN, UrlTemplate, arm,
    import_cloud_scheduler, import_crontab, import_eventbridge, import_kubernetes,
};
use crate::json::{object, remove};
use crate::output::printable;
use crate::session::Session;
use crate::target::ServerArguments;

/// Convert jobs of other schedulers
///
/// Prints the next runs of each job by the rules of its source beside those of Kalends, and
/// lists what has no equivalent. Imported jobs do not run at once.
///
/// Examples:
///   kalends import arm azuredeploy.json -o jobs/
///   kalends import crontab /etc/crontab --url-template 'https://run.example.com/{name}'
///   kalends import kubernetes cronjobs.yaml --url-template 'https://run.example.com/{name}' --apply
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Source of the files
    #[arg(value_enum)]
    source: Source,

    /// Files to convert; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// URL of jobs whose source runs a command, a container or a cloud target, with the
    /// placeholders {name} and {command}
    #[arg(long, value_name = "URL")]
    url_template: Option<UrlTemplate>,

    /// Collection of all jobs [default: namespace or group of the source, else default]
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,

    /// Time zone of crontab entries without CRON_TZ, an IANA name [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,

    /// The crontab has a user in each entry [default: for /etc/crontab and files in /etc/cron.d]
    #[arg(long)]
    system: bool,

    /// Directory for the definition files COLLECTION/JOB.yaml
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    out: Option<PathBuf>,

    /// Save the jobs on the server, like `kalends apply`
    #[arg(long, conflicts_with = "out")]
    apply: bool,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,

    /// Print no confirmations and no progress
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// A scheduler whose jobs can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    /// ARM templates and exported Azure Scheduler collections
    Arm,
    /// Crontab of a user or of the system
    Crontab,
    /// Kubernetes CronJobs
    Kubernetes,
    /// EventBridge Scheduler: answers of get-schedule, CloudFormation templates
    Eventbridge,
    /// Google Cloud Scheduler: listings as JSON
    CloudScheduler,
}

pub(super) fn run(arguments: &Arguments, clock: &dyn Clock) -> Result<ExitStatus, CliError> {
    let import = read(arguments, Instant::from(clock.now()))?;
    let mut output = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => {
            serde_json::to_writer_pretty(&mut output, &report_json(&import))
                .map_err(io::Error::from)?;
            writeln!(output)?;
        }
        false => write_report(&import, &mut output)?,
    }
    output.flush()?;
    drop(output);
    let session = || Session::new(&session_arguments(&arguments.server, arguments.quiet), clock);
    if let Some(folder) = &arguments.out {
        for job in &import.jobs {
            let file = folder.join(job.collection.as_str()).join(format!("{}.yaml", job.job));
            write_file(&file, &job.properties)?;
        }
        let (jobs, folder) = (import.jobs.len(), folder.display());
        session()?.output.note(&format!("Wrote {} to {folder}.", number_of_jobs(jobs)));
    }
    if arguments.apply {
        let definitions = definitions(&import.jobs).map_err(invalid)?;
        let options = ApplyOptions { prune: Prune::Keep, is_dry_run: false, is_confirmed: false };
        return apply(&session()?, &definitions, options);
    }
    Ok(ExitStatus::Success)
}

fn read(arguments: &Arguments, now: Instant) -> Result<Import, CliError> {
    let collection = arguments.collection.as_deref().map(CollectionName::new).transpose();
    let collection = collection
        .map_err(|error| CliError::usage(format!("the name of the collection {error}")))?;
    if let Some(zone) = &arguments.time_zone {
        Zone::named(zone).map_err(|error| CliError::usage(format!("the time zone {error}")))?;
    }
    let options = ImportOptions {
        now,
        url_template: arguments.url_template.clone(),
        collection,
        time_zone: arguments.time_zone.clone(),
    };
    let mut import = Import::default();
    for path in &arguments.files {
        read_file(path, arguments, &options, &mut import)
            .map_err(|error| CliError::usage(error.to_string()))?;
    }
    Ok(import)
}

fn read_file(
    path: &Path,
    arguments: &Arguments,
    options: &ImportOptions,
    import: &mut Import,
) -> Result<(), FileError> {
    let convert = match arguments.source {
        Source::Crontab => {
            let is_system = arguments.system
                || path == Path::new("/etc/crontab")
                || path.starts_with("/etc/cron.d");
            let form = if is_system { CrontabForm::System } else { CrontabForm::User };
            let text = read_text(path)?;
            import_crontab(&path.display().to_string(), &text, form, options, import);
            return Ok(());
        }
        Source::Arm => arm::import,
        Source::Kubernetes => import_kubernetes,
        Source::Eventbridge => import_eventbridge,
        Source::CloudScheduler => import_cloud_scheduler,
    };
    let file = read_documents(path)?;
    for document in &file.documents {
        convert(&file.name, document, options, import);
    }
    Ok(())
}

/// The definitions of imported jobs. A start time that only keeps a new job from running at once is left
/// to the plan, so that a repeated import changes nothing.
fn definitions(jobs: &[ImportedJob]) -> Result<DefinitionSet, FileErrors> {
    let mut definitions = DefinitionSet::default();
    let mut errors = Vec::new();
    for job in jobs {
        let mut properties = job.properties.clone();
        if job.has_added_start {
            remove(&mut properties, "startTime");
        }
        match definition_of(&job.collection, &job.job, &job.source, &properties) {
            Ok(definition) => definitions.jobs.push(definition),
            Err(found) => errors.extend(found.0),
        }
        definitions.collections.insert(job.collection.clone());
    }
    if errors.is_empty() { Ok(definitions) } else { Err(FileErrors(errors)) }
}

fn write_report(import: &Import, output: &mut impl Write) -> io::Result<()> {
    for job in &import.jobs {
        let state = if job.is_disabled() { " (Disabled)" } else { "" };
        writeln!(output, "{}/{}{state}  from {}", job.collection, job.job, printable(&job.source))?;
        writeln!(output, "  {}", printable(&job.description))?;
        let width = RUN_WIDTH;
        writeln!(output, "      {:width$}  Kalends", "source")?;
        for number in 0..RUNS_SHOWN {
            let run = |runs: &[Instant]| runs.get(number).map(Instant::to_string);
            let (theirs, ours) = (run(&job.source_runs), run(&job.runs));
            if theirs.is_none() && ours.is_none() {
                break;
            }
            let differs = if theirs == ours { "" } else { "  differs" };
            let [theirs, ours] = [theirs, ours].map(|run| run.unwrap_or_else(|| "-".to_owned()));
            writeln!(output, "  {:>2}  {theirs:width$}  {ours}{differs}", number + 1)?;
        }
        for note in &job.notes {
            writeln!(output, "  * {}", printable(note))?;
        }
        writeln!(output)?;
    }
    if !import.not_carried_over.is_empty() {
        writeln!(output, "Not carried over:")?;
    }
    for entry in &import.not_carried_over {
        let line = format!("  {} ({}): {}", entry.name, entry.source, entry.reason);
        writeln!(output, "{}", printable(&line))?;
    }
    let differing = import.jobs.iter().filter(|job| !job.is_equal()).count();
    writeln!(
        output,
        "{}, {differing} with other runs than their source, {} not carried over",
        number_of_jobs(import.jobs.len()),
        import.not_carried_over.len()
    )
}

/// A number of jobs in words, such as `1 job`.
pub(super) fn number_of_jobs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}

/// Width of a time in a report.
const RUN_WIDTH: usize = 20;

fn report_json(import: &Import) -> Json<'static> {
    let times =
        |times: &[Instant]| Json::Array(times.iter().map(|at| at.to_string().into()).collect());
    let texts = |texts: &[String]| Json::Array(texts.iter().cloned().map(Json::from).collect());
    let job = |job: &ImportedJob| {
        object([
            ("job", format!("{}/{}", job.collection, job.job).into()),
            ("source", job.source.clone().into()),
            ("description", job.description.clone().into()),
            ("sourceRuns", times(&job.source_runs)),
            ("runs", times(&job.runs)),
            ("notes", texts(&job.notes)),
            ("properties", job.properties.clone()),
        ])
    };
    let refused = import.not_carried_over.iter().map(|entry| {
        object([
            ("name", entry.name.clone().into()),
            ("source", entry.source.clone().into()),
            ("reason", entry.reason.clone().into()),
        ])
    });
    object([
        ("jobs", Json::Array(import.jobs.iter().map(job).collect())),
        ("notCarriedOver", Json::Array(refused.collect())),
    ])
}
