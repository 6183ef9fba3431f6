//! The pause of all jobs.

use kalends_domain::NewNote;
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::api_store::{DecidePause, PauseContext, PauseWrite, active_pause};
use crate::error::StoreError;
use crate::notes::action_on_pause;
use crate::postgres::PostgresStore;
use crate::postgres::clock::clock_of;
use crate::postgres::columns::pause_columns;
use crate::postgres::error::PostgresError;
use crate::postgres::notes::{SubjectKey, add_note};
use crate::postgres::row::{get, optional_at};
use crate::postgres::transaction::{Operation, Transaction, execute, query};
use crate::record::{Pause, PauseRecord};

/// The clock of the database and the newest pause, in one row.
pub(super) const CLOCK_AND_PAUSE: &str = concat!(
    "SELECT clock_timestamp() AS clock, p.reason, p.author, ",
    pause_columns!(),
    " FROM (SELECT) one LEFT JOIN pause p ON true"
);

/// The time and the newest pause in the result of [`CLOCK_AND_PAUSE`].
pub(super) fn clock_and_pause_of(
    rows: &[Row],
) -> Result<(Instant, Option<PauseRecord>), StoreError> {
    let now = clock_of(rows)?;
    let record = |row: &Row| {
        let Some(pause) = pause(row)? else { return Ok(None) };
        Ok(Some(PauseRecord { pause, reason: get(row, "reason")?, by: get(row, "author")? }))
    };
    let record: Result<_, StoreError> = rows.first().map(record).transpose();
    Ok((now, record?.flatten()))
}

/// Reads the clock and the newest pause in a statement of its own, after those that wait for locks.
pub(super) async fn clock_and_pause(
    transaction: &Transaction<'_>,
) -> Result<(Instant, Option<PauseRecord>), PostgresError> {
    Ok(clock_and_pause_of(&query(transaction, CLOCK_AND_PAUSE, &[]).await?)?)
}

/// The columns of `pause_columns!`; `None` if there was no pause yet.
pub(super) fn pause(row: &Row) -> Result<Option<Pause>, StoreError> {
    let Some(since) = optional_at(row, "pause_since")? else { return Ok(None) };
    let pause = Pause::new(since, optional_at(row, "pause_until")?);
    let resumed = optional_at(row, "pause_resumed")?;
    Ok(Some(resumed.map_or(pause, |at| pause.resumed(at))))
}

impl PostgresStore {
    /// The pause that holds now.
    pub(super) async fn read_pause(&self) -> Result<Option<PauseRecord>, StoreError> {
        let (now, newest) = clock_and_pause_of(&self.query(CLOCK_AND_PAUSE, &[]).await?)?;
        Ok(newest.filter(|record| record.pause.is_active(now)))
    }
}

/// Pauses all jobs, or changes or ends the pause, as `decide` returns, and adds the note.
pub(super) struct EditPause {
    pub(super) decide: DecidePause,
    pub(super) note: Option<NewNote>,
}

impl Operation for EditPause {
    type Output = Option<PauseRecord>;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Option<PauseRecord>, PostgresError> {
        // Excludes other edits, also of a table without a row, and no reader.
        execute(transaction, "LOCK TABLE pause IN SHARE ROW EXCLUSIVE MODE", &[]).await?;
        let (now, before) = clock_and_pause(transaction).await?;
        let active = active_pause(before.as_ref(), now);
        let write = (self.decide)(PauseContext { active, now }).map_err(StoreError::Rejected)?;
        if let Some(note) = &self.note {
            let (subject, action) = (SubjectKey::ALL_JOBS, action_on_pause(&write));
            add_note(transaction, subject, action, note, now).await?;
        }
        let after = match write {
            PauseWrite::Keep => before,
            PauseWrite::Put(record) => {
                put(transaction, &record).await?;
                Some(record)
            }
        };
        Ok(after.filter(|record| record.pause.is_active(now)))
    }
}

async fn put(transaction: &Transaction<'_>, record: &PauseRecord) -> Result<(), PostgresError> {
    let PauseRecord { pause, reason, by } = record;
    let put = "INSERT INTO pause (id, since, until, resumed, reason, author)
         VALUES (1, $1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET since = $1, until = $2, resumed = $3, reason = $4,
             author = $5";
    let ticks = |at: Option<Instant>| at.map(Instant::ticks);
    let since = pause.since.ticks();
    let (until, resumed) = (ticks(pause.until()), ticks(pause.resumed_at()));
    execute(transaction, put, &[&since, &until, &resumed, reason, by]).await?;
    Ok(())
}
