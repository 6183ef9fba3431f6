//! History and ledger rows: appended to their tables in order, and linked per job from the newest
//! to the oldest. Appending a row touches no other one.
//!
//! The oldest row of a job refers to a row that does not exist, because pruning removes rows from
//! the old end. A row that is removed elsewhere is unlinked.

use std::sync::LazyLock;

use kalends_domain::{Execution, HistoryEntry};
use rusqlite::{Connection, OptionalExtension as _};

use crate::record::{JobKey, LedgerRecord};
use crate::sqlite::code::{Code, Coded, read};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::new_rows::{Insert, NewRows};
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::{RowTimes, WriteTransaction};

/// The table of a chain. The value is the column `kind` of `spans`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChainKind {
    /// Table `history`.
    History = 0,
    /// Table `ledger`.
    Ledger = 1,
}

/// The links of a row: its job and the number of the job's previous row.
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

    /// Reads the links of a row; `None` if it does not exist.
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

    /// Deletes a row without unlinking it; `false` if it does not exist.
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

    /// Unlinks a deleted row from the chain that begins at `newest`; returns the new beginning.
    fn unlink(self, connection: &Connection, newest: i64, deleted: ChainRow) -> SqliteResult<i64> {
        if newest == deleted.number {
            return Ok(deleted.previous);
        }
        // Usually the deleted row was the oldest, and its successor is now.
        if self.link(connection, deleted.previous)?.is_some() {
            let mut at = newest;
            while let Some(link) = self.link(connection, at)? {
                if link.previous == deleted.number {
                    self.set_previous(connection, at, deleted.previous)?;
                    break;
                }
                at = link.previous;
            }
        }
        Ok(newest)
    }
}

static INSERT_HISTORY: LazyLock<Insert> = LazyLock::new(|| {
    Insert::with_text(
        "INSERT INTO history (sequence, job, previous, started, ended, expected, status,
             retry, repeat, role, message, dns, connect, tls, first_byte, total, generation)",
        17,
        10,
    )
});

static INSERT_LEDGER: LazyLock<Insert> = LazyLock::new(|| {
    Insert::new(
        "INSERT INTO ledger (id, job, previous, generation, from_at, to_at, count, cause,
             disposition, closed, started, ended, attempts)",
        13,
    )
});

/// History entries and ledger rows that are inserted together.
pub(crate) struct NewChainRows {
    history: NewRows<16>,
    ledger: NewRows<13>,
}

impl NewChainRows {
    pub(crate) fn new() -> NewChainRows {
        let (history, ledger) = (NewRows::new(&INSERT_HISTORY), NewRows::new(&INSERT_LEDGER));
        NewChainRows { history, ledger }
    }

    /// Appends a history entry; updates the job's row, which the caller must save.
    pub(crate) fn append_history(
        &mut self,
        transaction: &mut WriteTransaction,
        job: JobKey,
        row: &mut StateRow,
        entry: &HistoryEntry,
    ) -> SqliteResult<()> {
        let HistoryEntry { started, ended, expected, status, retry, repeat, role, timing, .. } =
            entry;
        let number = transaction
            .allocate_row_number(ChainKind::History, RowTimes { oldest: *started, latest: None });
        let integers = [
            Some(number),
            Some(job.code()),
            Some(row.newest_entry),
            Some(started.code()),
            Some(ended.code()),
            Some(expected.code()),
            Some(status.code()),
            Some(retry.code()),
            Some(repeat.code()),
            Some(role.code()),
            timing.dns.map(Code::code),
            timing.connect.map(Code::code),
            timing.tls.map(Code::code),
            timing.first_byte.map(Code::code),
            timing.total.map(Code::code),
            entry.generation.map(Code::code),
        ];
        self.history.push_with_text(transaction.connection(), integers, &entry.message)?;
        row.newest_entry = number;
        row.entries += 1;
        Ok(())
    }

    /// Appends a ledger row; updates the job's row, which the caller must save.
    pub(crate) fn append_ledger(
        &mut self,
        transaction: &mut WriteTransaction,
        job: JobKey,
        row: &mut StateRow,
        record: &LedgerRecord,
        execution: Option<Execution>,
    ) -> SqliteResult<()> {
        let LedgerRecord { generation, from, to, count, cause, disposition, closed } = *record;
        transaction.count_closed(row.collection, record);
        let number = transaction
            .allocate_row_number(ChainKind::Ledger, RowTimes { oldest: closed, latest: Some(to) });
        let integers = [
            Some(number),
            Some(job.code()),
            Some(row.newest_ledger_row),
            Some(generation.code()),
            Some(from.code()),
            Some(to.code()),
            Some(count.code()),
            Some(cause.code()),
            Some(disposition.code()),
            Some(closed.code()),
            execution.map(|execution| execution.started.code()),
            execution.map(|execution| execution.ended.code()),
            execution.map(|execution| execution.attempts.code()),
        ];
        self.ledger.push(transaction.connection(), integers)?;
        row.newest_ledger_row = number;
        Ok(())
    }

    /// Inserts the waiting rows. No reader of the chains may run before.
    pub(crate) fn write(&mut self, connection: &Connection) -> SqliteResult<()> {
        self.ledger.write(connection)?;
        self.history.write(connection)
    }
}

/// Appends a single ledger row; updates the job's row, which the caller must save.
pub(crate) fn append_ledger(
    transaction: &mut WriteTransaction,
    job: JobKey,
    row: &mut StateRow,
    record: &LedgerRecord,
) -> SqliteResult<()> {
    let mut rows = NewChainRows::new();
    rows.append_ledger(transaction, job, row, record, None)?;
    rows.write(transaction.connection())
}

/// Removes a row from any position of its chain; `false` if it did not exist or its job or
/// collection is deleted.
pub(crate) fn remove(
    transaction: &mut WriteTransaction,
    kind: ChainKind,
    number: i64,
) -> SqliteResult<bool> {
    // Read now: an earlier removal may have changed its links.
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

/// Unlinks a row of a deleted job.
fn unlink_leftover(connection: &Connection, kind: ChainKind, link: ChainRow) -> SqliteResult<()> {
    let (select, update) = match kind {
        ChainKind::History => (
            "SELECT newest_entry FROM leftovers WHERE job = ?",
            "UPDATE leftovers SET newest_entry = ? WHERE job = ?",
        ),
        ChainKind::Ledger => (
            "SELECT newest_closing FROM leftovers WHERE job = ?",
            "UPDATE leftovers SET newest_closing = ? WHERE job = ?",
        ),
    };
    let newest: Option<i64> = connection
        .prepare_cached(select)?
        .query_row([Coded(link.job)], |row| row.get(0))
        .optional()?;
    if let Some(newest) = newest {
        let newest = kind.unlink(connection, newest, link)?;
        connection.prepare_cached(update)?.execute((newest, Coded(link.job)))?;
    }
    Ok(())
}
