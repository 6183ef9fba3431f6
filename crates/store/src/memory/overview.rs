//! Reads over all collections.

use std::ops::Bound;

use kalends_domain::{AccessScope, CollectionPath, Switch};
use kalends_recurrence::{Definition, Instant};

use crate::memory::tables::{JobRow, Tables};
use crate::overview_store::{
    CollectionSummary, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary, ScannedSchedule,
    ScannedState, ScannedText, SchedulesPage, SearchPosition, StatesPage, TextsFrom, TextsPage,
};
use crate::record::{CollectionKey, Job, JobKey, JobRecord};
use crate::search::search_text;

impl Tables {
    pub(super) fn collection_summaries(
        &self,
        scope: &AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Vec<CollectionSummary> {
        let range = self.collections.range((from, Bound::Unbounded));
        let in_scope =
            range.filter(|(path, _)| scope.covers(&AccessScope::Collection((*path).clone())));
        let summary = |(path, record): (&CollectionPath, &crate::record::CollectionRecord)| {
            let key = *self.collection_keys.get(path)?;
            Some(CollectionSummary { key, record: record.clone(), jobs: self.facts(path).jobs })
        };
        in_scope.filter_map(summary).take(limit).collect()
    }

    pub(super) fn search_jobs(&self, search: &JobSearch) -> JobSearchPage {
        let mut page = JobSearchPage::default();
        let mut left = search.scan_max.max(1);
        for (number, collection) in search.collections.iter().enumerate() {
            let after = search.after.as_ref().filter(|_| number == 0);
            let rows = self.rows_of(collection.key);
            let rows = rows.filter(|row| after.is_none_or(|after| row.record.path.job > *after));
            let words = search.words_of(collection);
            for row in rows {
                let name = &row.record.path.job;
                let holds = |text: &String| {
                    name.as_str().to_lowercase().contains(text)
                        || format!("\n{}\n", search_text(&row.record.job.definition)).contains(text)
                };
                if words.iter().all(holds) {
                    page.jobs.extend(
                        self.summary(row).map(|state| JobMatch { name: name.clone(), state }),
                    );
                }
                left -= 1;
                if left == 0 {
                    let after = Some(name.clone());
                    page.rest = Some(SearchPosition { collection: collection.key, after });
                    return page;
                }
            }
        }
        page
    }

    pub(super) fn jobs_of_set(&self, set: JobSet, limit: usize) -> Option<Vec<JobMatch>> {
        let matches = |row: &JobRow| {
            let state = self.summary(row).filter(|state| set.contains(state))?;
            Some(JobMatch { name: row.record.path.job.clone(), state })
        };
        let found: Vec<_> = self.jobs.values().filter_map(matches).take(limit + 1).collect();
        (found.len() <= limit).then_some(found)
    }

    pub(super) fn jobs_by_key(&self, jobs: &[JobKey]) -> Vec<JobRecord> {
        jobs.iter().filter_map(|key| Some(self.job(*key)?.record.clone())).collect()
    }

    pub(super) fn states_by_key(&self, jobs: &[JobKey]) -> Vec<JobSummary> {
        jobs.iter().filter_map(|key| self.summary(self.job(*key)?)).collect()
    }

    pub(super) fn newest_job(&self) -> JobKey {
        self.jobs.values().map(|row| row.record.key).max().unwrap_or(JobKey(0))
    }

    pub(super) fn scan_texts(&self, from: &TextsFrom, limit: usize) -> TextsPage {
        let text = |row: &JobRow| {
            let JobRecord { key, path, job, .. } = &row.record;
            let collection = *self.collection_keys.get(&path.collection)?;
            let (name, text) = (path.job.clone(), search_text(&job.definition));
            Some(ScannedText { job: *key, collection, name, text })
        };
        let mut texts: Vec<_> = self.jobs.values().filter_map(text).collect();
        match from {
            TextsFrom::Key(after) => {
                texts.retain(|text| text.job > *after);
                texts.sort_by_key(|text| text.job);
            }
            TextsFrom::Name(after) => {
                let place = |text: &ScannedText| (text.collection, text.name.clone());
                texts.retain(|text| after.as_ref().is_none_or(|after| place(text) > *after));
                texts.sort_by_key(place);
            }
        }
        texts.truncate(limit.max(1));
        TextsPage { is_full: texts.len() >= limit.max(1), texts }
    }

    pub(super) fn scan_states(&self, after: Option<JobKey>, limit: usize) -> StatesPage {
        let (rows, next) = self.rows_after(after, limit);
        let state = |row: &JobRow| {
            let job = self.summary(row)?;
            let created = (job.switch == Switch::Disabled).then_some(row.record.job.created);
            Some(ScannedState { job, created })
        };
        StatesPage { states: rows.into_iter().filter_map(state).collect(), next }
    }

    pub(super) fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> SchedulesPage {
        let (rows, next) = self.rows_after(after, limit);
        let schedule = |row: &JobRow| {
            let job = self.summary(row)?;
            let Job { definition, created, .. } = &row.record.job;
            let (start, recurrence) = (definition.start, definition.recurrence.as_deref().cloned());
            job.is_scanned(row.facts.authenticated, due_before).then(|| ScannedSchedule {
                job,
                definition: Some(Definition { start, created: *created, recurrence }),
                certificate_end: definition.certificate_end(),
            })
        };
        SchedulesPage { schedules: rows.into_iter().filter_map(schedule).collect(), next }
    }

    /// Jobs in key order, and the last one if there are more.
    fn rows_after(&self, after: Option<JobKey>, limit: usize) -> (Vec<&JobRow>, Option<JobKey>) {
        let mut rows: Vec<_> = self.jobs.values().collect();
        rows.retain(|row| after.is_none_or(|after| row.record.key > after));
        rows.sort_by_key(|row| row.record.key);
        let is_full = rows.len() >= limit.max(1);
        rows.truncate(limit.max(1));
        let last = rows.last().map(|row| row.record.key).filter(|_| is_full);
        (rows, last)
    }

    fn rows_of(&self, collection: CollectionKey) -> impl Iterator<Item = &JobRow> {
        let path = self.collection_keys.iter().find(|(_, key)| **key == collection);
        path.into_iter().flat_map(|(path, _)| self.jobs_of(path))
    }

    fn summary(&self, row: &JobRow) -> Option<JobSummary> {
        let JobRecord { key, path, job, state, .. } = &row.record;
        Some(JobSummary {
            job: *key,
            collection: *self.collection_keys.get(&path.collection)?,
            switch: job.definition.switch,
            lifecycle: state.lifecycle,
            due: state.due,
            used: state.used,
            last_execution: state.last_execution,
            enabled_since: job.enabled_since,
            consecutive_failures: state.consecutive_failures,
        })
    }
}
