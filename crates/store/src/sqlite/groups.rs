//! Resource groups: statements.

use kalends_domain::{GroupName, GroupPath, NameError, SubscriptionId};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::api_store::{GROUPS_PER_SUBSCRIPTION_MAX, Page};
use crate::error::StoreError;
use crate::record::GroupRecord;
use crate::sqlite::code::{collect, rows_max};
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::removal::delete_collection;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::WriteTransaction;

const GROUPS_MAX: i64 = GROUPS_PER_SUBSCRIPTION_MAX as i64;

/// The error for an invalid name in the database.
pub(crate) fn invalid_name(error: NameError) -> SqliteError {
    StoreError::Damaged(format!("a name cannot be read: {error}")).into()
}

/// Reads the path of a group from columns `subscription` and `group_name`.
pub(crate) fn read_path(row: &Row<'_>) -> SqliteResult<GroupPath> {
    let text = |column: &str| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    Ok(GroupPath {
        subscription: SubscriptionId::new(text("subscription")?).map_err(invalid_name)?,
        group: GroupName::new(text("group_name")?).map_err(invalid_name)?,
    })
}

fn read_group(row: &Row<'_>) -> SqliteResult<GroupRecord> {
    let tags: String = row.get("tags")?;
    let tags = serde_json::from_str(&tags)
        .map_err(|error| StoreError::Damaged(format!("tags of a group: {error}")))?;
    Ok(GroupRecord { path: read_path(row)?, location: row.get("location")?, tags })
}

/// Creates a group, or replaces its location and tags. Returns `true` for a new group. Fails if the
/// subscription has no room for a new one.
pub(crate) fn put(connection: &Connection, group: &GroupRecord) -> SqliteResult<bool> {
    let tags = serde_json::to_string(&group.tags)
        .map_err(|error| StoreError::Failed(format!("tags of a group: {error}")))?;
    let is_new = id(connection, &group.path)?.is_none();
    if is_new && count(connection, &group.path.subscription)? >= GROUPS_MAX {
        return Err(StoreError::TooManyGroups.into());
    }
    connection
        .prepare_cached(
            "INSERT INTO groups (subscription_key, name_key, subscription, name, location, tags)
             VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT (subscription_key, name_key)
             DO UPDATE SET location = excluded.location, tags = excluded.tags",
        )?
        .execute((
            group.path.subscription.key(),
            group.path.group.key(),
            group.path.subscription.as_str(),
            group.path.group.as_str(),
            &group.location,
            tags,
        ))?;
    Ok(is_new)
}

fn count(connection: &Connection, subscription: &SubscriptionId) -> SqliteResult<i64> {
    let count = connection
        .prepare_cached("SELECT count(*) FROM groups WHERE subscription_key = ?")?
        .query_row([subscription.key()], |row| row.get(0))?;
    Ok(count)
}

fn id(connection: &Connection, path: &GroupPath) -> SqliteResult<Option<i64>> {
    let id = connection
        .prepare_cached("SELECT id FROM groups WHERE subscription_key = ? AND name_key = ?")?
        .query_row((path.subscription.key(), path.group.key()), |row| row.get(0))
        .optional()?;
    Ok(id)
}

/// The id of a group, which is created if it does not exist.
pub(crate) fn find_or_insert(connection: &Connection, path: &GroupPath) -> SqliteResult<i64> {
    if let Some(id) = id(connection, path)? {
        return Ok(id);
    }
    put(connection, &GroupRecord { path: path.clone(), location: None, tags: vec![] })?;
    Ok(connection.last_insert_rowid())
}

/// Finds a group by its path.
pub(crate) fn find(connection: &Connection, path: &GroupPath) -> SqliteResult<Option<GroupRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT subscription, name AS group_name, location, tags FROM groups
         WHERE subscription_key = ? AND name_key = ?",
    )?;
    let rows = statement.query((path.subscription.key(), path.group.key()))?;
    Ok(collect(rows, read_group)?.pop())
}

/// A page of the groups of a subscription in name order.
pub(crate) fn list(
    connection: &Connection,
    subscription: &SubscriptionId,
    page: &Page<GroupName>,
) -> SqliteResult<Vec<GroupRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT subscription, name AS group_name, location, tags FROM groups
         WHERE subscription_key = ? AND name_key > ? ORDER BY name_key LIMIT ? OFFSET ?",
    )?;
    // Without a position, the empty key: it sorts before every name.
    let after = page.after.as_ref().map(GroupName::key).unwrap_or_default();
    let (limit, skip) = (rows_max(page.limit as u64), rows_max(page.skip));
    collect(statement.query((subscription.key(), after, limit, skip))?, read_group)
}

/// Deletes a group with its collections. Returns `false` if it does not exist.
pub(crate) fn delete(transaction: &mut WriteTransaction, path: &GroupPath) -> SqliteResult<bool> {
    let Some(group) = id(transaction.connection(), path)? else { return Ok(false) };
    let mut statement =
        transaction.connection().prepare_cached("SELECT id FROM collections WHERE group_id = ?")?;
    let inside: Vec<i64> = collect(statement.query([group])?, |row| Ok(row.get("id")?))?;
    drop(statement);
    inside.iter().try_for_each(|id| delete_collection(transaction, *id))?;
    transaction.connection().prepare_cached("DELETE FROM groups WHERE id = ?")?.execute([group])?;
    Ok(true)
}
