//! Statements on collections.

use kalends_domain::{
    AccessScope, Collection, CollectionName, CollectionPath, CollectionState, Plan, SubscriptionId,
};
use kalends_recurrence::{Instant, ticks_to_duration};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::api_store::{Page, Scope};
use crate::record::{CollectionFacts, CollectionRecord, enabled_since};
use crate::sqlite::code::{Code as _, Coded, collect, nth, read, rows_max};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::{self, invalid_name, read_path};
use crate::sqlite::path_keys::CollectionKeys;
use crate::stored_form::{read_collection, write_collection};

/// A collection with its id and the number of its jobs.
pub(crate) struct CollectionRow {
    pub(crate) id: i64,
    pub(crate) record: CollectionRecord,
    pub(crate) jobs: u64,
}

/// Reads the path of a collection from `collection_name` and the columns of its group.
pub(crate) fn read_collection_path(row: &Row<'_>) -> SqliteResult<CollectionPath> {
    let name = row.get_ref("collection_name")?.as_str().map_err(rusqlite::Error::from)?;
    let collection = CollectionName::new(name).map_err(invalid_name)?;
    Ok(CollectionPath { group: read_path(row)?, collection })
}

pub(crate) fn read_row(row: &Row<'_>) -> SqliteResult<CollectionRow> {
    let definition = row.get_ref("definition")?.as_str().map_err(rusqlite::Error::from)?;
    let record = CollectionRecord {
        path: read_collection_path(row)?,
        collection: read_collection(definition)?,
        created: read(row, "created")?,
        enabled_since: read(row, "enabled_since")?,
        version: read(row, "version")?,
    };
    Ok(CollectionRow { id: row.get("id")?, record, jobs: read(row, "jobs")? })
}

/// Finds a collection by the keys of its path.
pub(crate) fn find(
    connection: &Connection,
    keys: &CollectionKeys,
) -> SqliteResult<Option<CollectionRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.name AS collection_name, c.created, c.enabled_since, c.version, c.jobs,
             c.definition, g.subscription, g.name AS group_name
         FROM groups g JOIN collections c ON c.group_id = g.id
         WHERE g.subscription_key = ? AND g.name_key = ? AND c.name_key = ?",
    )?;
    let CollectionKeys { subscription, group, collection } = keys;
    Ok(collect(statement.query((subscription, group, collection))?, read_row)?.pop())
}

/// The part of a collection that reads of its jobs need.
pub(crate) struct CollectionLocation {
    pub(crate) id: i64,
    /// With the stored spelling.
    pub(crate) path: CollectionPath,
    pub(crate) state: CollectionState,
}

/// Reads the state of a collection from `enabled` and `collection_definition`.
fn read_collection_state(row: &Row<'_>) -> SqliteResult<CollectionState> {
    if row.get("enabled")? {
        return Ok(CollectionState::Enabled);
    }
    // Only the definition tells disabled from suspended.
    let definition = row.get_ref("collection_definition")?.as_str();
    Ok(read_collection(definition.map_err(rusqlite::Error::from)?)?.state)
}

/// Finds a collection for a read of its jobs.
pub(crate) fn locate(
    connection: &Connection,
    keys: &CollectionKeys,
) -> SqliteResult<Option<CollectionLocation>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.name AS collection_name, c.enabled,
             c.definition AS collection_definition, g.subscription, g.name AS group_name
         FROM groups g JOIN collections c ON c.group_id = g.id
         WHERE g.subscription_key = ? AND g.name_key = ? AND c.name_key = ?",
    )?;
    let CollectionKeys { subscription, group, collection } = keys;
    let read_location = |row: &Row<'_>| {
        let state = read_collection_state(row)?;
        Ok(CollectionLocation { id: row.get("id")?, path: read_collection_path(row)?, state })
    };
    Ok(collect(statement.query((subscription, group, collection))?, read_location)?.pop())
}

/// A page of the collections of a subscription or group, by group and name.
pub(crate) fn list(
    connection: &Connection,
    scope: &Scope,
    page: &Page<CollectionPath>,
) -> SqliteResult<Vec<CollectionRecord>> {
    let (subscription, group) = match scope {
        Scope::Subscription(subscription) => (subscription.key(), None),
        Scope::Group(path) => (path.subscription.key(), Some(path.group.key())),
    };
    let after = page.after.as_ref().map(|after| {
        (after.group.subscription.key(), after.group.group.key(), after.collection.key())
    });
    // Without a position, empty keys: they sort before every name.
    let (after_subscription, after_group, after_name) = after.unwrap_or_default();
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.name AS collection_name, c.created, c.enabled_since, c.version, c.jobs,
             c.definition, g.subscription, g.name AS group_name
         FROM groups g JOIN collections c ON c.group_id = g.id
         WHERE g.subscription_key = ?1 AND (?2 IS NULL OR g.name_key = ?2)
             AND (g.subscription_key, g.name_key, c.name_key) > (?3, ?4, ?5)
         ORDER BY g.name_key, c.name_key LIMIT ?6 OFFSET ?7",
    )?;
    let found = statement.query((
        subscription,
        group,
        after_subscription,
        after_group,
        after_name,
        rows_max(page.limit as u64),
        rows_max(page.skip),
    ))?;
    collect(found, |row| Ok(read_row(row)?.record))
}

