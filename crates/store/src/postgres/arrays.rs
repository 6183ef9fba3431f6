//! Writes of many rows with one statement: each column of the rows is an array parameter, and `unnest`
//! turns the arrays into rows again.

use kalends_recurrence::Instant;
use tokio_postgres::types::ToSql;

use crate::postgres::code::Code;
use crate::postgres::error::PostgresError;
use crate::postgres::transaction::{Transaction, execute};
use crate::record::JobState;

/// Rows of array parameters, each with its number and the type of its elements. The arrays have the same
/// length; the rows are in their order.
///
/// `unnest` in the list of columns returns its elements one after the other. In `FROM`, it would first
/// store those of each array.
macro_rules! unnest_arrays {
    ($first:literal $first_type:ident $(, $number:literal $type:ident)*) => {
        concat!(
            "SELECT unnest($", $first, "::", stringify!($first_type), "[])"
            $(, ", unnest($", $number, "::", stringify!($type), "[])")*
        )
    };
}
pub(super) use unnest_arrays;

/// One column of all rows, as an array parameter.
pub(super) type Column<'a> = Box<dyn ToSql + Send + Sync + 'a>;

pub(super) fn column<'a, T, C>(rows: &'a [T], value: impl Fn(&'a T) -> C) -> Column<'a>
where
    Vec<C>: ToSql + Send + Sync + 'a,
{
    Box::new(rows.iter().map(value).collect::<Vec<_>>())
}

/// The parameters of a statement.
pub(super) fn parameters<'a>(columns: &'a [Column<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    columns.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect()
}

/// The values of `state_columns!`, in the same order.
pub(super) fn state_arrays<'a, T>(
    rows: &'a [T],
    state: impl Fn(&'a T) -> &'a JobState,
) -> [Column<'a>; 10] {
    [
        column(rows, |row| state(row).lifecycle.code()),
        column(rows, |row| state(row).due.map(Instant::ticks)),
        column(rows, |row| state(row).used.cast_signed()),
        column(rows, |row| state(row).last_execution.map(Instant::ticks)),
        column(rows, |row| state(row).executions.cast_signed()),
        column(rows, |row| state(row).failures.cast_signed()),
        column(rows, |row| state(row).faulted.cast_signed()),
        column(rows, |row| state(row).finished.map(Instant::ticks)),
        column(rows, |row| state(row).consecutive_failures.cast_signed()),
        column(rows, |row| state(row).skip_until.map(Instant::ticks)),
    ]
}

/// Executes a statement, if there are rows. All of them are locked or new, so a smaller number of
/// written rows is an error.
pub(super) async fn write_rows(
    transaction: &Transaction<'_>,
    (number, what): (usize, &str),
    sql: &str,
    columns: Vec<Column<'_>>,
) -> Result<(), PostgresError> {
    if number == 0 {
        return Ok(());
    }
    let written = execute(transaction, sql, &parameters(&columns)).await?;
    check_number(written, (number, what))
}

/// Fails unless `number` rows were written.
pub(super) fn check_number(
    written: u64,
    (number, what): (usize, &str),
) -> Result<(), PostgresError> {
    match u64::try_from(number) == Ok(written) {
        true => Ok(()),
        false => {
            let message = format!("{written} of {number} {what} were there to be written");
            Err(PostgresError::Changed(message))
        }
    }
}
