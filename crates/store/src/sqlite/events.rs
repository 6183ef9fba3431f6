//! What came into the history of all jobs, for who follows it.

use kalends_domain::{JobName, JobPath};
use rusqlite::Connection;

use crate::sqlite::code::{collect, rows};
use crate::sqlite::collections::read_collection_path;
use crate::sqlite::groups::no_name;
use crate::sqlite::history::read_entry;
use crate::sqlite::trouble::Worked;
use crate::store::Events;

/// Entries after the one of that number.
pub(crate) fn after(connection: &Connection, after: Option<u64>, limit: usize) -> Worked<Events> {
    let mut newest = connection.prepare_cached("SELECT coalesce(max(sequence), 0) FROM history")?;
    let newest: i64 = newest.query_row((), |row| row.get(0))?;
    let mut events = Events { entries: vec![], newest: newest.unsigned_abs() };
    let Some(after) = after else { return Ok(events) };
    let mut statement = connection.prepare_cached(
        "SELECT h.previous, h.sequence, h.started, h.ended, h.expected, h.status, h.retry, h.repeat,
             h.role, h.message, h.dns, h.connect, h.tls, h.first_byte, h.total, j.name AS job_name, c.name AS collection_name, g.subscription,
             g.name AS group_name
         FROM history h CROSS JOIN jobs j ON j.job = h.job JOIN collections c ON c.id = j.collection
         JOIN groups g ON g.id = c.group_id
         WHERE h.sequence > ? ORDER BY h.sequence LIMIT ?",
    )?;
    let found = statement.query((rows(after), rows(limit as u64)))?;
    events.entries = collect(found, |row| {
        let name = row.get_ref("job_name")?.as_str().map_err(rusqlite::Error::from)?;
        let job = JobName::new(name).map_err(no_name)?;
        Ok((JobPath { collection: read_collection_path(row)?, job }, read_entry(row)?))
    })?;
    Ok(events)
}