/// Aggregates of the jobs of a collection, for plan and quota checks.
pub(crate) fn facts(connection: &Connection, id: i64) -> SqliteResult<CollectionFacts> {
    let mut statement = connection.prepare_cached(
        "SELECT jobs, authenticated,
             (SELECT min(shortest_gap) FROM jobs
              WHERE collection = ?1 AND shortest_gap IS NOT NULL) AS shortest_gap,
             (SELECT min(shortest_retry) FROM jobs
              WHERE collection = ?1 AND shortest_retry IS NOT NULL) AS shortest_retry
         FROM collections WHERE id = ?1",
    )?;
    let duration_of = |row: &Row<'_>, column: &str| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(ticks_to_duration))
    };
    let facts = statement.query_row([id], |row| {
        Ok(CollectionFacts {
            jobs: read(row, "jobs")?,
            shortest_gap: duration_of(row, "shortest_gap")?,
            authenticated: read(row, "authenticated")?,
            shortest_retry: duration_of(row, "shortest_retry")?,
        })
    })?;
    Ok(facts)
}

/// The number of collections of a plan in a subscription, without collection `except`.
pub(crate) fn count(
    connection: &Connection,
    subscription: &SubscriptionId,
    plan: Plan,
    except: Option<i64>,
) -> SqliteResult<u64> {
    let count: Coded<u64> = connection
        .prepare_cached(
            "SELECT count(*) FROM groups g JOIN collections c ON c.group_id = g.id
             WHERE g.subscription_key = ? AND c.plan = ? AND c.id IS NOT ?",
        )?
        .query_row((subscription.key(), Coded(plan), except), |row| row.get(0))?;
    Ok(count.0)
}

/// Inserts a collection, and its group if it does not exist.
pub(crate) fn insert(
    connection: &Connection,
    path: &CollectionPath,
    collection: &Collection,
    now: Instant,
) -> SqliteResult<()> {
    let group = groups::find_or_insert(connection, &path.group)?;
    connection
        .prepare_cached(
            "INSERT INTO collections (group_id, name_key, name, plan, enabled, created,
                 enabled_since, version, jobs, authenticated, definition)
             VALUES (?, ?, ?, ?, ?, ?, ?, 1, 0, 0, ?)",
        )?
        .execute((
            group,
            path.collection.key(),
            path.collection.as_str(),
            Coded(collection.plan),
            is_on(collection).code(),
            Coded(now),
            Coded(enabled_since(None, collection, now)),
            write_collection(collection)?,
        ))?;
    Ok(())
}

/// Replaces the definition of a collection.
pub(crate) fn update(
    connection: &Connection,
    id: i64,
    collection: &Collection,
    since: Instant,
) -> SqliteResult<()> {
    connection
        .prepare_cached(
            "UPDATE collections SET plan = ?, enabled = ?, enabled_since = ?, definition = ?,
                 version = version + 1
             WHERE id = ?",
        )?
        .execute((
            Coded(collection.plan),
            is_on(collection).code(),
            Coded(since),
            write_collection(collection)?,
            id,
        ))?;
    Ok(())
}

fn is_on(collection: &Collection) -> bool {
    collection.state == CollectionState::Enabled
}

/// Whether a collection is enabled; `None` if it does not exist.
pub(crate) fn is_enabled(connection: &Connection, id: i64) -> SqliteResult<Option<bool>> {
    let mut statement =
        connection.prepare_cached("SELECT enabled FROM collections WHERE id = ?")?;
    Ok(statement.query_row([id], |row| row.get(0)).optional()?)
}

/// Whether a collection is enabled, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionSwitch {
    pub(crate) is_enabled: bool,
    /// When it was last enabled.
    pub(crate) enabled_since: Instant,
}

/// The switch of a collection; `None` if it does not exist.
pub(crate) fn switch(connection: &Connection, id: i64) -> SqliteResult<Option<CollectionSwitch>> {
    let mut statement =
        connection.prepare_cached("SELECT enabled, enabled_since FROM collections WHERE id = ?")?;
    let switch = |row: &Row<'_>| {
        let (is_enabled, enabled_since) = (row.get(0)?, nth(row, 1)?);
        Ok(CollectionSwitch { is_enabled, enabled_since })
    };
    Ok(statement.query_row([id], switch).optional()?)
}

/// Adds to the counters of a collection. The arguments are differences.
pub(crate) fn recount(
    connection: &Connection,
    id: i64,
    jobs: i64,
    authenticated: i64,
) -> SqliteResult<()> {
    if (jobs, authenticated) != (0, 0) {
        connection
            .prepare_cached(
                "UPDATE collections SET jobs = jobs + ?, authenticated = authenticated + ?
                 WHERE id = ?",
            )?
            .execute((jobs, authenticated, id))?;
    }
    Ok(())
}

/// The numbers of the collections in a scope.
pub(crate) fn ids_in_scope(connection: &Connection, scope: &AccessScope) -> SqliteResult<Vec<i64>> {
    let (subscription, group, collection) = match scope {
        AccessScope::Everything => (None, None, None),
        AccessScope::Subscription(subscription) => (Some(subscription.key()), None, None),
        AccessScope::Group(path) => (Some(path.subscription.key()), Some(path.group.key()), None),
        AccessScope::Collection(path) => {
            let group = &path.group;
            let keys = (group.subscription.key(), group.group.key(), path.collection.key());
            (Some(keys.0), Some(keys.1), Some(keys.2))
        }
    };
    let mut statement = connection.prepare_cached(
        "SELECT c.id FROM groups g CROSS JOIN collections c ON c.group_id = g.id
         WHERE (?1 IS NULL OR g.subscription_key = ?1) AND (?2 IS NULL OR g.name_key = ?2)
             AND (?3 IS NULL OR c.name_key = ?3)",
    )?;
    let found = statement.query((subscription, group, collection))?;
    collect(found, |row| Ok(row.get(0)?))
}
