//! Consistency check of a store: invariants of the tables and the change log.

use std::path::Path;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::record::{JobKey, JobUid};
use crate::sqlite::code::{Coded, collect, nth};
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::new_rows::Insert;
use crate::sqlite::write_back::change_log::{self, LastNumbers, Replayed};
use crate::sqlite::write_back::open_runs;
use crate::sqlite::{connection, key_check, migrate, state, tokens};
use crate::stored_form::{DefinitionCodec, read_collection, read_definition};

/// Maximum number of lines per invariant, so that a damaged store is not listed row by row.
const LINES_MAX: i64 = 100;

/// Page cache of a tool in KiB.
const CACHE_KIB: u32 = 16 * 1024;

/// The current state: rows of the change log, and rows of the tables that the change log does not
/// have.
const CREATE_PRESENT: &str = "
    CREATE TEMP TABLE logged_state AS SELECT * FROM state LIMIT 0;
    CREATE TEMP TABLE logged_jobs (job INTEGER PRIMARY KEY);
    CREATE TEMP TABLE logged_runs AS SELECT * FROM runs LIMIT 0;
    CREATE TEMP TABLE logged_run_numbers (run INTEGER PRIMARY KEY);
    CREATE TEMP VIEW present AS
        SELECT * FROM logged_state UNION ALL
        SELECT * FROM main.state WHERE job NOT IN (SELECT job FROM logged_jobs);
    CREATE TEMP VIEW present_runs AS
        SELECT * FROM logged_runs UNION ALL
        SELECT * FROM main.runs WHERE run NOT IN (SELECT run FROM logged_run_numbers);";

const DROP_PRESENT: &str = "
    DROP VIEW IF EXISTS temp.present;
    DROP VIEW IF EXISTS temp.present_runs;
    DROP TABLE IF EXISTS temp.logged_state;
    DROP TABLE IF EXISTS temp.logged_jobs;
    DROP TABLE IF EXISTS temp.logged_runs;
    DROP TABLE IF EXISTS temp.logged_run_numbers;";

