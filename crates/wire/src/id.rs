//! Resource types, ids and names.

use kalends_domain::{CollectionPath, GroupPath, JobPath};

pub(crate) const COLLECTION_TYPE: &str = "Microsoft.Scheduler/jobCollections";
pub(crate) const JOB_TYPE: &str = "Microsoft.Scheduler/jobCollections/jobs";
pub(crate) const HISTORY_TYPE: &str = "Microsoft.Scheduler/jobCollections/jobs/history";

/// Returns the resource id of a collection, in the casing of its creation.
pub fn collection_id(path: &CollectionPath) -> String {
    id_of(path, "", "")
}

/// Returns the resource id of a job, in the casing of its creation.
pub fn job_id(path: &JobPath) -> String {
    id_of(&path.collection, "/jobs/", path.job.as_str())
}

/// The id of a collection, continued by a keyword and a name. Without formatting, because every
/// response with a job has one.
fn id_of(path: &CollectionPath, keyword: &str, name: &str) -> String {
    let CollectionPath { group: GroupPath { subscription, group }, collection } = path;
    [
        "/subscriptions/",
        subscription.as_str(),
        "/resourceGroups/",
        group.as_str(),
        "/providers/",
        COLLECTION_TYPE,
        "/",
        collection.as_str(),
        keyword,
        name,
    ]
    .concat()
}

/// Returns the `name` of a job in responses: `collection/job`.
pub(crate) fn job_name(path: &JobPath) -> String {
    [path.collection.collection.as_str(), "/", path.job.as_str()].concat()
}
