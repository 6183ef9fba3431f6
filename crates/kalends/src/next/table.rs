//! Output of `kalends next`: as a table or as JSON.

use std::io::{self, Write};

use kalends_recurrence::relative_time;
use kalends_recurrence::{DstNote, Instant, Rule};
use kalends_wire::Json;

/// Period after now in which DST changes are reported: one year.
const DST_NOTES_AHEAD: std::time::Duration = std::time::Duration::from_secs(366 * 86_400);

pub(super) struct Listing<'a> {
    pub(super) rule: &'a Rule,
    pub(super) occurrences: &'a [Instant],
    pub(super) now: Instant,
}

impl Listing<'_> {
    pub(super) fn write_table(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(output, "{}\n", self.rule.describe())?;
        let zone = self.rule.zone();
        let weekday = |at: Instant| &zone.weekday(at).name()[..3];
        let (heading, local): (_, &dyn Fn(Instant) -> String) = match zone.name() {
            "UTC" => ("", &|at| weekday(at).to_owned()),
            name => (name, &|at| format!("{} {}", weekday(at), zone.local(at))),
        };
        let mut rows = vec![["", "UTC", heading, "from now"].map(str::to_owned)];
        rows.extend(self.occurrences.iter().enumerate().map(|(number, &at)| {
            [(number + 1).to_string(), at.to_string(), local(at), relative_time(at, self.now)]
        }));
        let mut widths = [0; 4];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.len());
            }
        }
        let [number_width, utc_width, local_width, _] = widths;
        for [number, utc, local, relative] in &rows {
            let line = format!(
                "{number:>number_width$}  {utc:<utc_width$}  {local:<local_width$}  {relative}"
            );
            writeln!(output, "{}", line.trim_end())?;
        }
        if self.occurrences.is_empty() {
            writeln!(output, "no upcoming occurrences")?;
        }
        let notes = self.dst_notes();
        if !notes.is_empty() {
            writeln!(output)?;
        }
        for note in notes {
            writeln!(output, "{note}")?;
        }
        Ok(())
    }

    pub(super) fn write_json(&self, output: &mut impl Write) -> io::Result<()> {
        let zone = self.rule.zone();
        let occurrence = |&at: &Instant| {
            object([("utc", at.to_string().into()), ("local", zone.local(at).into())])
        };
        let change = |change: DstNote| {
            object([("at", change.at.to_string().into()), ("text", change.text.into())])
        };
        let listing = object([
            ("description", self.rule.describe().into()),
            ("timeZone", zone.name().to_owned().into()),
            ("occurrences", Json::Array(self.occurrences.iter().map(occurrence).collect())),
            ("clockChanges", Json::Array(self.dst_notes().into_iter().map(change).collect())),
        ]);
        serde_json::to_writer_pretty(&mut *output, &listing)?;
        writeln!(output)
    }

    fn dst_notes(&self) -> Vec<DstNote> {
        let from = self.occurrences.first().map_or(self.now, |&first| first.min(self.now));
        self.rule.dst_notes(from, from.saturating_add(DST_NOTES_AHEAD))
    }
}

fn object<const N: usize>(members: [(&'static str, Json<'static>); N]) -> Json<'static> {
    Json::Object(members.map(|(name, value)| (name.into(), value)).into())
}
