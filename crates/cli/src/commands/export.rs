//! `kalends export`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use http::Method;
use kalends_domain::SecretHeaders;
use kalends_environment::Clock;
use kalends_wire::Json;

use crate::api::Call;
use crate::apply::preview_effects;
use crate::definitions::{export_form, masked, yaml_writer};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json::{JsonMembers as _, object};
use crate::output::{Format, OutputArguments, Progress};
use crate::resource_name::check_collection;
use crate::session::{Session, SessionArguments};
use crate::target::ServerArguments;

/// Write jobs as definition files
///
/// `kalends apply` of the result changes nothing. Secrets are not exported: they are "${stored}",
/// which keeps the stored value.
///
/// Examples:
///   kalends export -o jobs/
///   kalends export web > web.yaml
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Collections to export [default: all]
    #[arg(value_name = "COLLECTION")]
    collections: Vec<String>,

    /// Directory for the files COLLECTION/JOB.yaml [default: standard output]
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write one file COLLECTION.yaml for each collection
    #[arg(long, requires = "out")]
    one_file: bool,

    /// Header whose values are not exported, in addition to those that the server regards as secret;
    /// may be repeated
    #[arg(long = "secret-header", value_name = "NAME")]
    secret_headers: Vec<String>,

    /// Print no confirmations and no progress
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// The session of a command that has no output format.
pub(super) fn session_arguments(server: &ServerArguments, quiet: bool) -> SessionArguments {
    let output = OutputArguments { output: Format::Table, utc: false, quiet };
    SessionArguments { output, server: server.clone() }
}

pub(super) fn run(arguments: &Arguments, clock: &dyn Clock) -> Result<ExitStatus, CliError> {
    let session = Session::new(&session_arguments(&arguments.server, arguments.quiet), clock)?;
    let collections = match arguments.collections.is_empty() {
        true => all_collections(&session)?,
        false => {
            let names = arguments.collections.iter().map(|name| check_collection(name));
            names.collect::<Result<Vec<_>, _>>()?
        }
    };
    let mut jobs = 0;
    for collection in &collections {
        let exported = exported_jobs(&session, collection, &arguments.secret_headers)?;
        jobs += exported.len();
        match &arguments.out {
            None => {
                let document = document(collection, exported);
                write!(io::stdout().lock(), "---\n{}", yaml_writer::write(&document))?;
            }
            Some(folder) if arguments.one_file => {
                let document = document(collection, exported);
                write_file(&folder.join(format!("{collection}.yaml")), &document)?;
            }
            Some(folder) => {
                for (job, properties) in &exported {
                    let file = folder.join(collection).join(format!("{job}.yaml"));
                    write_file(&file, properties)?;
                }
            }
        }
    }
    if let Some(folder) = &arguments.out {
        let folder = folder.display();
        session
            .output
            .note(&format!("Exported {} to {folder}.", super::import::number_of_jobs(jobs)));
    }
    Ok(ExitStatus::Success)
}

fn all_collections(session: &Session<'_>) -> Result<Vec<String>, CliError> {
    let call = Call::new(Method::GET, session.api.collections());
    let found = session.api.list(call, usize::MAX, |_| {})?;
    Ok(found.iter().map(|collection| collection.text("name").to_owned()).collect())
}

fn exported_jobs(
    session: &Session<'_>,
    collection: &str,
    secret_headers: &[String],
) -> Result<Vec<(String, Json<'static>)>, CliError> {
    let progress = Progress::spinner(&session.output, "Reading jobs");
    let call = Call::new(Method::GET, format!("{}/jobs", session.api.collection(collection)));
    let jobs = session.api.list(call, usize::MAX, |jobs| {
        progress.message(format!("Reading jobs of {collection}: {jobs}"));
    })?;
    let found = secret_headers_of_server(session, collection, &jobs, secret_headers)?;
    let secret_headers = SecretHeaders::new(found);
    let exported = jobs.iter().map(|job| (job_name(job), export_form(job, &secret_headers)));
    Ok(exported.collect())
}

fn job_name(job: &Json<'static>) -> String {
    let name = job.text("name");
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// The headers whose values the server regards as secret: those of the command line, and those of its
/// settings. A preview with `${stored}` in place of a secret header changes nothing, any other does.
/// Callers who may not save the job do not learn that.
fn secret_headers_of_server(
    session: &Session<'_>,
    collection: &str,
    jobs: &[Json<'static>],
    given: &[String],
) -> Result<Vec<String>, CliError> {
    let mut names: Vec<String> = Vec::new();
    let mut probes = Vec::new();
    let is_known = |name: &str| SecretHeaders::new(given.iter().cloned()).contains(name);
    for job in jobs {
        for action in ["action", "action.errorAction"] {
            let headers = job.at(&format!("properties.{action}.request.headers"));
            let Some(Json::Object(headers)) = headers else { continue };
            for (name, _) in headers {
                if is_known(name) || names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                    continue;
                }
                let only = SecretHeaders::new([name.to_string()]);
                let properties = masked(job, &only);
                names.push(name.to_string());
                probes.push((job_name(job), object([("properties", properties)])));
            }
        }
    }
    let probes = probes.iter().map(|(name, body)| (name.as_str(), body)).collect();
    let effects = preview_effects(&session.api, &session.output, collection, probes)?;
    let found = names.into_iter().zip(effects).filter(|(_, effect)| effect == "Nothing");
    Ok(found.map(|(name, _)| name).chain(given.iter().cloned()).collect())
}

/// A document with all jobs of a collection.
pub(super) fn document(collection: &str, jobs: Vec<(String, Json<'static>)>) -> Json<'static> {
    let jobs = jobs.into_iter().map(|(name, properties)| (name.into(), properties));
    object([("collection", collection.to_owned().into()), ("jobs", Json::Object(jobs.collect()))])
}

/// Writes a definition file and the directories above it.
pub(super) fn write_file(path: &Path, document: &Json<'static>) -> Result<(), CliError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(CliError::file(folder))?;
    }
    std::fs::write(path, yaml_writer::write(document)).map_err(CliError::file(path))
}
