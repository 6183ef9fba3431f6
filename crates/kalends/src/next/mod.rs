//! `kalends next`: lists the next occurrences of a schedule.

mod jsonl;
mod table;

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use kalends_environment::Clock;
use kalends_recurrence::{Definition, Instant, Rule, Settings};
use kalends_wire::{ErrorDetails, Json, read_definition};

use crate::serve::schedules::ScheduleSettings;

/// Largest file in bytes. A definition has at most 16 KiB.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// List the next occurrences of a schedule
///
/// Reads the schedule from a file with the JSON of a job, from standard input, or from flags. Limits are
/// those of a server with default settings; give the flags or variables of a server with others.
///
/// Examples:
///   kalends next job.json
///   kalends next --every 2w --on fri --at 05:15 --zone Europe/Berlin
///   kalends next --every month --on last-fri --at 17:30
///   kalends next --every 15min --hours 9-16
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// File with the JSON of a job, of its properties, or of startTime and recurrence alone; - for
    /// standard input
    #[arg(conflicts_with = "Schedule")]
    file: Option<PathBuf>,

    #[command(flatten)]
    schedule: kalends_cli::ScheduleFlags,

    /// Number of occurrences to list
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 10)]
    limit: usize,

    /// List only occurrences after this time [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<Instant>,

    /// Creation time of the job [default: now]
    #[arg(long, value_name = "TIME")]
    created: Option<Instant>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Read JSON Lines from standard input, objects with startTime, createdAt, recurrence, after and
    /// limit; write {"occurrences": […]} or {"error": {…}} for each line
    #[arg(long, conflicts_with_all = ["file", "Schedule", "limit", "after", "created", "output"])]
    jsonl: bool,

    #[command(flatten)]
    limits: ScheduleSettings,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// Description and table
    Table,
    /// One JSON object
    Json,
}

pub(crate) fn run(arguments: Arguments, clock: &impl Clock) -> anyhow::Result<()> {
    let settings = Settings::from(&arguments.limits);
    let now = Instant::from(clock.now());
    let output = io::stdout().lock();
    if arguments.jsonl {
        return jsonl::run(io::stdin().lock(), output, now, &settings);
    }
    let now = now.whole_second();
    let created = arguments.created.unwrap_or(now);
    let definition = if arguments.schedule.is_given() {
        arguments.schedule.definition(created, &settings)?
    } else {
        from_file(arguments.file.as_deref(), created)?
    };
    let rule = Rule::new(definition, &settings)
        .map_err(|problems| problems.0.into_iter().map(Into::into).collect::<ErrorDetails>())?;
    let occurrences: Vec<_> = match arguments.after {
        Some(after) => rule.occurrences_after(after).take(arguments.limit).collect(),
        // An occurrence that is due now counts as upcoming.
        None => rule.occurrences().skip_while(|&at| at < now).take(arguments.limit).collect(),
    };
    let listing = table::Listing { rule: &rule, occurrences: &occurrences, now };
    let mut output = io::BufWriter::new(output);
    match arguments.output {
        Output::Table => listing.write_table(&mut output)?,
        Output::Json => listing.write_json(&mut output)?,
    }
    output.flush()?;
    Ok(())
}

fn from_file(file: Option<&Path>, created: Instant) -> anyhow::Result<Definition> {
    let mut text = Vec::new();
    let name = match file {
        Some(path) if path != Path::new("-") => {
            let name = path.display().to_string();
            let file = fs::File::open(path).with_context(|| format!("cannot open {name}"))?;
            file.take(FILE_BYTES_MAX).read_to_end(&mut text).with_context(|| name.clone())?;
            name
        }
        None if io::stdin().is_terminal() => {
            bail!(
                "expected a file, or flags such as --every 2d --at 05:15; see kalends next --help"
            )
        }
        _ => {
            io::stdin().lock().take(FILE_BYTES_MAX).read_to_end(&mut text)?;
            "standard input".to_owned()
        }
    };
    let definition = Json::parse(&text).and_then(|body| read_definition(&body, created));
    definition.with_context(|| name)
}
