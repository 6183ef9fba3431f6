//! Resource names in the form in which they are compared: without regard to case.

use kalends_domain::{CollectionPath, JobPath};

/// The comparison keys of a collection's path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CollectionKeys {
    pub(crate) subscription: String,
    pub(crate) group: String,
    pub(crate) collection: String,
}

/// The comparison keys of a job's path.
pub(crate) struct PathKeys {
    pub(crate) collection: CollectionKeys,
    pub(crate) job: String,
}

impl CollectionKeys {
    pub(crate) fn new(path: &CollectionPath) -> CollectionKeys {
        CollectionKeys {
            subscription: path.group.subscription.key(),
            group: path.group.group.key(),
            collection: path.collection.key(),
        }
    }
}

impl PathKeys {
    pub(crate) fn new(path: &JobPath) -> PathKeys {
        PathKeys { collection: CollectionKeys::new(&path.collection), job: path.job.key() }
    }
}
