//! Schema migrations.
//!
//! Each migration is one transaction that also records its number, so that the next start continues
//! after a crash.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;

/// The SQLite application id of Kalends: "KALE".
const APPLICATION_ID: i32 = 0x4b41_4c45;

/// All migrations. Never change the statements of a published one.
const MIGRATIONS: [&str; 17] = [
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_tokens.sql"),
    include_str!("../../migrations/sqlite/0003_timing.sql"),
    include_str!("../../migrations/sqlite/0004_ledger_numbers.sql"),
    include_str!("../../migrations/sqlite/0005_views.sql"),
    include_str!("../../migrations/sqlite/0006_edits.sql"),
    include_str!("../../migrations/sqlite/0007_ledger_spans.sql"),
    include_str!("../../migrations/sqlite/0008_parked_runs.sql"),
    include_str!("../../migrations/sqlite/0009_plan_names.sql"),
    include_str!("../../migrations/sqlite/0010_consecutive_failures.sql"),
    include_str!("../../migrations/sqlite/0011_sessions.sql"),
    include_str!("../../migrations/sqlite/0012_pause.sql"),
    include_str!("../../migrations/sqlite/0013_skip.sql"),
    include_str!("../../migrations/sqlite/0014_run_reports.sql"),
    include_str!("../../migrations/sqlite/0015_notes.sql"),
    include_str!("../../migrations/sqlite/0016_job_sets.sql"),
    include_str!("../../migrations/sqlite/0017_earlier_definitions.sql"),
];

/// The newest schema version that this program supports.
pub(crate) const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Applies all missing migrations.
pub(crate) fn migrate(connection: &mut Connection) -> SqliteResult<()> {
    let found = schema_version(connection)?;
    for (number, migration) in (1..=SCHEMA_VERSION).zip(MIGRATIONS).skip(found as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}

/// The schema version of a file; an error if it is not a Kalends store or too new.
pub(crate) fn schema_version(connection: &Connection) -> SqliteResult<u32> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id")?;
    let found = u32::try_from(pragma("user_version")?).unwrap_or(u32::MAX);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    let is_store = application == i64::from(APPLICATION_ID);
    if !is_store && (application != 0 || found != 0 || tables != 0) {
        return Err(StoreError::Damaged("the file is not a store of Kalends".into()).into());
    }
    if found > SCHEMA_VERSION {
        return Err(StoreError::TooNew { found, known: SCHEMA_VERSION }.into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(connection: &Connection) -> String {
        let mut statement = connection
            .prepare(
                "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
                 ORDER BY tbl_name, type DESC, name",
            )
            .unwrap();
        let rows = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
        rows.map(|sql| sql.unwrap() + ";\n").collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_committed_schema_matches_the_migrations() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite/schema.sql");
        let generated = format!(
            "-- Generated from the migrations; a test compares it.\n\n{}",
            schema(&connection)
        );
        if std::env::var_os("KALENDS_WRITE_SCHEMA").is_some() {
            std::fs::write(committed, &generated).unwrap();
        }
        assert_eq!(std::fs::read_to_string(committed).unwrap(), generated);
    }

    #[test]
    fn migrations_are_applied_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let before = schema(&connection);
        migrate(&mut connection).unwrap();
        assert_eq!(schema(&connection), before);
        assert_eq!(schema_version(&connection).unwrap(), SCHEMA_VERSION);
    }

    #[test]
    fn newer_and_foreign_files_are_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
        let error = StoreError::from(migrate(&mut connection).unwrap_err());
        assert_eq!(error, StoreError::TooNew { found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION });

        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE other (x)").unwrap();
        let error = StoreError::from(migrate(&mut foreign).unwrap_err());
        assert!(matches!(error, StoreError::Damaged(text) if text.contains("not a store")));
    }
}
