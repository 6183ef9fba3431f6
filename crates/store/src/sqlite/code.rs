//! How values stand in columns.

use kalends_domain::{ActionRole, AttemptStatus, Lifecycle, Micros, Plan};
use kalends_recurrence::Instant;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, Rows};

use crate::record::{Cause, Disposition, FencingToken, JobKey, NodeId, RunId};
use crate::sqlite::error::SqliteResult;

/// A value that is kept as a number.
pub(crate) trait Code: Copy {
    fn code(self) -> i64;
    fn from_code(code: i64) -> Option<Self>;
}

/// A value on its way into or out of a column.
#[derive(Clone, Copy)]
pub(crate) struct Coded<T>(pub(crate) T);

impl<T: Code> ToSql for Coded<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.code().into())
    }
}

impl<T: Code> FromSql for Coded<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let code = value.as_i64()?;
        T::from_code(code).map(Coded).ok_or(FromSqlError::OutOfRange(code))
    }
}

/// The value of a column.
pub(crate) fn read<T: Code>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, Coded<T>>(column).map(|coded| coded.0)
}

/// The value of a column by its number, where there are many rows: a name is searched for.
pub(crate) fn nth<T: Code>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get::<_, Coded<T>>(column).map(|coded| coded.0)
}

/// The value of a column by its number that may be empty.
pub(crate) fn nth_option<T: Code>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Coded<T>>>(column).map(|coded| coded.map(|coded| coded.0))
}

/// The value of a column that may be empty.
pub(crate) fn read_option<T: Code>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Coded<T>>>(column).map(|coded| coded.map(|coded| coded.0))
}

/// All rows of an answer.
pub(crate) fn collect<T>(
    mut rows: Rows<'_>,
    mut read: impl FnMut(&Row<'_>) -> SqliteResult<T>,
) -> SqliteResult<Vec<T>> {
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// A number of rows, for LIMIT and OFFSET: there a negative number means all.
pub(crate) fn rows(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Code for Instant {
    fn code(self) -> i64 {
        self.ticks()
    }

    fn from_code(code: i64) -> Option<Instant> {
        Instant::from_ticks(code)
    }
}

/// Kept bit by bit: no number is too large.
impl Code for u64 {
    fn code(self) -> i64 {
        self.cast_signed()
    }

    fn from_code(code: i64) -> Option<u64> {
        Some(code.cast_unsigned())
    }
}

impl Code for u32 {
    fn code(self) -> i64 {
        i64::from(self)
    }

    fn from_code(code: i64) -> Option<u32> {
        u32::try_from(code).ok()
    }
}

impl Code for Micros {
    fn code(self) -> i64 {
        i64::from(self.get())
    }

    fn from_code(code: i64) -> Option<Micros> {
        u32::try_from(code).ok().map(Micros::new)
    }
}

impl Code for bool {
    fn code(self) -> i64 {
        i64::from(self)
    }

    fn from_code(code: i64) -> Option<bool> {
        Some(code != 0)
    }
}

/// A number in a wrapper, kept as it is.
macro_rules! wrapped {
    ($($name:ident),*) => {$(
        impl Code for $name {
            fn code(self) -> i64 {
                self.0
            }

            fn from_code(code: i64) -> Option<$name> {
                Some($name(code))
            }
        }
    )*};
}

wrapped!(JobKey, RunId);

/// A number in a wrapper, kept bit by bit.
macro_rules! wrapped_bits {
    ($($name:ident),*) => {$(
        impl Code for $name {
            fn code(self) -> i64 {
                self.0.cast_signed()
            }

            fn from_code(code: i64) -> Option<$name> {
                Some($name(code.cast_unsigned()))
            }
        }
    )*};
}

wrapped_bits!(NodeId, FencingToken);

/// The numbers of an enum's variants. They are in files: none is ever used for another one.
macro_rules! numbered {
    ($name:ident { $($variant:ident = $number:literal),* }) => {
        impl Code for $name {
            fn code(self) -> i64 {
                match self {
                    $($name::$variant => $number,)*
                }
            }

            fn from_code(code: i64) -> Option<$name> {
                match code {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

// `inspect` knows that Active is 0.
numbered!(Lifecycle { Active = 0, Completed = 1, Faulted = 2 });
numbered!(Plan { Free = 0, Standard = 1, P10Premium = 2, P20Premium = 3 });
numbered!(Cause { Scheduled = 0, Manual = 1 });
numbered!(ActionRole { Main = 0, Error = 1 });
numbered!(AttemptStatus { Completed = 0, Failed = 1, Postponed = 2 });
numbered!(Disposition {
    Completed = 0,
    Failed = 1,
    SkippedOverlap = 2,
    SkippedDisabled = 3,
    SkippedQuota = 4,
    Missed = 5,
    Superseded = 6
});
