//! The copy, and its verification.

use crate::error::StoreError;
use crate::transfer::table::{Row, TableDigest, TableSum};
use crate::transfer::{Table, TransferStore};

/// Progress of a copy, after each page of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferProgress {
    /// Whether the rows were copied, or compared after the copy.
    pub is_comparison: bool,
    /// The current table.
    pub table: Table,
    /// Rows of the table so far.
    pub rows: u64,
}

/// A copied table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The table.
    pub table: Table,
    /// Number of rows.
    pub rows: u64,
}

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source could not be read.
    #[error("cannot read the source")]
    Source(#[source] StoreError),
    /// The target could not be written or read.
    #[error("cannot write the target")]
    Target(#[source] StoreError),
    /// The target does not have the rows of the source.
    #[error("the target differs from the source: {found} of {expected} {}", .table.name())]
    Rows {
        /// The table that differs.
        table: Table,
        /// Rows of the source.
        expected: u64,
        /// Rows of the target.
        found: u64,
    },
    /// The target has as many rows as the source, with other contents.
    #[error("the target differs from the source: {} have other contents", .0.name())]
    Contents(Table),
    /// The target would allocate numbers of the source again.
    #[error("the target differs from the source: it would use numbers of the source again")]
    Numbers,
}

/// Copies `source` into `target`, which is empty, and compares them: the number of rows and a checksum
/// for each table. `progress` is called after each page.
pub async fn transfer(
    source: &mut dyn TransferStore,
    target: &mut dyn TransferStore,
    progress: &mut (dyn FnMut(TransferProgress) + Send),
) -> Result<Vec<Copied>, TransferError> {
    let mut sums = Vec::new();
    for table in Table::ALL {
        let mut digest = TableDigest::new();
        let mut last: Option<Row> = None;
        loop {
            let read = source.read(table, last.as_ref()).await;
            let rows = read.map_err(TransferError::Source)?;
            if rows.is_empty() {
                break;
            }
            digest.add(&rows);
            last = rows.last().cloned();
            target.write(table, rows).await.map_err(TransferError::Target)?;
            progress(TransferProgress { is_comparison: false, table, rows: digest.rows() });
        }
        sums.push((table, digest.finish()));
    }
    let numbers = source.numbers().await.map_err(TransferError::Source)?;
    target.finish(numbers).await.map_err(TransferError::Target)?;
    for (table, expected) in &sums {
        compare(target, *table, expected, progress).await?;
    }
    if target.numbers().await.map_err(TransferError::Target)? != numbers {
        return Err(TransferError::Numbers);
    }
    Ok(sums.into_iter().map(|(table, sum)| Copied { table, rows: sum.rows }).collect())
}

async fn compare(
    target: &mut dyn TransferStore,
    table: Table,
    expected: &TableSum,
    progress: &mut (dyn FnMut(TransferProgress) + Send),
) -> Result<(), TransferError> {
    let mut digest = TableDigest::new();
    let mut last: Option<Row> = None;
    loop {
        let rows = target.read(table, last.as_ref()).await.map_err(TransferError::Target)?;
        if rows.is_empty() {
            break;
        }
        digest.add(&rows);
        last = rows.last().cloned();
        progress(TransferProgress { is_comparison: true, table, rows: digest.rows() });
    }
    let found = digest.finish();
    match (found.rows == expected.rows, found == *expected) {
        (_, true) => Ok(()),
        (true, false) => Err(TransferError::Contents(table)),
        (false, _) => {
            Err(TransferError::Rows { table, expected: expected.rows, found: found.rows })
        }
    }
}
