//! Measurements of several sizes as a Markdown table.

use std::io::{self, Write};

use crate::store::Figure;

/// Measurements of one size.
pub struct Size {
    /// Number of jobs.
    pub jobs: usize,
    /// Measurements of the store.
    pub kalends: Vec<Figure>,
    /// Measurements of plain SQL.
    pub floor: Vec<Figure>,
}

/// Writes a row for each measurement: its value at each size, the last size as a ratio to the first, the
/// same ratio of plain SQL, the store as a ratio to plain SQL at the last size, and processor time.
pub fn write(mut output: impl Write, sizes: &[Size]) -> io::Result<()> {
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return Ok(()) };
    let heads = sizes.iter().map(|size| format!(" {} jobs |", grouped(size.jobs)));
    let heads = heads.collect::<String>();
    writeln!(
        output,
        "| µs each |{heads} last ÷ first | of plain SQL | ÷ plain SQL | processor:{heads} last ÷ first |"
    )?;
    writeln!(output, "|---|{0}--:|--:|--:|{0}--:|", "--:|".repeat(sizes.len()))?;
    for Figure { name, .. } in &last.kalends {
        write!(output, "| {name} |")?;
        for size in sizes {
            write!(output, " {} |", shown(value(&size.kalends, name)))?;
        }
        let growth = ratio(value(&last.kalends, name), value(&first.kalends, name));
        let above = ratio(value(&last.kalends, name), value(&last.floor, name));
        let plain = ratio(value(&last.floor, name), value(&first.floor, name));
        write!(output, " {growth} | {plain} | {above} |")?;
        for size in sizes {
            write!(output, " {} |", shown(processor(&size.kalends, name)))?;
        }
        let growth = ratio(processor(&last.kalends, name), processor(&first.kalends, name));
        writeln!(output, " {growth} |")?;
    }
    Ok(())
}

fn find<'a>(figures: &'a [Figure], name: &str) -> Option<&'a Figure> {
    figures.iter().find(|figure| figure.name == name)
}

fn value(figures: &[Figure], name: &str) -> Option<f64> {
    find(figures, name).map(|figure| figure.value)
}

fn processor(figures: &[Figure], name: &str) -> Option<f64> {
    find(figures, name)?.processor
}

fn shown(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| match value < 10.0 {
        true => format!("{value:.1}"),
        false => format!("{value:.0}"),
    })
}

fn ratio(value: Option<f64>, other: Option<f64>) -> String {
    value.zip(other).map_or("–".to_owned(), |(value, other)| format!("{:.2}", value / other))
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}
