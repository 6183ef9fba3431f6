//! Measurements of several sizes side by side, as Markdown.

use std::io::{self, Write};

use crate::store::Measurement;

/// Measurements of one size.
pub struct Size {
    /// Number of jobs.
    pub jobs: usize,
    /// Rows of the store.
    pub kalends: Vec<Measurement>,
    /// Rows of plain tables; empty if they were not measured.
    pub plain: Vec<Measurement>,
}

/// One of the two tables of the report.
#[derive(Clone, Copy)]
enum Table {
    Wall,
    Cpu,
}

impl Table {
    fn value(self, measurements: &[Measurement], name: &str) -> Option<f64> {
        let found = measurements.iter().find(|measurement| measurement.name == name)?;
        match self {
            Table::Wall => Some(found.value),
            Table::Cpu => found.cpu,
        }
    }
}

/// Writes a table of wall times and one of CPU times. Each has, for each size, the store, plain
/// tables and their ratio, then the last size as a ratio to the first for both.
pub fn write(mut output: impl Write, sizes: &[Size]) -> io::Result<()> {
    write_table(&mut output, sizes, Table::Wall)?;
    writeln!(output)?;
    write_table(&mut output, sizes, Table::Cpu)
}

fn write_table(output: &mut impl Write, sizes: &[Size], table: Table) -> io::Result<()> {
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return Ok(()) };
    let title = match table {
        Table::Wall => "µs per operation",
        Table::Cpu => "µs of CPU per operation",
    };
    write!(output, "| {title} |")?;
    for Size { jobs, .. } in sizes {
        write!(output, " {} jobs: kalends | plain tables | kalends ÷ plain |", grouped(*jobs))?;
    }
    writeln!(output, " last ÷ first: kalends | plain tables |")?;
    writeln!(output, "|---|{}--:|--:|", "--:|--:|--:|".repeat(sizes.len()))?;
    for Measurement { name, .. } in &last.kalends {
        let of_store = |size: &Size| table.value(&size.kalends, name);
        let of_plain = |size: &Size| table.value(&size.plain, name);
        if of_store(last).is_none() {
            continue;
        }
        write!(output, "| {name} |")?;
        for size in sizes {
            let (store, plain) = (of_store(size), of_plain(size));
            write!(output, " {} | {} | {} |", shown(store), shown(plain), ratio(store, plain))?;
        }
        let store = ratio(of_store(last), of_store(first));
        writeln!(output, " {store} | {} |", ratio(of_plain(last), of_plain(first)))?;
    }
    Ok(())
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
