//! Checks occurrences that users requested to skip: each is skipped or did not run for a reason that comes
//! first, and no other occurrence is skipped.

use kalends_store::record::Disposition;

use super::{Check, JobEvidence, OccurrenceRecord, is_off};
use crate::users::Version;

impl Check<'_> {
    /// Checks a record of a generation, all of whose occurrences up to `skip_until` were to be skipped.
    pub(super) fn skips(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        record: &OccurrenceRecord,
    ) {
        let how = record.closed.map(|(how, _)| how);
        let is_skipped = how == Some(Disposition::SkippedByRequest);
        let is_requested = |at| version.skip_until.is_some_and(|until| at <= until);
        if is_skipped && !is_requested(record.to) {
            self.violation(job, format!("SKIP {record:?} is skipped without a request"));
        }
        // An edit of the schedule may have been first. It drops the request.
        let is_superseded = how == Some(Disposition::Superseded) && !self.was_called(job, record);
        let may_be_so = is_skipped || is_superseded || how.is_some_and(is_off);
        if is_requested(record.from) && !may_be_so {
            self.violation(
                job,
                format!("SKIP {record:?} is not skipped until {:?}", version.skip_until),
            );
        }
    }

    fn was_called(&self, job: JobEvidence<'_>, record: &OccurrenceRecord) -> bool {
        self.observations.calls.iter().any(|call| {
            (call.job, call.generation) == (job.tracked.number, record.generation)
                && (record.from..=record.to).contains(&call.scheduled)
        })
    }
}
