//! Resource types, ids and names.

use kalends_domain::{CollectionPath, JobPath};

pub(crate) const COLLECTION_TYPE: &str = "Microsoft.Scheduler/jobCollections";
pub(crate) const JOB_TYPE: &str = "Microsoft.Scheduler/jobCollections/jobs";
pub(crate) const HISTORY_TYPE: &str = "Microsoft.Scheduler/jobCollections/jobs/history";

/// Returns the resource id of a collection, in the casing of its creation.
pub fn collection_id(path: &CollectionPath) -> String {
    let group = &path.group;
    format!(
        "/subscriptions/{}/resourceGroups/{}/providers/{COLLECTION_TYPE}/{}",
        group.subscription, group.group, path.collection
    )
}

/// Returns the resource id of a job, in the casing of its creation.
pub fn job_id(path: &JobPath) -> String {
    format!("{}/jobs/{}", collection_id(&path.collection), path.job)
}

/// Returns the `name` of a job in responses: `collection/job`.
pub(crate) fn job_name(path: &JobPath) -> String {
    format!("{}/{}", path.collection.collection, path.job)
}
