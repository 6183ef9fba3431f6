//! History entries and ledger rows of all jobs, for the event stream.

use kalends_domain::{JobName, JobPath};
use rusqlite::{Connection, Row};

use crate::events::{EventPosition, Events, LedgerEvent};
use crate::record::{HistoryRecord, JobKey};
use crate::sqlite::code::{collect, nth, rows_max};
use crate::sqlite::collections::read_collection_path;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::invalid_name;
use crate::sqlite::history::{read_entry, read_ledger};
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::Snapshot;

/// Events after a position; without one, only the newest position.
pub(crate) fn after(
    snapshot: &Snapshot,
    after: Option<EventPosition>,
    limit: usize,
) -> SqliteResult<Events> {
    let connection = snapshot.connection();
    let mut newest = connection.prepare_cached(
        "SELECT (SELECT coalesce(max(sequence), 0) FROM history),
             (SELECT coalesce(max(id), 0) FROM ledger)",
    )?;
    let newest = newest
        .query_row((), |row| Ok(EventPosition { history: nth(row, 0)?, ledger: nth(row, 1)? }))?;
    let Some(after) = after else { return Ok(Events { newest, ..Events::default() }) };
    Ok(Events {
        history: history(connection, after.history, limit)?,
        ledger: ledger(snapshot, after.ledger, limit)?,
        newest,
    })
}

fn history(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> SqliteResult<Vec<(JobPath, HistoryRecord)>> {
    let mut statement = connection.prepare_cached(
        "SELECT h.previous, h.sequence, h.started, h.ended, h.expected, h.status, h.retry, h.repeat,
             h.role, h.message, h.dns, h.connect, h.tls, h.first_byte, h.total, h.generation,
             j.name AS job_name, c.name AS collection_name, g.subscription, g.name AS group_name
         FROM history h CROSS JOIN jobs j ON j.job = h.job JOIN collections c ON c.id = j.collection
         JOIN groups g ON g.id = c.group_id
         WHERE h.sequence > ? ORDER BY h.sequence LIMIT ?",
    )?;
    let found = statement.query((rows_max(after), rows_max(limit as u64)))?;
    collect(found, |row| Ok((read_path(row)?, read_entry(row)?)))
}

fn ledger(
    snapshot: &Snapshot,
    after: u64,
    limit: usize,
) -> SqliteResult<Vec<(JobPath, LedgerEvent)>> {
    let mut statement = snapshot.connection().prepare_cached(
        "SELECT l.previous, l.generation, l.from_at, l.to_at, l.count, l.cause, l.disposition,
             l.closed, l.id, l.job, j.name AS job_name, c.name AS collection_name, g.subscription,
             g.name AS group_name
         FROM ledger l CROSS JOIN jobs j ON j.job = l.job JOIN collections c ON c.id = j.collection
         JOIN groups g ON g.id = c.group_id
         WHERE l.id > ? ORDER BY l.id LIMIT ?",
    )?;
    let found = statement.query((rows_max(after), rows_max(limit as u64)))?;
    let events = collect(found, |row| {
        let job: JobKey = nth(row, 9)?;
        let Some(state) = snapshot.state(job)? else { return Ok(None) };
        let record = read_ledger(row)?;
        let event = LedgerEvent { number: nth(row, 8)?, record, job_state: state.filter_state() };
        Ok(Some((read_path(row)?, event)))
    })?;
    Ok(events.into_iter().flatten().collect())
}

fn read_path(row: &Row<'_>) -> SqliteResult<JobPath> {
    let name = row.get_ref("job_name")?.as_str().map_err(rusqlite::Error::from)?;
    let job = JobName::new(name).map_err(invalid_name)?;
    Ok(JobPath { collection: read_collection_path(row)?, job })
}
