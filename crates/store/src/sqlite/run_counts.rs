//! The table `run_counts`: closed occurrences per collection and bucket of ten minutes.

use std::collections::BTreeMap;

use kalends_domain::AccessScope;
use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::run_reports::{ALL_COLLECTIONS, RunCounts, bucket_of, buckets_between, start_of_bucket};
use crate::sqlite::code::{Coded, collect, nth, rows_max};
use crate::sqlite::collections::ids_in_scope;
use crate::sqlite::error::SqliteResult;

/// Adds the counts of a transaction, each with its bucket and collection: one write for each bucket and
/// collection, and one for all collections.
pub(crate) fn add(
    connection: &Connection,
    counts: Vec<((i64, i64), RunCounts)>,
) -> SqliteResult<()> {
    let mut sums: BTreeMap<(i64, i64), RunCounts> = BTreeMap::new();
    for ((bucket, collection), counts) in counts {
        sums.entry((bucket, ALL_COLLECTIONS)).or_default().add(counts);
        sums.entry((bucket, collection)).or_default().add(counts);
    }
    for ((bucket, collection), counts) in sums {
        let RunCounts { succeeded, failed, skipped, missed } = counts;
        connection
            .prepare_cached(
                "INSERT INTO run_counts (bucket, collection, succeeded, failed, skipped, missed)
                 VALUES (?, ?, ?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET succeeded = succeeded + excluded.succeeded,
                     failed = failed + excluded.failed, skipped = skipped + excluded.skipped,
                     missed = missed + excluded.missed",
            )?
            .execute((
                bucket,
                collection,
                Coded(succeeded),
                Coded(failed),
                Coded(skipped),
                Coded(missed),
            ))?;
    }
    Ok(())
}

/// The counts of all collections in any of the scopes, by bucket.
pub(crate) fn read(
    connection: &Connection,
    scopes: &[AccessScope],
    from: Instant,
    to: Instant,
) -> SqliteResult<Vec<(Instant, RunCounts)>> {
    let collections = match scopes.contains(&AccessScope::Everything) {
        true => vec![ALL_COLLECTIONS],
        false => ids_in_scopes(connection, scopes)?,
    };
    let mut sums: BTreeMap<i64, RunCounts> = BTreeMap::new();
    // Two lists, so that the index finds each row of a collection among those of many others.
    let mut statement = connection.prepare_cached(
        "SELECT bucket, succeeded, failed, skipped, missed FROM run_counts
         WHERE bucket IN (SELECT value FROM json_each(?1))
             AND collection IN (SELECT value FROM json_each(?2))",
    )?;
    let json = |numbers: Vec<i64>| serde_json::Value::from(numbers).to_string();
    let lists = (json(buckets_between(from, to).collect()), json(collections));
    let rows = collect(statement.query(lists)?, |row| {
        let counts = RunCounts {
            succeeded: nth(row, 1)?,
            failed: nth(row, 2)?,
            skipped: nth(row, 3)?,
            missed: nth(row, 4)?,
        };
        Ok((row.get::<_, i64>(0)?, counts))
    })?;
    rows.into_iter().for_each(|(bucket, counts)| sums.entry(bucket).or_default().add(counts));
    Ok(sums.into_iter().map(|(bucket, counts)| (start_of_bucket(bucket), counts)).collect())
}

fn ids_in_scopes(connection: &Connection, scopes: &[AccessScope]) -> SqliteResult<Vec<i64>> {
    let mut ids = Vec::new();
    for scope in scopes {
        ids.extend(ids_in_scope(connection, scope)?);
    }
    // Scopes may overlap.
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Removes at most `limit` rows of buckets before that of `cutoff`; returns their number.
pub(crate) fn remove(
    connection: &Connection,
    cutoff: Instant,
    limit: usize,
) -> SqliteResult<usize> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM run_counts WHERE (bucket, collection) IN (
             SELECT bucket, collection FROM run_counts WHERE bucket < ?
             ORDER BY bucket, collection LIMIT ?)",
    )?;
    Ok(statement.execute((bucket_of(cutoff), rows_max(limit as u64)))?)
}
