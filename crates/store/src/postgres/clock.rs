//! The database's clock, by which leases are measured: one for all nodes.

use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_postgres::Transaction;
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::call::rows;
use crate::postgres::code::ticks;
use crate::postgres::fault::Fault;
use crate::postgres::row::get;

/// Reads it: the time now, and not when the transaction began.
pub(super) const CLOCK: &str = "SELECT clock_timestamp() AS clock";

pub(super) async fn clock(transaction: &Transaction<'_>) -> Result<Instant, Fault> {
    Ok(clock_of(&rows(transaction, CLOCK, &[]).await?)?)
}

/// What [`CLOCK`] answered.
pub(super) fn clock_of(rows: &[Row]) -> Result<Instant, StoreError> {
    let clock = rows.first().map(|row| get(row, "clock")).transpose()?;
    clock.map(instant_of).ok_or_else(|| StoreError::Failed("the database has no clock".into()))
}

/// It counts microseconds, so this is exact.
fn instant_of(clock: SystemTime) -> Instant {
    let ticks = match clock.duration_since(UNIX_EPOCH) {
        Ok(after) => ticks(after),
        Err(before) => -ticks(before.duration()),
    };
    Instant::from_ticks(ticks.clamp(Instant::MIN.ticks(), Instant::MAX.ticks()))
        .unwrap_or(Instant::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_clock_is_converted_exactly() {
        let at = |seconds, nanos| instant_of(UNIX_EPOCH + Duration::new(seconds, nanos)).ticks();
        assert_eq!(at(0, 0), 0);
        assert_eq!(at(1_800_000_000, 123_456_000), 18_000_000_001_234_560);
        assert_eq!(at(253_402_300_799, 999_999_000), Instant::MAX.ticks() - 9);
        assert_eq!(instant_of(UNIX_EPOCH - Duration::from_micros(1)).ticks(), -10);
    }
}
