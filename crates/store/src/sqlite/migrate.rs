//! From one form of the tables to the next.
//!
//! Each step is one transaction that also says how far it got, so that a kill between two steps or
//! within one leaves a file that the next start carries on with.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;

/// Says that a file is ours: "KALE".
const APPLICATION_ID: i32 = 0x4b41_4c45;

/// Every step there ever was. A step that was published is never changed.
const STEPS: [&str; 4] = [
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_tokens.sql"),
    include_str!("../../migrations/sqlite/0003_timing.sql"),
    include_str!("../../migrations/sqlite/0004_ledger_numbers.sql"),
];

/// The form that this program knows.
pub(crate) const KNOWN: u32 = STEPS.len() as u32;

/// Brings a file to the form that this program knows.
pub(crate) fn migrate(connection: &mut Connection) -> SqliteResult<()> {
    let found = format_of(connection)?;
    for (number, step) in (1..=KNOWN).zip(STEPS).skip(found as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}

/// The form of a file; an error where it is not ours or too new.
pub(crate) fn format_of(connection: &Connection) -> SqliteResult<u32> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id")?;
    let found = u32::try_from(pragma("user_version")?).unwrap_or(u32::MAX);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    let is_ours = application == i64::from(APPLICATION_ID);
    if !is_ours && (application != 0 || found != 0 || tables != 0) {
        return Err(StoreError::Damaged("the file is not a store of Kalends".into()).into());
    }
    if found > KNOWN {
        return Err(StoreError::TooNew { found, known: KNOWN }.into());
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
    fn the_committed_schema_is_what_the_steps_make() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite/schema.sql");
        let made = format!("-- What the steps make; a test compares.\n\n{}", schema(&connection));
        if std::env::var_os("KALENDS_WRITE_SCHEMA").is_some() {
            std::fs::write(committed, &made).unwrap();
        }
        assert_eq!(std::fs::read_to_string(committed).unwrap(), made);
    }

    #[test]
    fn steps_are_made_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let before = schema(&connection);
        migrate(&mut connection).unwrap();
        assert_eq!(schema(&connection), before);
        assert_eq!(format_of(&connection).unwrap(), KNOWN);
    }

    #[test]
    fn newer_and_foreign_files_are_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection.pragma_update(None, "user_version", KNOWN + 1).unwrap();
        let error = StoreError::from(migrate(&mut connection).unwrap_err());
        assert_eq!(error, StoreError::TooNew { found: KNOWN + 1, known: KNOWN });

        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
        let error = StoreError::from(migrate(&mut foreign).unwrap_err());
        assert!(matches!(error, StoreError::Damaged(text) if text.contains("not a store")));
    }
}
