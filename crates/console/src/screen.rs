//! The screens of the console and their URLs.

use crate::address::{CollectionAddress, JobAddress};

/// A page of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Current, coming and failed runs.
    Overview,
    /// All jobs, with search.
    Jobs,
    /// One job.
    Job(JobAddress),
    /// One run of a job, named by its scheduled time.
    Run(JobAddress, String),
    /// The editor with a new job.
    NewJob,
    /// The editor with an existing job.
    EditJob(JobAddress),
    /// Runs of all jobs.
    Runs,
    /// All collections.
    Collections,
    /// One collection.
    Collection(CollectionAddress),
    /// This node, the store, pause.
    System,
    /// Sign-in.
    SignIn,
    /// A path that no other screen has.
    Missing,
}

impl Screen {
    /// The screen of a path, given as decoded segments.
    pub fn of(segments: &[&str]) -> Option<Screen> {
        match segments {
            [""] => Some(Screen::Overview),
            ["jobs"] => Some(Screen::Jobs),
            ["new-job"] => Some(Screen::NewJob),
            ["runs"] => Some(Screen::Runs),
            ["collections"] => Some(Screen::Collections),
            ["system"] => Some(Screen::System),
            ["sign-in"] => Some(Screen::SignIn),
            ["collections", rest @ ..] => match CollectionAddress::read(rest)? {
                (collection, []) => Some(Screen::Collection(collection)),
                _ => None,
            },
            ["jobs", rest @ ..] => {
                let (collection, rest) = CollectionAddress::read(rest)?;
                let (job, rest) = rest.split_first().filter(|(name, _)| !name.is_empty())?;
                let job = JobAddress { collection, job: (*job).to_owned() };
                match rest {
                    [] => Some(Screen::Job(job)),
                    ["edit"] => Some(Screen::EditJob(job)),
                    ["runs", time] => Some(Screen::Run(job, (*time).to_owned())),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether the page is the same for everybody.
    pub fn is_public(&self) -> bool {
        *self == Screen::SignIn
    }

    /// The collection that the screen belongs to.
    pub(crate) fn collection(&self) -> Option<&CollectionAddress> {
        match self {
            Screen::Job(job) | Screen::Run(job, _) | Screen::EditJob(job) => Some(&job.collection),
            Screen::Collection(collection) => Some(collection),
            _ => None,
        }
    }

    /// The entry of the navigation that the screen belongs to.
    pub(crate) fn section(&self) -> &'static str {
        match self {
            Screen::Overview => "Overview",
            Screen::Jobs | Screen::Job(_) | Screen::NewJob | Screen::EditJob(_) => "Jobs",
            Screen::Run(..) | Screen::Runs => "Runs",
            Screen::Collections | Screen::Collection(_) => "Collections",
            Screen::System => "System",
            Screen::SignIn | Screen::Missing => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_screens() {
        let screen = |path: &str| Screen::of(&path.split('/').collect::<Vec<_>>());
        assert_eq!(screen(""), Some(Screen::Overview));
        let Some(Screen::Job(job)) = screen("jobs/billing/export") else { panic!("no job") };
        assert_eq!(job.in_api(), "/api/collections/billing/jobs/export");
        assert_eq!(job.in_console(), "billing/export");
        let Some(Screen::EditJob(job)) = screen("jobs/@6c55/rg/c/j/edit") else { panic!("no job") };
        assert_eq!(job.in_console(), "%406c55/rg/c/j".replace("%40", "@"));
        assert_eq!(
            job.in_api(),
            "/subscriptions/6c55/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/c/jobs/j"
        );
        for path in
            ["x", "jobs/", "jobs/c", "jobs/c/", "jobs/c/j/x", "collections/c/x", "jobs/@s/g"]
        {
            assert_eq!(screen(path), None, "{path}");
        }
    }
}
