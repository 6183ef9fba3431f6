//! Names of collections and jobs on the command line.

use std::fmt;

use kalends_domain::{CollectionName, JobName};

use crate::error::CliError;

/// The collection of jobs that are named without one.
pub(crate) const DEFAULT_COLLECTION: &str = "default";

/// A job, written `JOB` or `COLLECTION/JOB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRef {
    pub(crate) collection: String,
    pub(crate) job: String,
}

impl JobRef {
    /// Parses a name. Without a collection the job is in `collection`.
    pub(crate) fn parse(text: &str, collection: &str) -> Result<JobRef, CliError> {
        let (collection, job) = text.split_once('/').unwrap_or((collection, text));
        let collection = check_collection(collection)?;
        match JobName::new(job) {
            Ok(_) => Ok(JobRef { collection, job: job.to_owned() }),
            Err(error) => Err(CliError::usage(format!(
                "the name of a job {error} (found {job:?}); write JOB or COLLECTION/JOB"
            ))),
        }
    }

    /// Parses several names.
    pub(crate) fn parse_all(texts: &[String], collection: &str) -> Result<Vec<JobRef>, CliError> {
        texts.iter().map(|text| JobRef::parse(text, collection)).collect()
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.collection, self.job)
    }
}

/// Checks the name of a collection, which then is safe in a path.
pub(crate) fn check_collection(name: &str) -> Result<String, CliError> {
    match CollectionName::new(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(error) => {
            Err(CliError::usage(format!("the name of a collection {error} (found {name:?})")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_with_or_without_its_collection() {
        let job = |text: &str| JobRef::parse(text, "web").map(|job| job.to_string());
        assert_eq!(job("nightly").unwrap(), "web/nightly");
        assert_eq!(job("etl/nightly").unwrap(), "etl/nightly");
        for text in ["", "a/b/c", "../x", "web/", "/x", "a?b", "a b"] {
            let error = job(text).unwrap_err().to_string();
            assert!(error.starts_with("the name of a"), "{text}: {error}");
        }
    }
}
