//! Rows that are inserted together. One statement inserts several: beginning and ending a statement
//! costs as much as inserting a row.

use rusqlite::{Connection, Statement};

use crate::sqlite::error::SqliteResult;

/// Rows of a statement that inserts several.
const ROWS: usize = 16;

/// Statements that insert one row and [`ROWS`] rows of a table. The columns should be those of the
/// table in their order, because SQLite copies the values otherwise.
pub(crate) struct Insert {
    one: String,
    many: String,
    /// The index of the column that has text; all others have integers.
    text_column: Option<usize>,
}

impl Insert {
    /// `insert` is the statement without its values, of which a row has `columns`.
    pub(crate) fn new(insert: &str, columns: usize) -> Insert {
        let row = format!("({})", vec!["?"; columns].join(", "));
        let statement = |rows| format!("{insert} VALUES {}", vec![row.as_str(); rows].join(", "));
        Insert { one: statement(1), many: statement(ROWS), text_column: None }
    }

    /// The same with text in a column.
    pub(crate) fn with_text(insert: &str, columns: usize, text_column: usize) -> Insert {
        Insert { text_column: Some(text_column), ..Insert::new(insert, columns) }
    }

    /// Inserts a row without text at once.
    pub(crate) fn one<const N: usize>(
        &self,
        connection: &Connection,
        row: &Integers<N>,
    ) -> SqliteResult<()> {
        let mut statement = connection.prepare_cached(&self.one)?;
        bind(&mut statement, &mut 0, row)?;
        statement.raw_execute()?;
        Ok(())
    }
}

/// The integers of a row.
pub(crate) type Integers<const N: usize> = [Option<i64>; N];

/// Rows that wait for others of their table.
pub(crate) struct NewRows<const N: usize> {
    insert: &'static Insert,
    rows: Vec<Integers<N>>,
    /// The texts of all rows, and where each ends.
    texts: String,
    ends: Vec<usize>,
}

impl<const N: usize> NewRows<N> {
    pub(crate) fn new(insert: &'static Insert) -> NewRows<N> {
        NewRows { insert, rows: Vec::new(), texts: String::new(), ends: Vec::new() }
    }

    /// Appends a row without text, and inserts the waiting ones when there are enough.
    pub(crate) fn push(&mut self, connection: &Connection, row: Integers<N>) -> SqliteResult<()> {
        self.rows.push(row);
        if self.rows.len() < ROWS { Ok(()) } else { self.write(connection) }
    }

    /// The same for a row with text.
    pub(crate) fn push_with_text(
        &mut self,
        connection: &Connection,
        row: Integers<N>,
        text: &str,
    ) -> SqliteResult<()> {
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        self.push(connection, row)
    }

    /// Inserts the waiting rows.
    pub(crate) fn write(&mut self, connection: &Connection) -> SqliteResult<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let is_full = self.rows.len() == ROWS;
        let sql = if is_full { &self.insert.many } else { &self.insert.one };
        let mut statement = connection.prepare_cached(sql)?;
        let (mut parameter, mut start) = (0, 0);
        let mut ends = self.ends.iter();
        for row in &self.rows {
            let (before, after) = row.split_at(self.insert.text_column.unwrap_or(N).min(N));
            bind(&mut statement, &mut parameter, before)?;
            if let Some(end) = ends.next() {
                parameter += 1;
                statement.raw_bind_parameter(parameter, self.texts.get(start..*end))?;
                start = *end;
            }
            bind(&mut statement, &mut parameter, after)?;
            if !is_full {
                statement.raw_execute()?;
                parameter = 0;
            }
        }
        if is_full {
            statement.raw_execute()?;
        }
        self.rows.clear();
        self.texts.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Binds integers to the parameters after `parameter`.
fn bind(
    statement: &mut Statement<'_>,
    parameter: &mut usize,
    values: &[Option<i64>],
) -> SqliteResult<()> {
    for value in values {
        *parameter += 1;
        statement.raw_bind_parameter(*parameter, value)?;
    }
    Ok(())
}
