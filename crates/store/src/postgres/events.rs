//! What came into the history and the ledger of all jobs, for who follows it.

use kalends_domain::JobPath;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::events::{ClosingRecord, EventPosition, Events};
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::columns::{entry_columns, ledger_columns};
use crate::postgres::jobs_for_run::switch;
use crate::postgres::row::{self, get};
use crate::record::HistoryRecord;
use crate::store::JobFilterState;

impl PostgresStore {
    /// Numbers are given out before a transaction commits: one may be seen after a larger one.
    pub(super) async fn read_events(
        &self,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Events, StoreError> {
        let newest = "SELECT (SELECT coalesce(max(sequence), 0) FROM history) AS entry,
                (SELECT coalesce(max(number), 0) FROM ledger) AS closing";
        let newest = match self.ask(newest, &[]).await?.first() {
            Some(found) => EventPosition {
                entry: row::unsigned(found, "entry")?,
                closing: row::unsigned(found, "closing")?,
            },
            None => EventPosition::default(),
        };
        let Some(after) = after else { return Ok(Events { newest, ..Events::default() }) };
        // Entries later: who is told of a row is told of the attempts before it.
        let closings = self.closings_after(after.closing, limit).await?;
        let entries = self.entries_after(after.entry, limit).await?;
        // They were read later.
        let entry = entries.last().map_or(0, |(_, record)| record.sequence);
        let closing = closings.last().map_or(0, |(_, record)| record.number);
        let newest =
            EventPosition { entry: newest.entry.max(entry), closing: newest.closing.max(closing) };
        Ok(Events { entries, closings, newest })
    }

    async fn entries_after(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(JobPath, HistoryRecord)>, StoreError> {
        let sql = concat!(
            "SELECT h.sequence, ",
            entry_columns!("h."),
            ", j.name AS job_name, c.name AS collection_name, g.subscription, g.name AS group_name
             FROM history h JOIN jobs j ON j.key = h.job JOIN collections c ON c.id = j.collection_id
             JOIN groups g ON g.id = c.group_id
             WHERE h.sequence > $1 ORDER BY h.sequence LIMIT $2"
        );
        let found = self.ask(sql, &[&rows_max(after), &rows_max(limit)]).await?;
        found.iter().map(|found| Ok((row::job_path(found)?, row::history(found)?))).collect()
    }

    async fn closings_after(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(JobPath, ClosingRecord)>, StoreError> {
        let sql = concat!(
            "SELECT l.number, ",
            ledger_columns!("l."),
            ", s.enabled, s.lifecycle, j.name AS job_name, c.name AS collection_name,
                g.subscription, g.name AS group_name
             FROM ledger l JOIN jobs j ON j.key = l.job JOIN states s ON s.job = l.job
             JOIN collections c ON c.id = j.collection_id JOIN groups g ON g.id = c.group_id
             WHERE l.number > $1 ORDER BY l.number LIMIT $2"
        );
        let found = self.ask(sql, &[&rows_max(after), &rows_max(limit)]).await?;
        let closing = |found: &Row| {
            let job =
                JobFilterState::of(switch(get(found, "enabled")?), row::word(found, "lifecycle")?);
            let number = row::unsigned(found, "number")?;
            let record = ClosingRecord { number, row: row::ledger(found)?, job };
            Ok((row::job_path(found)?, record))
        };
        found.iter().map(closing).collect()
    }
}
