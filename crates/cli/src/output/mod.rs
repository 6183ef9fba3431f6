//! Output of commands: tables for people, JSON and YAML for programs.

mod columns;
mod progress;
mod style;
mod times;

use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use kalends_environment::Clock;
use kalends_recurrence::{Instant, Zone};
use kalends_wire::Json;

pub(crate) use columns::{Cell, Column};
pub(crate) use progress::Progress;
pub(crate) use style::{Style, printable};
pub(crate) use times::{TimeZoneOfUser, date_time};

use crate::definitions::yaml_writer;
use crate::error::CliError;

/// Output of a command
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OutputArguments {
    /// Output format: table, wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", value_enum, hide_possible_values = true, default_value_t = Format::Table, global = true, help_heading = "Output")]
    pub(crate) output: Format,

    /// Show times in UTC instead of the time zone of this machine (TZ or /etc/localtime)
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) utc: bool,

    /// Print no confirmations and no progress
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The most important columns
    Table,
    /// All columns
    Wide,
    /// JSON of the API
    Json,
    /// The same as YAML
    Yaml,
    /// Names only, one per line
    Name,
}

/// Writes the output of one command.
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) is_quiet: bool,
    pub(crate) now: Instant,
    pub(crate) zone: Zone,
    has_colours: bool,
}

impl Output {
    pub(crate) fn new(arguments: &OutputArguments, clock: &dyn Clock) -> Output {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Output {
            format: arguments.output,
            is_quiet: arguments.quiet,
            now: Instant::from(clock.now()).whole_second(),
            zone: if arguments.utc { Zone::utc() } else { TimeZoneOfUser::read() },
            has_colours: io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb,
        }
    }

    /// Whether the output is for people.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Prints a list of resources.
    pub(crate) fn list(
        &self,
        entries: Vec<Json<'static>>,
        columns: &[Column],
        name: fn(&Json<'static>) -> String,
    ) -> Result<(), CliError> {
        let mut output = io::BufWriter::new(io::stdout().lock());
        match self.format {
            Format::Table | Format::Wide => columns::write(self, &entries, columns, &mut output)?,
            Format::Name => {
                for entry in &entries {
                    writeln!(output, "{}", printable(&name(entry)))?;
                }
            }
            Format::Json | Format::Yaml => self.document(&Json::Array(entries), &mut output)?,
        }
        Ok(output.flush()?)
    }

    /// Prints one value: as a document, or with `write_text` for people.
    pub(crate) fn value(
        &self,
        value: &Json<'static>,
        name: &str,
        write_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        let mut output = io::BufWriter::new(io::stdout().lock());
        match self.format {
            Format::Table | Format::Wide => write_text(&mut output)?,
            Format::Name => writeln!(output, "{}", printable(name))?,
            Format::Json | Format::Yaml => self.document(value, &mut output)?,
        }
        Ok(output.flush()?)
    }

    /// Confirms a change: with a sentence, or with the resource as it is now.
    pub(crate) fn done(
        &self,
        sentence: &str,
        name: &str,
        resource: Option<&Json<'static>>,
    ) -> Result<(), CliError> {
        let mut output = io::stdout().lock();
        match (self.format, resource) {
            _ if self.is_quiet => {}
            (Format::Json | Format::Yaml, Some(resource)) => {
                self.document(resource, &mut output)?
            }
            (Format::Json | Format::Yaml, None) => {}
            (Format::Name, _) => writeln!(output, "{}", printable(name))?,
            (Format::Table | Format::Wide, _) => writeln!(output, "{}", printable(sentence))?,
        }
        Ok(())
    }

    /// Prints one line of a stream: the text, or the value as one line of JSON.
    pub(crate) fn line(
        &self,
        value: &Json<'static>,
        name: &str,
        text: &str,
    ) -> Result<(), CliError> {
        let mut output = io::stdout().lock();
        match self.format {
            Format::Table | Format::Wide => writeln!(output, "{text}")?,
            Format::Name => writeln!(output, "{}", printable(name))?,
            Format::Json => writeln!(output, "{value}")?,
            Format::Yaml => {
                writeln!(output, "---")?;
                output.write_all(yaml_writer::write(value).as_bytes())?;
            }
        }
        Ok(output.flush()?)
    }

    /// Prints a warning or a note to standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet {
            // If standard error is closed, nobody reads notes.
            let _ = writeln!(io::stderr(), "{}", printable(text));
        }
    }

    /// The text in a colour, if the output has colours.
    pub(crate) fn styled(&self, text: &str, style: Style) -> String {
        style.apply(text, self.has_colours)
    }

    fn document(&self, value: &Json<'static>, output: &mut impl Write) -> io::Result<()> {
        match self.format {
            Format::Yaml => output.write_all(yaml_writer::write(value).as_bytes()),
            _ => {
                serde_json::to_writer_pretty(&mut *output, value)?;
                writeln!(output)
            }
        }
    }
}
