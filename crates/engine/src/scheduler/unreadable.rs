//! Jobs that cannot be read. They are put aside, so that they do not hold up other jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use kalends_store::UnreadableJob;
use kalends_store::record::{JobKey, OpenRun};

use super::start_runs::ItemToRead;
use super::{DueItem, Scheduler};
use crate::status::CallKind;

/// Time after which an unreadable job is read again. Replacing it creates a job with another key,
/// which is not delayed.
const RETRY_AFTER: Duration = Duration::from_secs(300);
/// Maximum number of jobs put aside; more are read with every load.
const UNREADABLE_MAX: usize = 10_000;

/// Jobs put aside, with the uptime at which they are read again.
#[derive(Default)]
pub(super) struct UnreadableJobs(BTreeMap<JobKey, Duration>);

impl UnreadableJobs {
    pub(super) fn contains(&self, job: JobKey) -> bool {
        self.0.contains_key(&job)
    }
}

impl Scheduler {
    /// Puts the unreadable jobs of a batch aside and returns the others to the timetable.
    pub(super) fn put_aside(&mut self, items: Vec<ItemToRead>, jobs: Vec<UnreadableJob>) {
        self.outage.call_succeeded(CallKind::Read, self.now());
        let retry_at = self.services.clock.uptime() + RETRY_AFTER;
        let (count, seconds) = (jobs.len(), RETRY_AFTER.as_secs());
        if let Some(first) = jobs.first() {
            tracing::error!(count, error = %first, seconds, "unreadable jobs put aside");
        }
        for job in jobs {
            if self.unreadable.0.len() < UNREADABLE_MAX {
                self.unreadable.0.insert(job.key, retry_at);
            }
        }
        let mut is_any_put_aside = false;
        for item in items {
            self.release_item_to_read(&item);
            match item.item {
                item if self.unreadable.contains(item.job()) => is_any_put_aside = true,
                DueItem::Job(due) => self.timetable.add_job(due),
                DueItem::Run(OpenRun { waits_for: Some(key), .. }) => self.parked.add(key),
                DueItem::Run(run) => self.timetable.add_run(run),
            }
        }
        if !is_any_put_aside {
            // The same read would fail again at once.
            self.pause_store_calls(CallKind::Read);
        }
        self.settings.metrics.set_unreadable_jobs(self.unreadable.0.len());
    }

    /// Reads jobs again that were put aside some time ago.
    pub(super) fn retry_unreadable_jobs(&mut self) {
        let uptime = self.services.clock.uptime();
        self.unreadable.0.retain(|_, retry_at| uptime < *retry_at);
        self.settings.metrics.set_unreadable_jobs(self.unreadable.0.len());
    }
}
