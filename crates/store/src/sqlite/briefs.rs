//! Many jobs at once, for who begins and ends their runs.

use rusqlite::{Connection, Row};

use kalends_domain::Switch;

use crate::form::{Keeper, read_collection};
use crate::record::{JobBrief, JobKey, JobStanding};
use crate::sqlite::code::{Coded, collect, read};
use crate::sqlite::jobs::{self, read_state};
use crate::sqlite::runs;
use crate::sqlite::trouble::Worked;

/// What there is to know of jobs before runs of them are begun.
pub(crate) fn briefs(
    connection: &Connection,
    keeper: &Keeper,
    jobs: &[JobKey],
) -> Worked<Vec<Option<JobBrief>>> {
    jobs.iter().map(|&key| brief(connection, keeper, key)).collect()
}

fn brief(connection: &Connection, keeper: &Keeper, key: JobKey) -> Worked<Option<JobBrief>> {
    let Some((job, around)) = jobs::by_key(connection, keeper, key)? else { return Ok(None) };
    let location = read_collection(&around.definition)?.location;
    let (collection, open) = (around.key, runs::of_job(connection, key)?);
    Ok(Some(JobBrief { job, collection, location, open }))
}

/// How jobs stand.
pub(crate) fn standings(
    connection: &Connection,
    jobs: &[JobKey],
) -> Worked<Vec<Option<JobStanding>>> {
    let mut statement = connection.prepare_cached(
        "SELECT s.generation, s.switched_on, s.lifecycle, s.due, s.used, s.last_execution,
             s.executions, s.failures, s.faulted, s.finished, c.enabled
         FROM state s JOIN collections c ON c.id = s.collection WHERE s.job = ?",
    )?;
    let mut standing =
        |key: &JobKey| Ok(collect(statement.query([Coded(*key)])?, read_standing)?.pop());
    jobs.iter().map(&mut standing).collect()
}

fn read_standing(row: &Row<'_>) -> Worked<JobStanding> {
    Ok(JobStanding {
        generation: read(row, "generation")?,
        switch: switch(row, "switched_on")?,
        collection: switch(row, "enabled")?,
        state: read_state(row)?,
    })
}

fn switch(row: &Row<'_>, column: &str) -> Worked<Switch> {
    Ok(if row.get(column)? { Switch::Enabled } else { Switch::Disabled })
}
