//! The pause of all jobs. [`SharedState`](super::write_back::SharedState) keeps the newest one in memory.

use kalends_domain::NewNote;
use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::api_store::{DecidePause, PauseContext, PauseWrite, active_pause};
use crate::error::StoreError;
use crate::notes::action_on_pause;
use crate::record::{Pause, PauseRecord};
use crate::sqlite::code::{Coded, collect, read, read_option};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::notes::{self, SubjectKey};
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::WriteTransaction;

/// The newest pause, also one that has ended.
pub(crate) fn newest(connection: &Connection) -> SqliteResult<Option<PauseRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM pause")?;
    let pause = |row: &rusqlite::Row<'_>| {
        let pause = Pause::new(read(row, "since")?, read_option(row, "until")?);
        let resumed = read_option(row, "resumed")?;
        let pause = resumed.map_or(pause, |at| pause.resumed(at));
        Ok(PauseRecord { pause, reason: row.get("reason")?, by: row.get("author")? })
    };
    Ok(collect(statement.query(())?, pause)?.pop())
}

/// Pauses all jobs, or changes or ends the pause, as `decide` returns, and adds the note.
pub(crate) fn edit_pause(
    transaction: &mut WriteTransaction,
    mut decide: DecidePause,
    note: Option<&NewNote>,
    now: Instant,
) -> SqliteResult<Option<PauseRecord>> {
    let before = transaction.pause_record();
    let active = active_pause(before.as_ref(), now);
    let write = decide(PauseContext { active, now }).map_err(StoreError::Rejected)?;
    if let Some(note) = note {
        let (subject, action) = (SubjectKey::ALL_JOBS, action_on_pause(&write));
        notes::add(transaction.connection(), subject, action, note, now)?;
    }
    let after = match write {
        PauseWrite::Keep => before,
        PauseWrite::Put(record) => {
            let PauseRecord { pause, reason, by } = &record;
            let (until, resumed) = (pause.until().map(Coded), pause.resumed_at().map(Coded));
            transaction
                .connection()
                .prepare_cached(
                    "INSERT OR REPLACE INTO pause (id, since, until, resumed, reason, author)
                     VALUES (1, ?, ?, ?, ?, ?)",
                )?
                .execute((Coded(pause.since), until, resumed, reason, by))?;
            transaction.set_pause(record.clone());
            Some(record)
        }
    };
    Ok(after.filter(|record| record.pause.is_active(now)))
}
