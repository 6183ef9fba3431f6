//! Where a collection or job is: its name in the URLs of the console and its path in the API.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes one segment of a path or one value of a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// A subscription and resource group, other than the default ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) subscription: String,
    pub(crate) group: String,
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionAddress {
    /// `None`: the default one.
    pub(crate) group: Option<Group>,
    pub(crate) collection: String,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAddress {
    pub(crate) collection: CollectionAddress,
    pub(crate) job: String,
}

impl CollectionAddress {
    /// Reads an address from the segments of a URL of the console: `{collection}`, or
    /// `@{subscription}/{group}/{collection}`. Returns the rest of the segments too.
    pub(crate) fn read<'s, 'a>(
        segments: &'s [&'a str],
    ) -> Option<(CollectionAddress, &'s [&'a str])> {
        let (group, rest) = match segments {
            [first, group, rest @ ..] if first.starts_with('@') => {
                let subscription = first.trim_start_matches('@').to_owned();
                (Some(Group { subscription, group: (*group).to_owned() }), rest)
            }
            rest => (None, rest),
        };
        let (collection, rest) = rest.split_first().filter(|(name, _)| !name.is_empty())?;
        Some((CollectionAddress { group, collection: (*collection).to_owned() }, rest))
    }

    /// The address of the resource with an ARM id. `default_group` is the prefix of the ids in the
    /// default group: `/subscriptions/{subscription}/resourceGroups/{group}`.
    pub(crate) fn of_id(id: &str, default_group: &str) -> Option<CollectionAddress> {
        let segments: Vec<&str> = id.split('/').collect();
        let ["", _, subscription, _, group, _, _, _, collection, ..] = segments.as_slice() else {
            return None;
        };
        let prefix = format!("/subscriptions/{subscription}/resourceGroups/{group}");
        let group = (!prefix.eq_ignore_ascii_case(default_group)).then(|| Group {
            subscription: (*subscription).to_owned(),
            group: (*group).to_owned(),
        });
        Some(CollectionAddress { group, collection: (*collection).to_owned() })
    }

    /// The name, with that of a resource group other than the default one: `c`, `group/c`.
    pub(crate) fn label(&self) -> String {
        match &self.group {
            None => self.collection.clone(),
            Some(Group { group, .. }) => format!("{group}/{}", self.collection),
        }
    }

    /// The path below `jobs/` or `collections/` in the console.
    pub(crate) fn in_console(&self) -> String {
        let mut path = String::new();
        if let Some(Group { subscription, group }) = &self.group {
            let _ = write!(path, "@{}/{}/", encode(subscription), encode(group));
        }
        path + &encode(&self.collection)
    }

    /// The value of the parameter `collection` of the API.
    pub(crate) fn name_or_id(&self) -> String {
        match &self.group {
            None => self.collection.clone(),
            Some(Group { subscription, group }) => format!(
                "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections/{}",
                self.collection,
            ),
        }
    }

    /// The path in the API.
    pub(crate) fn in_api(&self) -> String {
        let collection = encode(&self.collection);
        match &self.group {
            None => format!("/api/collections/{collection}"),
            Some(Group { subscription, group }) => format!(
                "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Scheduler/jobCollections/{collection}",
                encode(subscription),
                encode(group),
            ),
        }
    }
}

impl JobAddress {
    pub(crate) fn of_id(id: &str, default_group: &str) -> Option<JobAddress> {
        let collection = CollectionAddress::of_id(id, default_group)?;
        let job = id.split('/').nth(10).filter(|job| !job.is_empty())?.to_owned();
        Some(JobAddress { collection, job })
    }

    /// Reads the path of a job below `jobs/` in the console.
    pub(crate) fn of_console_path(path: &str) -> Option<JobAddress> {
        let segments: Vec<_> = path
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
            .collect();
        let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
        match CollectionAddress::read(&segments)? {
            (collection, [job]) if !job.is_empty() => {
                Some(JobAddress { collection, job: (*job).to_owned() })
            }
            _ => None,
        }
    }

    pub(crate) fn in_console(&self) -> String {
        format!("{}/{}", self.collection.in_console(), encode(&self.job))
    }

    pub(crate) fn in_api(&self) -> String {
        format!("{}/jobs/{}", self.collection.in_api(), encode(&self.job))
    }

    /// The path in the API of something below the job, with its query.
    pub(crate) fn api(&self, rest: &str, query: &str) -> String {
        let version = match self.collection.group {
            Some(_) => "&api-version=2026-11-01",
            None => "",
        };
        format!("{}{rest}?{query}{version}", self.in_api())
    }
}
