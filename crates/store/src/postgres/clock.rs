//! The clock of the database. Leases use it because all nodes share it.

use std::time::{SystemTime, UNIX_EPOCH};

use kalends_recurrence::{Instant, duration_to_ticks};
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::error::PostgresError;
use crate::postgres::row::get;
use crate::postgres::transaction::{Transaction, query};

/// `clock_timestamp()` and not `now()`, which is the time at which the transaction began.
pub(super) const CLOCK: &str = "SELECT clock_timestamp() AS clock";

impl PostgresStore {
    pub(super) async fn read_clock(&self) -> Result<Instant, StoreError> {
        clock_of(&self.query(CLOCK, &[]).await?)
    }
}

pub(super) async fn clock(transaction: &Transaction<'_>) -> Result<Instant, PostgresError> {
    Ok(clock_of(&query(transaction, CLOCK, &[]).await?)?)
}

/// The time in the result of [`CLOCK`].
pub(super) fn clock_of(rows: &[Row]) -> Result<Instant, StoreError> {
    let clock = rows.first().map(|row| get(row, "clock")).transpose()?;
    clock.map(instant_of).ok_or_else(|| StoreError::Failed("the database returned no time".into()))
}

/// Exact: PostgreSQL counts microseconds, an [`Instant`] counts units of 100 ns.
fn instant_of(clock: SystemTime) -> Instant {
    let ticks = match clock.duration_since(UNIX_EPOCH) {
        Ok(after) => duration_to_ticks(after),
        Err(before) => -duration_to_ticks(before.duration()),
    };
    Instant::from_ticks(ticks.clamp(Instant::MIN.ticks(), Instant::MAX.ticks()))
        .unwrap_or(Instant::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn conversion_of_the_clock_is_exact() {
        let at = |seconds, nanos| instant_of(UNIX_EPOCH + Duration::new(seconds, nanos)).ticks();
        assert_eq!(at(0, 0), 0);
        assert_eq!(at(1_800_000_000, 123_456_000), 18_000_000_001_234_560);
        assert_eq!(at(253_402_300_799, 999_999_000), Instant::MAX.ticks() - 9);
        assert_eq!(instant_of(UNIX_EPOCH - Duration::from_micros(1)).ticks(), -10);
    }
}
