//! Rows of history and of the ledger: appended to one after the other, and each names the one of its
//! job before it. Nothing else has to be changed when one is added, however many there are.
//!
//! A row that names one which is not there is the oldest of its job: rows are removed from the old
//! end. One that is removed from the middle is taken out of the chain.

use kalends_domain::HistoryEntry;
use rusqlite::{Connection, OptionalExtension as _};

use crate::record::{JobKey, LedgerRecord};
use crate::sqlite::code::{Coded, read};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::WriteTransaction;

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChainKind {
    /// Entries of history.
    History = 0,
    /// How occurrences were closed: the ledger.
    Ledger = 1,
}

/// A row: of which job, and which one is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainRow {
    pub(crate) number: i64,
    pub(crate) job: JobKey,
    pub(crate) previous: i64,
}

impl ChainKind {
    fn newest(self, row: &StateRow) -> i64 {
        match self {
            ChainKind::History => row.newest_entry,
            ChainKind::Ledger => row.newest_ledger_row,
        }
    }

    fn set_newest(self, row: &mut StateRow, number: i64) {
        match self {
            ChainKind::History => row.newest_entry = number,
            ChainKind::Ledger => row.newest_ledger_row = number,
        }
    }

    /// A row.
    pub(crate) fn link(
        self,
        connection: &Connection,
        number: i64,
    ) -> SqliteResult<Option<ChainRow>> {
        let mut statement = connection.prepare_cached(match self {
            ChainKind::History => "SELECT job, previous FROM history WHERE sequence = ?",
            ChainKind::Ledger => "SELECT job, previous FROM ledger WHERE id = ?",
        })?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok(ChainRow { number, job: read(row, "job")?, previous: row.get("previous")? })
        };
        Ok(statement.query_row([number], read).optional()?)
    }

    /// Removes a row, without a look at the others; `false` where there is none.
    pub(crate) fn delete(self, connection: &Connection, number: i64) -> SqliteResult<bool> {
        let mut statement = connection.prepare_cached(match self {
            ChainKind::History => "DELETE FROM history WHERE sequence = ?",
            ChainKind::Ledger => "DELETE FROM ledger WHERE id = ?",
        })?;
        Ok(statement.execute([number])? > 0)
    }

    fn set_previous(self, connection: &Connection, number: i64, previous: i64) -> SqliteResult<()> {
        let mut statement = connection.prepare_cached(match self {
            ChainKind::History => "UPDATE history SET previous = ? WHERE sequence = ?",
            ChainKind::Ledger => "UPDATE ledger SET previous = ? WHERE id = ?",
        })?;
        statement.execute((previous, number))?;
        Ok(())
    }

    /// Takes a row out of the chain that begins with `newest`, after it was deleted; the newest one
    /// then.
    fn unlink(self, connection: &Connection, newest: i64, gone: ChainRow) -> SqliteResult<i64> {
        if newest == gone.number {
            return Ok(gone.previous);
        }
        // Mostly it was the oldest, and whoever names it is the oldest now.
        if self.link(connection, gone.previous)?.is_some() {
            let mut at = newest;
            while let Some(link) = self.link(connection, at)? {
                if link.previous == gone.number {
                    self.set_previous(connection, at, gone.previous)?;
                    break;
                }
                at = link.previous;
            }
        }
        Ok(newest)
    }
}

/// Appends an entry of history and names it in the row of its job.
pub(crate) fn append_history(
    transaction: &mut WriteTransaction,
    job: JobKey,
    row: &mut StateRow,
    entry: &HistoryEntry,
) -> SqliteResult<()> {
    let HistoryEntry { started, ended, expected, status, message, retry, repeat, role, timing } =
        entry;
    let number = transaction.allocate_row_number(ChainKind::History, *started);
    transaction
        .connection()
        .prepare_cached(
            "INSERT INTO history (sequence, job, previous, started, ended, expected, status, retry,
                 repeat, role, message, dns, connect, tls, first_byte, total)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            number,
            Coded(job),
            row.newest_entry,
            Coded(*started),
            Coded(*ended),
            Coded(*expected),
            Coded(*status),
            Coded(*retry),
            Coded(*repeat),
            Coded(*role),
            message,
            timing.dns.map(Coded),
            timing.connect.map(Coded),
            timing.tls.map(Coded),
            timing.first_byte.map(Coded),
            timing.total.map(Coded),
        ))?;
    row.newest_entry = number;
    row.entries += 1;
    Ok(())
}

/// Says how an occurrence was closed, and names that in the row of its job.
pub(crate) fn append_ledger(
    transaction: &mut WriteTransaction,
    job: JobKey,
    row: &mut StateRow,
    record: &LedgerRecord,
) -> SqliteResult<()> {
    let LedgerRecord { generation, from, to, count, cause, disposition, closed } = *record;
    let number = transaction.allocate_row_number(ChainKind::Ledger, closed);
    transaction
        .connection()
        .prepare_cached(
            "INSERT INTO ledger (id, job, previous, generation, from_at, to_at, count, cause,
                 disposition, closed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            number,
            Coded(job),
            row.newest_ledger_row,
            Coded(generation),
            Coded(from),
            Coded(to),
            Coded(count),
            Coded(cause),
            Coded(disposition),
            Coded(closed),
        ))?;
    row.newest_ledger_row = number;
    Ok(())
}

/// Removes a row from anywhere in its chain; `false` where it is not there or its job is deleted.
pub(crate) fn remove(
    transaction: &mut WriteTransaction,
    kind: ChainKind,
    number: i64,
) -> SqliteResult<bool> {
    // Read now: what it names may have been changed by the removal of another one.
    let Some(link) = kind.link(transaction.connection(), number)? else { return Ok(false) };
    kind.delete(transaction.connection(), number)?;
    let Some(before) = transaction.state(link.job)? else {
        unlink_leftover(transaction.connection(), kind, link)?;
        return Ok(false);
    };
    let mut after = before;
    let newest = kind.unlink(transaction.connection(), kind.newest(&before), link)?;
    kind.set_newest(&mut after, newest);
    if kind == ChainKind::History {
        after.entries = after.entries.saturating_sub(1);
    }
    if after != before {
        transaction.set_state(link.job, &before, Some(after))?;
    }
    Ok(transaction.collection_enabled(before.collection)?.is_some())
}

fn unlink_leftover(connection: &Connection, kind: ChainKind, link: ChainRow) -> SqliteResult<()> {
    let (of, set) = match kind {
        ChainKind::History => (
            "SELECT newest_entry FROM leftovers WHERE job = ?",
            "UPDATE leftovers SET newest_entry = ? WHERE job = ?",
        ),
        ChainKind::Ledger => (
            "SELECT newest_closing FROM leftovers WHERE job = ?",
            "UPDATE leftovers SET newest_closing = ? WHERE job = ?",
        ),
    };
    let newest: Option<i64> =
        connection.prepare_cached(of)?.query_row([Coded(link.job)], |row| row.get(0)).optional()?;
    if let Some(newest) = newest {
        let newest = kind.unlink(connection, newest, link)?;
        connection.prepare_cached(set)?.execute((newest, Coded(link.job)))?;
    }
    Ok(())
}
