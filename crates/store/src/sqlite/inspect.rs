//! Looks for what must not be.

use std::path::Path;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::form::{Keeper, read_collection, read_definition};
use crate::record::JobUid;
use crate::sqlite::code::collect;
use crate::sqlite::trouble::Worked;
use crate::sqlite::{connection, key_check, migrate, tokens};

/// Lines of one kind that are told: a store that is lost need not be listed row by row.
const LINES_MAX: i64 = 100;

/// Pages that a tool keeps in memory, in KiB.
const CACHE_KIB: u32 = 16 * 1024;

/// What must never be found, and how it is told.
const ORPHANS: [&str; 7] = [
    "SELECT 'job ' || job || ' has no state' FROM jobs
     WHERE job NOT IN (SELECT job FROM state)",
    "SELECT 'job ' || s.job || ' has the state of another collection'
     FROM state s JOIN jobs j ON j.job = s.job WHERE s.collection <> j.collection",
    "SELECT 'job ' || s.job || ' counts ' || s.entries || ' entries of history and has '
         || coalesce(h.n, 0)
     FROM state s LEFT JOIN (SELECT job, count(*) AS n FROM history GROUP BY job) h
         ON h.job = s.job
     WHERE s.entries <> coalesce(h.n, 0)",
    "SELECT 'collection ' || c.id || ' counts ' || c.jobs || ' jobs and has ' || coalesce(j.n, 0)
     FROM collections c LEFT JOIN (SELECT collection, count(*) AS n, sum(authenticated) AS a
         FROM jobs GROUP BY collection) j ON j.collection = c.id
     WHERE c.jobs <> coalesce(j.n, 0) OR c.authenticated <> coalesce(j.a, 0)",
    "SELECT 'run ' || run || ' has half a claim' FROM runs
     WHERE (owner IS NULL) <> (token IS NULL) OR (lease_until IS NULL) <> (token IS NULL)
         OR coalesce(token, 0) > last_token",
    "SELECT 'run ' || r.run || ' is of an edit that its job has not had'
     FROM runs r JOIN state s ON s.job = r.job WHERE r.generation > s.generation",
    "SELECT 'job ' || job || ' is finished and active' FROM state
     WHERE finished IS NOT NULL AND lifecycle = 0",
];

/// Looks into the file of a store, also while a process works with it. What it finds, a line each.
pub fn inspect(path: &Path, keeper: &Keeper) -> Result<Vec<String>, StoreError> {
    let connection = open_existing(path)?;
    match key_check::check(&connection, keeper.sealer())? {
        Some(()) => Ok(inspect_with(&connection, keeper)?),
        None => Ok(vec!["the store is bound to no key".to_owned()]),
    }
}

/// Opens the file of a store that must be there, for a tool.
pub(crate) fn open_existing(path: &Path) -> Result<Connection, StoreError> {
    if !path.is_file() {
        return Err(StoreError::Failed(format!("there is no file {}", path.display())));
    }
    let connection = connection::for_reading(path, CACHE_KIB)?;
    if migrate::format_of(&connection)? != migrate::KNOWN {
        let message = "it is empty or of an older form; start the server with it once";
        return Err(StoreError::Failed(message.into()));
    }
    Ok(connection)
}

/// Looks into an open store.
pub(crate) fn inspect_with(connection: &Connection, keeper: &Keeper) -> Worked<Vec<String>> {
    let mut found = Vec::new();
    let mut integrity = connection.prepare("PRAGMA integrity_check(100)")?;
    found.extend(collect(integrity.query(())?, |row| Ok(row.get::<_, String>(0)?))?);
    found.retain(|line| line != "ok");
    let mut foreign_keys = connection.prepare(
        "SELECT 'row ' || coalesce(rowid, '?') || ' of ' || \"table\" || ' belongs to nothing'
         FROM pragma_foreign_key_check() LIMIT ?",
    )?;
    found.extend(collect(foreign_keys.query([LINES_MAX])?, |row| Ok(row.get(0)?))?);
    for sql in ORPHANS {
        let mut statement = connection.prepare(&format!("{sql} LIMIT ?"))?;
        found.extend(collect(statement.query([LINES_MAX])?, |row| Ok(row.get(0)?))?);
    }
    found.extend(unreadable(connection, keeper)?);
    found.extend(
        tokens::list(connection).err().map(|trouble| StoreError::from(trouble).to_string()),
    );
    Ok(found)
}

/// Definitions that cannot be read, secrets that cannot be opened.
fn unreadable(connection: &Connection, keeper: &Keeper) -> Worked<Vec<String>> {
    let mut found = Vec::new();
    let mut statement = connection.prepare("SELECT id, definition FROM collections")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let definition = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if let Err(error) = read_collection(definition) {
            found.push(format!("collection {}: {error}", row.get::<_, i64>(0)?));
        }
    }
    let mut statement = connection.prepare("SELECT job, uid, definition FROM jobs")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let definition = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        if let Err(error) = read_definition(definition, JobUid(row.get(1)?), keeper) {
            found.push(format!("job {}: {error}", row.get::<_, i64>(0)?));
        }
        if found.len() as i64 >= LINES_MAX {
            break;
        }
    }
    Ok(found)
}
