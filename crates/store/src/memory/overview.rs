//! Reads over all collections.

use std::ops::Bound;

use kalends_domain::{AccessScope, CollectionPath};

use crate::memory::tables::{JobRow, Tables};
use crate::overview_store::{
    CollectionSummary, JobMatch, JobSearch, JobSearchPage, JobSummary, SearchPosition,
};
use crate::record::{CollectionKey, JobKey, JobRecord};
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
        let text = search.contains.as_ref().map(|text| text.to_lowercase());
        let mut page = JobSearchPage::default();
        let mut left = search.scan_max.max(1);
        for (number, collection) in search.collections.iter().enumerate() {
            let after = search.after.as_ref().filter(|_| number == 0);
            let rows = self.rows_of(collection.key);
            let rows = rows.filter(|row| after.is_none_or(|after| row.record.path.job > *after));
            let wanted = text.as_ref().filter(|_| !collection.matches);
            for row in rows {
                let name = &row.record.path.job;
                let holds = |text: &String| {
                    name.as_str().to_lowercase().contains(text)
                        || search_text(&row.record.job.definition).contains(text)
                };
                if wanted.is_none_or(holds) {
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

    pub(super) fn jobs_by_key(&self, jobs: &[JobKey]) -> Vec<JobRecord> {
        jobs.iter().filter_map(|key| Some(self.job(*key)?.record.clone())).collect()
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
            last_execution: state.last_execution,
            enabled_since: job.enabled_since,
            consecutive_failures: state.consecutive_failures,
        })
    }
}
