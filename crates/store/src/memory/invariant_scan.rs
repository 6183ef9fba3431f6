//! Jobs as the invariant scan reads them.

use kalends_domain::{ActionRole, AttemptStatus};

use crate::invariant_scan::{HistorySums, Orphan, ScanPage, ScannedJob};
use crate::memory::tables::Tables;
use crate::record::{HistoryRecord, JobKey};

impl Tables {
    pub(super) fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> ScanPage {
        let mut keys: Vec<_> = self.paths.keys().copied().collect();
        keys.retain(|key| after.is_none_or(|after| *key > after));
        keys.sort_unstable();
        let mut page = ScanPage::default();
        let mut left = scan_max.max(1);
        for key in &keys {
            let Some(job) = self.scan_job(*key) else {
                page.orphans.push(Orphan::Job(*key));
                continue;
            };
            left = left.saturating_sub(1 + job.open.len() + job.history.entries as usize);
            page.jobs.push(job);
            if left == 0 {
                page.next = Some(*key).filter(|key| Some(key) != keys.last());
                break;
            }
        }
        let until = page.next.unwrap_or(JobKey(i64::MAX));
        let runs = self.runs.values().map(|row| &row.run);
        let runs = runs.filter(|run| after.is_none_or(|after| run.job > after) && run.job <= until);
        let orphans = runs.filter(|run| !self.paths.contains_key(&run.job));
        page.orphans.extend(orphans.map(|run| Orphan::Run(run.id)));
        page
    }

    fn scan_job(&self, key: JobKey) -> Option<ScannedJob> {
        let record = &self.job(key)?.record;
        Some(ScannedJob {
            job: key,
            collection: *self.collection_keys.get(&record.path.collection)?,
            created: record.job.created,
            gate_state: self.gate_state(key)?,
            open: self.open_runs(key),
            history: self.history.get(&key).map(|entries| sums(entries)).unwrap_or_default(),
        })
    }
}

fn sums(entries: &[HistoryRecord]) -> HistorySums {
    let mut sums = HistorySums::default();
    for HistoryRecord { entry, .. } in entries {
        let is_main = entry.role == ActionRole::Main && entry.status != AttemptStatus::Postponed;
        sums.entries += 1;
        sums.attempts += u64::from(is_main);
        sums.failures += u64::from(is_main && entry.status == AttemptStatus::Failed);
    }
    sums
}
