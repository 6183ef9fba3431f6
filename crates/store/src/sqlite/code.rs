//! Conversion between values and columns.

use kalends_domain::{ActionRole, AttemptStatus, Lifecycle, Micros, NoteAction, Plan};
use kalends_recurrence::Instant;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, Rows};

use crate::record::{Cause, Disposition, FencingToken, JobKey, NodeId, RunId, SlotKey};
use crate::sqlite::error::SqliteResult;

/// A value that is stored as an integer.
pub(crate) trait Code: Copy {
    fn code(self) -> i64;
    fn from_code(code: i64) -> Option<Self>;
}

/// Implements `ToSql` and `FromSql` for a [`Code`].
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

/// The value of a column by name.
pub(crate) fn read<T: Code>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, Coded<T>>(column).map(|coded| coded.0)
}

/// The value of a column by index, for queries with many rows: lookup by name is slower.
pub(crate) fn nth<T: Code>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get::<_, Coded<T>>(column).map(|coded| coded.0)
}

/// The value of a nullable column by index.
pub(crate) fn nth_option<T: Code>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Coded<T>>>(column).map(|coded| coded.map(|coded| coded.0))
}

/// The value of a nullable column by name.
pub(crate) fn read_option<T: Code>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Coded<T>>>(column).map(|coded| coded.map(|coded| coded.0))
}

/// Reads all rows of a result.
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

/// A number of rows for LIMIT and OFFSET, capped at `i64::MAX`; a negative LIMIT would mean all.
pub(crate) fn rows_max(count: u64) -> i64 {
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

/// Stored with the same bits, so that every value fits.
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

/// A newtype of `i64`.
macro_rules! newtype {
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

newtype!(JobKey, RunId);

/// A newtype of `u64`, stored with the same bits.
macro_rules! newtype_bits {
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

newtype_bits!(NodeId, FencingToken, SlotKey);

/// The codes of the variants of an enum. Databases contain them: never change or reuse a code.
macro_rules! coded_enum {
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

// The SQL of `inspect` relies on Active = 0.
coded_enum!(Lifecycle { Active = 0, Completed = 1, Faulted = 2 });
coded_enum!(Plan {
    Free = 0,
    Standard = 1,
    P10Premium = 2,
    P20Premium = 3,
    StandardUnlimited = 4
});
coded_enum!(Cause { Scheduled = 0, Manual = 1 });
coded_enum!(ActionRole { Main = 0, Error = 1 });
coded_enum!(AttemptStatus { Completed = 0, Failed = 1, Postponed = 2 });
coded_enum!(Disposition {
    Completed = 0,
    Failed = 1,
    SkippedOverlap = 2,
    SkippedDisabled = 3,
    SkippedQuota = 4,
    Missed = 5,
    Superseded = 6,
    SkippedPaused = 7,
    SkippedByRequest = 8
});
coded_enum!(NoteAction {
    Created = 0,
    Edited = 1,
    Enabled = 2,
    Disabled = 3,
    Ran = 4,
    Skipped = 5,
    Paused = 6,
    Resumed = 7,
    Noted = 8
});
