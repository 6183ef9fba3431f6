//! `kalends rehearse`: simulates jobs over a period of time without calling their targets.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use kalends_domain::{ActionRole, JobDefinition, JobName, Limits};
use kalends_recurrence::Instant;
use kalends_simulation::{AttemptOutcome, Rehearsal, RehearsalEvent, RehearsalEventKind};
use kalends_wire::{Json, Version, parse_duration, read_job};

/// Largest file in bytes: a thousand jobs of maximum size.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Simulate jobs over a period of time: every run, retry, skipped and missed occurrence
///
/// Creates the jobs at --from and runs them with the engine on a virtual clock; no target is called.
/// A file contains a job as in a PUT request, an array of jobs, or one job per line. The member
/// "name" next to "properties" names the job; without it, the file name does.
///
/// Examples:
///   kalends rehearse --from 2026-03-01 --to 2026-04-01 nightly.json
///   kalends rehearse --from 2026-03-01 --to 2026-04-01 --fail nightly --json jobs.jsonl
///   kalends rehearse --from 2026-03-01 --to 2026-03-02 --down 2026-03-01T02:00Z/2026-03-01T08:00Z jobs.json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Files with jobs as JSON; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Start of the simulation, when the jobs are created
    #[arg(long, value_name = "TIME")]
    from: Instant,

    /// End of the simulation
    #[arg(long, value_name = "TIME")]
    to: Instant,

    /// Job whose target always fails; can be repeated
    #[arg(long, value_name = "NAME")]
    fail: Vec<String>,

    /// Duration of each attempt, such as 90s or PT1M30S
    #[arg(long, alias = "takes", value_name = "DURATION", default_value = "0s", value_parser = duration)]
    attempt_duration: Duration,

    /// Outage of the scheduler, as START/END
    #[arg(long, value_name = "START/END", value_parser = period)]
    down: Option<(Instant, Instant)>,

    /// Print JSON Lines
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let seconds = text.strip_suffix('s').and_then(|number| number.parse().ok());
    match seconds {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => parse_duration(text).context("must be a duration such as 90s or PT1M30S"),
    }
}

