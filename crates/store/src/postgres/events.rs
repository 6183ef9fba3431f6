//! History entries and ledger rows of all jobs, for the event stream.

use kalends_domain::JobPath;
use tokio_postgres::Row;

use crate::api_store::JobFilterState;
use crate::error::StoreError;
use crate::events::{EventPosition, Events, LedgerEvent};
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::columns::{entry_columns, ledger_columns};
use crate::postgres::jobs_for_run::switch;
use crate::postgres::row::{self, get};
use crate::record::HistoryRecord;

impl PostgresStore {
    /// The database assigns numbers before the commit, so a smaller number may become visible after a
    /// larger one.
    pub(super) async fn read_events(
        &self,
        after: Option<EventPosition>,
        limit: usize,
    ) -> Result<Events, StoreError> {
        let newest = "SELECT (SELECT coalesce(max(sequence), 0) FROM history) AS history,
                (SELECT coalesce(max(number), 0) FROM ledger) AS ledger";
        let newest = match self.query(newest, &[]).await?.first() {
            Some(found) => EventPosition {
                history: row::unsigned(found, "history")?,
                ledger: row::unsigned(found, "ledger")?,
            },
            None => EventPosition::default(),
        };
        let Some(after) = after else { return Ok(Events { newest, ..Events::default() }) };
        // History after the ledger, so that an occurrence is never seen before its attempts.
        let ledger = self.ledger_after(after.ledger, limit).await?;
        let history = self.history_after(after.history, limit).await?;
        // Both were read after `newest`.
        let last_history = history.last().map_or(0, |(_, record)| record.sequence);
        let last_ledger = ledger.last().map_or(0, |(_, event)| event.number);
        let newest = EventPosition {
            history: newest.history.max(last_history),
            ledger: newest.ledger.max(last_ledger),
        };
        Ok(Events { history, ledger, newest })
    }

    async fn history_after(
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
        let found = self.query(sql, &[&rows_max(after), &rows_max(limit)]).await?;
        found.iter().map(|found| Ok((row::job_path(found)?, row::history(found)?))).collect()
    }

    async fn ledger_after(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(JobPath, LedgerEvent)>, StoreError> {
        let sql = concat!(
            "SELECT l.number, ",
            ledger_columns!("l."),
            ", s.enabled, s.lifecycle, j.name AS job_name, c.name AS collection_name,
                g.subscription, g.name AS group_name
             FROM ledger l JOIN jobs j ON j.key = l.job JOIN states s ON s.job = l.job
             JOIN collections c ON c.id = j.collection_id JOIN groups g ON g.id = c.group_id
             WHERE l.number > $1 ORDER BY l.number LIMIT $2"
        );
        let found = self.query(sql, &[&rows_max(after), &rows_max(limit)]).await?;
        let event = |found: &Row| {
            let job_state =
                JobFilterState::of(switch(get(found, "enabled")?), row::coded(found, "lifecycle")?);
            let number = row::unsigned(found, "number")?;
            let event = LedgerEvent { number, record: row::ledger(found)?, job_state };
            Ok((row::job_path(found)?, event))
        };
        found.iter().map(event).collect()
    }
}
