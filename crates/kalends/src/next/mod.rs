//! `kalends next`: the coming occurrences of a schedule.

mod flags;
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

/// A definition is at most 16 KiB; a file with more is not one.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Show the coming occurrences of a schedule.
///
/// The schedule comes from a file with the JSON of a job, from standard input, or from flags:
///
///   kalends next job.json
///   kalends next --every 2w --on fri --at 05:15 --zone Europe/Berlin
///   kalends next --every month --on last-fri --at 17:30
///   kalends next --every 15min --hours 9-16
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// A file with the JSON of a job, its properties, or just startTime and recurrence; - for
    /// standard input
    #[arg(conflicts_with = "Schedule")]
    file: Option<PathBuf>,

    #[command(flatten)]
    schedule: flags::Schedule,

    /// How many occurrences to show
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 10)]
    limit: usize,

    /// Only occurrences after this time [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<Instant>,

    /// When the job was created [default: now]
    #[arg(long, value_name = "TIME")]
    created: Option<Instant>,

    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Read a JSON object a line from standard input ({"startTime", "createdAt", "recurrence",
    /// "after", "limit"}), write {"occurrences": […]} or {"error": {…}} a line
    #[arg(long, conflicts_with_all = ["file", "Schedule", "limit", "after", "created", "output"])]
    jsonl: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A sentence and a table
    Table,
    /// One JSON object
    Json,
}

pub(crate) fn run(arguments: Arguments, clock: &impl Clock) -> anyhow::Result<()> {
    let settings = Settings::default();
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
        // What is due at this very instant is still to come.
        None => rule.occurrences().skip_while(|&at| at < now).take(arguments.limit).collect(),
    };
    let answer = table::Answer { rule: &rule, occurrences: &occurrences, now };
    let mut output = io::BufWriter::new(output);
    match arguments.output {
        Output::Table => answer.write_table(&mut output)?,
        Output::Json => answer.write_json(&mut output)?,
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
            bail!("give a file or flags such as --every 2d --at 05:15; see kalends next --help")
        }
        _ => {
            io::stdin().lock().take(FILE_BYTES_MAX).read_to_end(&mut text)?;
            "standard input".to_owned()
        }
    };
    let definition = Json::parse(&text).and_then(|body| read_definition(&body, created));
    definition.with_context(|| name)
}