fn period(text: &str) -> anyhow::Result<(Instant, Instant)> {
    let ends = text.split_once('/').and_then(|(from, to)| {
        let ends: (Instant, Instant) = (from.parse().ok()?, to.parse().ok()?);
        (ends.0 < ends.1).then_some(ends)
    });
    ends.context("must be START/END, such as 2026-03-01T02:00Z/2026-03-01T08:00Z")
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { files, from, to, fail, attempt_duration, down, json } = arguments;
    ensure!(from < to, "--from {from} must be before --to {to}");
    let mut jobs = Vec::new();
    for file in &files {
        jobs.extend(read(file)?);
    }
    for name in &fail {
        if !jobs.iter().any(|(job, _)| job.to_string().eq_ignore_ascii_case(name)) {
            bail!("--fail {name}: the files contain no such job");
        }
    }
    let failing = jobs.iter().map(|(name, _)| name.clone());
    let failing = failing
        .filter(|name| fail.iter().any(|fail| name.to_string().eq_ignore_ascii_case(fail)))
        .collect();
    let rehearsal = Rehearsal { from, to, jobs, failing, attempt_duration, down };
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    rehearsal.run(&mut |event| {
        if written.is_ok() {
            written = match json {
                true => write_json(&event, &mut output),
                false => write_text(&event, &mut output),
            };
        }
    })?;
    written?;
    output.flush()?;
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Vec<(JobName, JobDefinition)>> {
    let mut text = Vec::new();
    let shown = file.display().to_string();
    if file == Path::new("-") {
        io::stdin().lock().take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    } else {
        let opened = fs::File::open(file).with_context(|| format!("cannot open {shown}"))?;
        opened.take(FILE_BYTES_MAX).read_to_end(&mut text).with_context(|| shown.clone())?;
    }
    let stem = file.file_stem().and_then(|stem| stem.to_str()).filter(|_| shown != "-");
    let bodies = match Json::parse(&text) {
        Ok(Json::Array(bodies)) => bodies,
        Ok(body) => vec![body],
        Err(error) => {
            let lines =
                text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
            let lines: Result<Vec<_>, _> = lines.map(Json::parse).collect();
            // If the lines are not JSON either, the error of the whole text is the helpful one.
            lines.map_err(|_| error).with_context(|| shown.clone())?
        }
    };
    let named = |(number, body): (usize, &Json<'_>)| {
        let written = match body {
            Json::Object(members) => members.iter().find(|(name, _)| name == "name"),
            _ => None,
        };
        let name = match written {
            Some((_, Json::String(name))) => name.to_string(),
            _ if bodies.len() == 1 => stem.unwrap_or("job").to_owned(),
            _ => format!("{}-{}", stem.unwrap_or("job"), number + 1),
        };
        let context = || format!("{shown}: {name}");
        let job = read_job(body, Version::V2026_11_01, &Limits::default()).with_context(context)?;
        Ok((JobName::new(&name).with_context(context)?, job))
    };
    bodies.iter().enumerate().map(named).collect()
}

/// The event's name and its details.
fn describe(event: &RehearsalEvent) -> (&'static str, String) {
    let scheduled = event.scheduled;
    let late = match scheduled == event.at {
        true => String::new(),
        false => format!(", due {scheduled}"),
    };
    let range = |to: Instant, count: u64| match count {
        1 => format!("due {scheduled}"),
        _ => format!("{count} occurrences from {scheduled} to {to}"),
    };
    match event.kind {
        RehearsalEventKind::Attempt { role, retry, outcome } => {
            let outcome = match outcome {
                AttemptOutcome::Succeeded => "succeeds",
                AttemptOutcome::Failed => "fails",
            };
            match (role, retry) {
                (ActionRole::Main, 0) => ("run", format!("{outcome}{late}")),
                (ActionRole::Main, retry) => ("retry", format!("{retry} {outcome}{late}")),
                (ActionRole::Error, 0) => ("errorAction", format!("{outcome}{late}")),
                (ActionRole::Error, retry) => {
                    ("errorAction", format!("retry {retry} {outcome}{late}"))
                }
            }
        }
        RehearsalEventKind::Skipped { to, count } => ("skipped", range(to, count)),
        RehearsalEventKind::Disabled { to, count } => ("disabled", range(to, count)),
        RehearsalEventKind::Missed { to, count } => ("missed", range(to, count)),
    }
}

fn write_text(event: &RehearsalEvent, output: &mut impl Write) -> io::Result<()> {
    let (name, details) = describe(event);
    writeln!(output, "{}  {}  {name} {details}", event.at, event.job)
}

fn write_json(event: &RehearsalEvent, output: &mut impl Write) -> io::Result<()> {
    let (name, _) = describe(event);
    let text = |text: String| Json::String(text.into());
    let number = |number: u64| {
        Json::Number(kalends_wire::Number::Integer(i64::try_from(number).unwrap_or(i64::MAX)))
    };
    let mut members = vec![
        ("at", text(event.at.to_string())),
        ("job", text(event.job.clone())),
        ("event", text(name.to_owned())),
        ("scheduled", text(event.scheduled.to_string())),
    ];
    match event.kind {
        RehearsalEventKind::Attempt { retry, outcome, .. } => {
            members.push(("retry", number(retry.into())));
            members.push(("succeeds", Json::Bool(outcome == AttemptOutcome::Succeeded)));
        }
        RehearsalEventKind::Skipped { to, count }
        | RehearsalEventKind::Disabled { to, count }
        | RehearsalEventKind::Missed { to, count } => {
            members.push(("to", text(to.to_string())));
            members.push(("count", number(count)));
        }
    }
    let members = members.into_iter().map(|(name, value)| (name.into(), value));
    serde_json::to_writer(&mut *output, &Json::Object(members.collect()))?;
    writeln!(output)
}
