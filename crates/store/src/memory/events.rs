//! New history entries and ledger rows, for event subscribers.

use kalends_domain::JobPath;

use crate::api_store::JobFilterState;
use crate::events::{EventPosition, Events, LedgerEvent};
use crate::memory::tables::Tables;
use crate::record::{HistoryRecord, JobKey, LedgerRecord};

impl Tables {
    pub(super) fn events(&self, after: Option<EventPosition>, limit: usize) -> Events {
        let history = self.history.iter().flat_map(|(key, records)| {
            records.iter().filter_map(|record| Some((self.paths.get(key)?.clone(), record.clone())))
        });
        let mut history: Vec<(JobPath, HistoryRecord)> = history.collect();
        history.sort_by_key(|(_, record)| record.sequence);
        let ledger = self.ledger.iter().flat_map(|(key, rows)| {
            rows.iter().filter_map(|(number, row)| self.ledger_event(*key, *number, &row.record))
        });
        let mut ledger: Vec<(JobPath, LedgerEvent)> = ledger.collect();
        ledger.sort_by_key(|(_, record)| record.number);
        let newest = EventPosition {
            history: history.last().map_or(0, |(_, record)| record.sequence),
            ledger: ledger.last().map_or(0, |(_, record)| record.number),
        };
        history.retain(|(_, record)| after.is_some_and(|after| record.sequence > after.history));
        ledger.retain(|(_, record)| after.is_some_and(|after| record.number > after.ledger));
        history.truncate(limit);
        ledger.truncate(limit);
        Events { history, ledger, newest }
    }

    fn ledger_event(
        &self,
        key: JobKey,
        number: u64,
        row: &LedgerRecord,
    ) -> Option<(JobPath, LedgerEvent)> {
        let record = &self.job(key)?.record;
        let job_state = JobFilterState::of(record.job.definition.switch, record.state.lifecycle);
        Some((record.path.clone(), LedgerEvent { number, record: row.clone(), job_state }))
    }
}
