//! `kalends rehearse`: what jobs would do between two instants, without doing it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use kalends_domain::{ActionRole, JobDefinition, JobName, Limits};
use kalends_recurrence::Instant;
use kalends_simulation::{AttemptOutcome, Rehearsal, RehearsalEvent, RehearsalEventKind};
use kalends_wire::{Json, Version, parse_duration, read_job};

/// A thousand jobs of the largest size; a file with more is not one of jobs.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Show what jobs would do in a span of time: every run, retry, skipped and missed occurrence.
///
/// The jobs are made at --from and run by the engine itself on a clock that jumps; nothing is
/// called. A file holds a job as for PUT, an array of them, or one a line; a `name` beside
/// `properties` names the job, else the file does:
///
///   kalends rehearse --from 2026-03-01 --to 2026-04-01 nightly.json
///   kalends rehearse --from 2026-03-01 --to 2026-04-01 --fail nightly --json jobs.jsonl
///   kalends rehearse --from 2026-03-01 --to 2026-03-02 --down 2026-03-01T02:00Z/2026-03-01T08:00Z jobs.json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Files with jobs; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// When the jobs are made and the rehearsal begins
    #[arg(long, value_name = "TIME")]
    from: Instant,

    /// When it ends
    #[arg(long, value_name = "TIME")]
    to: Instant,

    /// A job whose target always fails
    #[arg(long, value_name = "NAME")]
    fail: Vec<String>,

    /// How long each attempt takes, such as 90s or PT1M30S
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    takes: Duration,

    /// When the service is down, as START/END
    #[arg(long, value_name = "START/END", value_parser = span)]
    down: Option<(Instant, Instant)>,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').and_then(|number| number.parse().ok());
    match seconds {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => {
            parse_duration(text).ok_or_else(|| "expected a duration such as 90s or PT1M30S".into())
        }
    }
}

fn span(text: &str) -> Result<(Instant, Instant), String> {
    let ends = text.split_once('/').and_then(|(from, to)| {
        let ends: (Instant, Instant) = (from.parse().ok()?, to.parse().ok()?);
        (ends.0 < ends.1).then_some(ends)
    });
    ends.ok_or_else(|| "expected START/END, such as 2026-03-01T02:00Z/2026-03-01T08:00Z".into())
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { files, from, to, fail, takes, down, json } = arguments;
    if from >= to {
        bail!("--from {from} is not before --to {to}");
    }
    let mut jobs = Vec::new();
    for file in &files {
        jobs.extend(read(file)?);
    }
    for name in &fail {
        if !jobs.iter().any(|(job, _)| job.to_string().eq_ignore_ascii_case(name)) {
            bail!("--fail {name}: there is no such job");
        }
    }
    let failing = jobs.iter().map(|(name, _)| name.clone());
    let failing = failing
        .filter(|name| fail.iter().any(|fail| name.to_string().eq_ignore_ascii_case(fail)))
        .collect();
    let rehearsal = Rehearsal { from, to, jobs, failing, attempt_duration: takes, down };
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut told = Ok(());
    rehearsal.run(&mut |event| {
        if told.is_ok() {
            told = match json {
                true => write_json(&event, &mut output),
                false => write_text(&event, &mut output),
            };
        }
    })?;
    told?;
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
            // Where the lines are none either it was meant as one text.
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
        let place = || format!("{shown}: {name}");
        let job = read_job(body, Version::V2026_11_01, &Limits::default()).with_context(place)?;
        Ok((JobName::new(&name).with_context(place)?, job))
    };
    bodies.iter().enumerate().map(named).collect()
}

/// What happened, in a word, and what else there is to say.
fn words(event: &RehearsalEvent) -> (&'static str, String) {
    let scheduled = event.scheduled;
    let late = match scheduled == event.at {
        true => String::new(),
        false => format!(", due {scheduled}"),
    };
    let stretch = |to: Instant, count: u64| match count {
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
        RehearsalEventKind::Skipped { to, count } => ("skipped", stretch(to, count)),
        RehearsalEventKind::Disabled { to, count } => ("disabled", stretch(to, count)),
        RehearsalEventKind::Missed { to, count } => ("missed", stretch(to, count)),
    }
}

fn write_text(event: &RehearsalEvent, output: &mut impl Write) -> io::Result<()> {
    let (name, more) = words(event);
    writeln!(output, "{}  {}  {name} {more}", event.at, event.job)
}

fn write_json(event: &RehearsalEvent, output: &mut impl Write) -> io::Result<()> {
    let (name, _) = words(event);
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
