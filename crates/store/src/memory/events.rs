//! What came into history and the ledger, for who follows it.

use kalends_domain::JobPath;

use crate::events::{ClosingRecord, EventPosition, Events};
use crate::memory::kept::Kept;
use crate::record::{HistoryRecord, JobKey, LedgerRecord};
use crate::store::JobFilterState;

impl Kept {
    pub(super) fn events(&self, after: Option<EventPosition>, limit: usize) -> Events {
        let entries = self.history.iter().flat_map(|(key, records)| {
            records.iter().filter_map(|record| Some((self.paths.get(key)?.clone(), record.clone())))
        });
        let mut entries: Vec<(JobPath, HistoryRecord)> = entries.collect();
        entries.sort_by_key(|(_, record)| record.sequence);
        let closings = self.ledger.iter().flat_map(|(key, rows)| {
            rows.iter().filter_map(|(number, row)| self.closing(*key, *number, row))
        });
        let mut closings: Vec<(JobPath, ClosingRecord)> = closings.collect();
        closings.sort_by_key(|(_, record)| record.number);
        let newest = EventPosition {
            entry: entries.last().map_or(0, |(_, record)| record.sequence),
            closing: closings.last().map_or(0, |(_, record)| record.number),
        };
        entries.retain(|(_, record)| after.is_some_and(|after| record.sequence > after.entry));
        closings.retain(|(_, record)| after.is_some_and(|after| record.number > after.closing));
        entries.truncate(limit);
        closings.truncate(limit);
        Events { entries, closings, newest }
    }

    fn closing(
        &self,
        key: JobKey,
        number: u64,
        row: &LedgerRecord,
    ) -> Option<(JobPath, ClosingRecord)> {
        let record = &self.job(key)?.record;
        let job = JobFilterState::of(record.job.definition.switch, record.state.lifecycle);
        Some((record.path.clone(), ClosingRecord { number, row: row.clone(), job }))
    }
}