/// Queries for violated invariants. Each returns one line of text per violation.
const VIOLATIONS: [&str; 24] = [
    "SELECT 'job ' || job || ' has no state' FROM jobs
     WHERE job NOT IN (SELECT job FROM present)",
    "SELECT 'job ' || job || ' has a state and is not there' FROM present
     WHERE job NOT IN (SELECT job FROM jobs)",
    "SELECT 'job ' || job || ' is in the log and has no row' FROM logged_state
     WHERE job NOT IN (SELECT job FROM main.state)",
    "SELECT 'job ' || job || ' belongs to nothing' FROM jobs
     WHERE collection NOT IN (SELECT id FROM collections)
         AND collection NOT IN (SELECT collection FROM doomed)",
    "SELECT 'a tag of job ' || job || ' belongs to nothing' FROM tags
     WHERE job NOT IN (SELECT job FROM jobs)",
    "SELECT 'a tag of job ' || t.job || ' has the name of another one'
     FROM tags t JOIN jobs j ON j.job = t.job
     WHERE (t.collection, t.job_key) <> (j.collection, j.name_key)",
    "SELECT 'job ' || s.job || ' has the state of another collection'
     FROM present s JOIN jobs j ON j.job = s.job WHERE s.collection <> j.collection",
    "SELECT 'job ' || s.job || ' counts ' || s.entries || ' entries of history and has '
         || coalesce(h.n, 0)
     FROM present s LEFT JOIN (SELECT job, count(*) AS n FROM history GROUP BY job) h
         ON h.job = s.job
     WHERE s.entries <> coalesce(h.n, 0)",
    "SELECT 'entries of job ' || s.job || ' are out of reach'
     FROM present s JOIN (
         SELECT h.job, count(*) AS n, max(h.sequence) AS newest, count(p.sequence) AS named,
             count(DISTINCT p.sequence) AS once
         FROM history h LEFT JOIN history p ON p.sequence = h.previous AND p.job = h.job
         GROUP BY h.job) h ON h.job = s.job
     WHERE h.newest <> s.newest_entry OR h.named <> h.n - 1 OR h.once <> h.n - 1",
    "SELECT 'the ledger of job ' || s.job || ' is out of reach'
     FROM present s JOIN (
         SELECT l.job, count(*) AS n, max(l.id) AS newest, count(p.id) AS named,
             count(DISTINCT p.id) AS once
         FROM ledger l LEFT JOIN ledger p ON p.id = l.previous AND p.job = l.job
         GROUP BY l.job) l ON l.job = s.job
     WHERE l.newest <> s.newest_closing OR l.named <> l.n - 1 OR l.once <> l.n - 1",
    "SELECT 'entry ' || sequence || ' of history belongs to nothing' FROM history
     WHERE job NOT IN (SELECT job FROM jobs) AND job NOT IN (SELECT job FROM leftovers)",
    "SELECT 'row ' || id || ' of the ledger belongs to nothing' FROM ledger
     WHERE job NOT IN (SELECT job FROM jobs) AND job NOT IN (SELECT job FROM leftovers)",
    "SELECT 'earlier definition ' || number || ' belongs to no job' FROM earlier_definitions
     WHERE job NOT IN (SELECT job FROM jobs)",
    "SELECT 'note ' || number || ' belongs to nothing' FROM notes
     WHERE job <> 0 AND job NOT IN (SELECT job FROM jobs)
         OR job = 0 AND collection <> 0 AND collection NOT IN (SELECT id FROM collections)",
    "SELECT 'entry ' || sequence || ' of history is older than its span' FROM history
     LEFT JOIN spans ON kind = 0 AND span = sequence / 512 WHERE oldest IS NULL OR started < oldest",
    "SELECT 'row ' || id || ' of the ledger is older than its span' FROM ledger
     LEFT JOIN spans ON kind = 1 AND span = id / 512 WHERE oldest IS NULL OR closed < oldest",
    "SELECT 'row ' || id || ' of the ledger is later than its span' FROM ledger
     JOIN spans ON kind = 1 AND span = id / 512 WHERE to_at > latest",
    "SELECT 'collection ' || c.id || ' counts ' || c.jobs || ' jobs and has ' || coalesce(j.n, 0)
     FROM collections c LEFT JOIN (SELECT collection, count(*) AS n, sum(authenticated) AS a
         FROM jobs GROUP BY collection) j ON j.collection = c.id
     WHERE c.jobs <> coalesce(j.n, 0) OR c.authenticated <> coalesce(j.a, 0)",
    "SELECT 'job ' || coalesce(s.job, d.job) || ' is due at another time than it says'
     FROM (SELECT job, due FROM present
           WHERE due IS NOT NULL AND lifecycle = 0 AND switched_on = 1) s
         FULL JOIN due d ON d.job = s.job AND d.due = s.due
     WHERE s.job IS NULL
         OR d.job IS NULL AND s.job NOT IN (SELECT job FROM logged_jobs)",
    "SELECT 'job ' || coalesce(s.job, f.job) || ' is finished at another time than it says'
     FROM (SELECT job, finished FROM present WHERE finished IS NOT NULL) s
         FULL JOIN finished f ON f.job = s.job AND f.finished = s.finished
     WHERE s.job IS NULL OR f.job IS NULL",
    "SELECT 'run ' || run || ' has half a claim' FROM present_runs
     WHERE (owner IS NULL) <> (token IS NULL) OR (lease_until IS NULL) <> (token IS NULL)
         OR coalesce(token, 0) > last_token",
    "SELECT 'run ' || run || ' is claimed and parked' FROM present_runs
     WHERE token IS NOT NULL AND waits_for IS NOT NULL",
    "SELECT 'run ' || r.run || ' belongs to nothing, or to an edit that its job has not had'
     FROM present_runs r LEFT JOIN present s ON s.job = r.job
     WHERE s.job IS NULL OR r.generation > s.generation OR r.collection <> s.collection",
    "SELECT 'job ' || job || ' is finished and active' FROM present
     WHERE finished IS NOT NULL AND lifecycle = 0",
];

/// Checks the file of a store, also while a process uses it. Returns one line per finding.
pub fn inspect(path: &Path, codec: &DefinitionCodec) -> Result<Vec<String>, StoreError> {
    let connection = open_existing(path)?;
    match key_check::check(&connection, codec.cipher())? {
        Some(()) => {
            // One state of the store, whatever another process writes.
            let snapshot = connection.unchecked_transaction().map_err(SqliteError::from)?;
            Ok(inspect_with(&snapshot, codec)?)
        }
        None => Ok(vec!["the store is bound to no key".to_owned()]),
    }
}

/// Opens the existing file of a store for a tool.
pub(crate) fn open_existing(path: &Path) -> Result<Connection, StoreError> {
    if !path.is_file() {
        return Err(StoreError::Failed(format!("there is no file {}", path.display())));
    }
    let connection = connection::for_reading(path, CACHE_KIB)?;
    if migrate::schema_version(&connection)? != migrate::SCHEMA_VERSION {
        let message = "it is empty or of an older form; start the server with it once";
        return Err(StoreError::Failed(message.into()));
    }
    Ok(connection)
}

/// Checks an open store.
pub(crate) fn inspect_with(
    connection: &Connection,
    codec: &DefinitionCodec,
) -> SqliteResult<Vec<String>> {
    let mut found = Vec::new();
    let mut integrity = connection.prepare("PRAGMA integrity_check(100)")?;
    found.extend(collect(integrity.query(())?, |row| Ok(row.get::<_, String>(0)?))?);
    found.retain(|line| line != "ok");
    let mut foreign_keys = connection.prepare(
        "SELECT 'row ' || coalesce(rowid, '?') || ' of ' || \"table\" || ' belongs to nothing'
         FROM pragma_foreign_key_check() LIMIT ?",
    )?;
    found.extend(collect(foreign_keys.query([LINES_MAX])?, |row| Ok(row.get(0)?))?);
    connection.execute_batch(DROP_PRESENT)?;
    connection.execute_batch(CREATE_PRESENT)?;
    let violations = find_violations(connection);
    connection.execute_batch(DROP_PRESENT)?;
    found.extend(violations?);
    found.extend(unreadable(connection, codec)?);
    Ok(found)
}

