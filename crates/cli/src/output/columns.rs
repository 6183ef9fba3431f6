//! Tables.

use std::io::{self, Write};

use kalends_wire::Json;

use super::style::{Style, printable};
use super::{Format, Output};

/// One cell of a table.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), style: Style::Plain }
    }

    /// A state, a status or a disposition in its colour.
    pub(crate) fn state(text: &str) -> Cell {
        Cell { text: text.to_owned(), style: Style::of_state(text) }
    }
}

/// A column of a table.
pub(crate) struct Column {
    header: &'static str,
    is_wide: bool,
    value: fn(&Json<'static>, &Output) -> Cell,
}

impl Column {
    /// A column of every table.
    pub(crate) const fn new(
        header: &'static str,
        value: fn(&Json<'static>, &Output) -> Cell,
    ) -> Column {
        Column { header, is_wide: false, value }
    }

    /// A column of `-o wide` only.
    pub(crate) const fn wide(
        header: &'static str,
        value: fn(&Json<'static>, &Output) -> Cell,
    ) -> Column {
        Column { header, is_wide: true, value }
    }
}

/// Space between columns.
const GAP: &str = "  ";

pub(super) fn write(
    output: &Output,
    entries: &[Json<'static>],
    columns: &[Column],
    to: &mut impl Write,
) -> io::Result<()> {
    let is_wide = output.format == Format::Wide;
    let columns: Vec<_> = columns.iter().filter(|column| is_wide || !column.is_wide).collect();
    let heading = |column: &&Column| Cell { text: column.header.to_owned(), style: Style::Heading };
    let mut rows = vec![columns.iter().map(heading).collect::<Vec<_>>()];
    for entry in entries {
        rows.push(
            columns.iter().map(|column| (column.value)(entry, output)).map(one_line).collect(),
        );
    }
    let mut widths = vec![0; columns.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.chars().count());
        }
    }
    for row in &rows {
        let filled = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |last| last + 1);
        for (number, (cell, width)) in row.iter().zip(&widths).take(filled).enumerate() {
            let is_last = number + 1 == filled;
            let padding = if is_last { 0 } else { width - cell.text.chars().count() };
            let text = output.styled(&cell.text, cell.style);
            let gap = if is_last { "" } else { GAP };
            write!(to, "{text}{:padding$}{gap}", "")?;
        }
        writeln!(to)?;
    }
    Ok(())
}

/// The cell in one line, and safe to print.
fn one_line(cell: Cell) -> Cell {
    let text = printable(&cell.text).split_whitespace().collect::<Vec<_>>().join(" ");
    Cell { text, ..cell }
}
