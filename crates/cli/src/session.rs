//! The server and the output of one command.

use std::time::Duration;

use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::api::Api;
use crate::context::ContextFile;
use crate::error::CliError;
use crate::output::{Output, OutputArguments};
use crate::resource_name::check_collection;
use crate::target::{ServerArguments, Target, Variables};

/// Clock difference between client and server that lists of runs allow for.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// Arguments of every command that calls a server
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArguments {
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of every command on jobs
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobSessionArguments {
    /// Collection of jobs that are named without one [default: that of the context, else default]
    #[arg(long, short, value_name = "COLLECTION", global = true)]
    collection: Option<String>,

    #[command(flatten)]
    session: SessionArguments,
}

impl JobSessionArguments {
    /// Selects server and collection.
    pub(crate) fn open<'a>(&self, clock: &'a dyn Clock) -> Result<Session<'a>, CliError> {
        let mut session = Session::new(&self.session, clock)?;
        if let Some(collection) = &self.collection {
            session.collection = check_collection(collection)?;
            session.is_collection_given = true;
        }
        Ok(session)
    }
}

/// The server and the output of one command.
pub(crate) struct Session<'a> {
    pub(crate) api: Api,
    pub(crate) output: Output,
    /// The collection of jobs that are named without one.
    pub(crate) collection: String,
    /// Whether the user named the collection, so that lists have only its jobs.
    is_collection_given: bool,
    pub(crate) clock: &'a dyn Clock,
}

impl<'a> Session<'a> {
    /// Selects the server. Does not connect yet.
    pub(crate) fn new(
        arguments: &SessionArguments,
        clock: &'a dyn Clock,
    ) -> Result<Session<'a>, CliError> {
        let file = match ContextFile::default_path() {
            Some(path) => ContextFile::read(&path)?,
            None => ContextFile::default(),
        };
        let target = Target::select(&arguments.server, &Variables::read(), &file)?;
        let collection = target.collection.clone();
        let output = Output::new(&arguments.output, clock);
        let api = Api::new(target)?;
        Ok(Session { api, output, collection, is_collection_given: false, clock })
    }

    /// The end of a range that includes all runs so far, also if the clock of the server is ahead.
    pub(crate) fn soon(&self) -> String {
        Instant::from(self.clock.now()).saturating_add(CLOCK_DIFFERENCE).to_string()
    }

    /// The collection that lists are limited to; `None` for all.
    pub(crate) fn only_collection(&self) -> Option<&str> {
        self.is_collection_given.then_some(self.collection.as_str())
    }

    /// Applies a change to each of several resources. Reports each failure and continues.
    pub(crate) fn for_each<T: std::fmt::Display>(
        &self,
        resources: &[T],
        mut apply: impl FnMut(&T) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        if let [resource] = resources {
            return apply(resource);
        }
        let mut status = None;
        let mut failed = 0;
        for resource in resources {
            if let Err(error) = apply(resource) {
                crate::report(&format!("{resource}: {error}"), error.hint().as_deref());
                status.get_or_insert(error.exit_status());
                failed += 1;
            }
        }
        match status {
            None => Ok(()),
            Some(status) => Err(CliError::Several { failed, total: resources.len(), status }),
        }
    }
}