/// Replays the change log into temporary tables and evaluates the invariants.
fn find_violations(connection: &Connection) -> SqliteResult<Vec<String>> {
    let replayed = match change_log::replay(connection) {
        Ok(replayed) => replayed,
        Err(SqliteError::Store(error)) => return Ok(vec![error.to_string()]),
        Err(error) => return Err(error),
    };
    let insert_state = Insert::new("INSERT INTO logged_state", state::COLUMNS_WITH_KEY);
    for (job, (_, row)) in &replayed.jobs {
        connection
            .prepare_cached("INSERT INTO logged_jobs (job) VALUES (?)")?
            .execute([Coded(*job)])?;
        if let Some(row) = row {
            insert_state.one(connection, &state::integers(*job, row))?;
        }
    }
    for (run, (_, row)) in &replayed.runs {
        connection
            .prepare_cached("INSERT INTO logged_run_numbers (run) VALUES (?)")?
            .execute([Coded(*run)])?;
        if let Some(row) = row {
            const SQL: &str = "INSERT INTO logged_runs
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
            open_runs::write_with(connection, SQL, row)?;
        }
    }
    connection.execute_batch("CREATE INDEX temp.logged_state_by_job ON logged_state (job)")?;
    let mut found = reusable_numbers(connection, &replayed)?;
    for sql in VIOLATIONS {
        let mut statement = connection.prepare(&format!("{sql} LIMIT ?"))?;
        found.extend(collect(statement.query([LINES_MAX])?, |row| Ok(row.get(0)?))?);
    }
    found.extend(stale_due_rows(connection, &replayed)?);
    found.extend(tokens::list(connection).err().map(|error| StoreError::from(error).to_string()));
    Ok(found)
}

/// Rows of `due` whose state differs from `state`. Jobs in the change log are skipped.
fn stale_due_rows(connection: &Connection, replayed: &Replayed) -> SqliteResult<Vec<String>> {
    let mut found = Vec::new();
    let mut statement = connection.prepare(
        "SELECT d.job, d.packed, s.collection, s.generation, s.switched_on, s.lifecycle, s.due,
             s.used, s.last_execution, s.executions, s.failures, s.faulted, s.finished, s.entries,
             s.newest_entry, s.newest_closing, s.schedule_generation, s.enabled_since,
             s.consecutive_failures, s.skip_until
         FROM due d CROSS JOIN main.state s ON s.job = d.job",
    )?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()?
        && (found.len() as i64) < LINES_MAX
    {
        let job: JobKey = nth(row, 0)?;
        let packed = change_log::unpack(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
        if !replayed.jobs.contains_key(&job) && packed != Some(state::read_state(row, 2)?) {
            found.push(format!("job {} has another row where it is due", job.0));
        }
    }
    Ok(found)
}

/// Numbers that could be allocated a second time.
fn reusable_numbers(connection: &Connection, replayed: &Replayed) -> SqliteResult<Vec<String>> {
    let given = connection.query_row(
        "SELECT (SELECT coalesce(max(run), 0) FROM present_runs),
             (SELECT coalesce(max(sequence), 0) FROM history),
             (SELECT coalesce(max(id), 0) FROM ledger)",
        (),
        |row| Ok(LastNumbers { run: row.get(0)?, history: row.get(1)?, ledger: row.get(2)? }),
    )?;
    let last = replayed.numbers;
    let is_behind =
        given.run > last.run || given.history > last.history || given.ledger > last.ledger;
    Ok(if is_behind {
        vec![format!("the log ends at {last:?}, the tables at {given:?}")]
    } else {
        vec![]
    })
}

/// Definitions that cannot be decoded, and secrets that cannot be decrypted.
fn unreadable(connection: &Connection, codec: &DefinitionCodec) -> SqliteResult<Vec<String>> {
    let mut found = Vec::new();
    let mut statement = connection.prepare("SELECT id, definition FROM collections")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let definition = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if let Err(error) = read_collection(definition) {
            found.push(format!("collection {}: {error}", row.get::<_, i64>(0)?));
        }
    }
    let mut statement = connection.prepare(
        "SELECT 'job ' || job, uid, definition FROM jobs
         UNION ALL SELECT 'job ' || job || ', generation ' || generation, uid, e.definition
         FROM earlier_definitions e JOIN jobs USING (job)",
    )?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let definition = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        if let Err(error) = read_definition(definition, JobUid(row.get(1)?), codec) {
            found.push(format!("{}: {error}", row.get::<_, String>(0)?));
        }
        if found.len() as i64 >= LINES_MAX {
            break;
        }
    }
    Ok(found)
}
