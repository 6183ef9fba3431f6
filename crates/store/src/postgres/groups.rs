//! Resource groups: reads and edits.

use kalends_domain::{GroupName, GroupPath, SubscriptionId};

use crate::api_store::{GROUPS_PER_SUBSCRIPTION_MAX, Page};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::error::PostgresError;
use crate::postgres::removal::delete_collections;
use crate::postgres::row::{self, get, write_group};
use crate::postgres::transaction::{Operation, Transaction, execute, query};
use crate::record::GroupRecord;

impl PostgresStore {
    pub(super) async fn read_group(
        &self,
        path: GroupPath,
    ) -> Result<Option<GroupRecord>, StoreError> {
        let sql = "SELECT subscription, name AS group_name, definition AS group_definition
             FROM groups WHERE subscription_key = $1 AND group_key = $2";
        let rows = self.query(sql, &[&path.subscription.key(), &path.group.key()]).await?;
        rows.first().map(row::group).transpose()
    }

    pub(super) async fn read_groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Result<Vec<GroupRecord>, StoreError> {
        let sql = "SELECT subscription, name AS group_name, definition AS group_definition
             FROM groups WHERE subscription_key = $1 AND group_key > $2
             ORDER BY group_key OFFSET $3 LIMIT $4";
        // Every name sorts after the empty string.
        let after = page.after.as_ref().map(GroupName::key).unwrap_or_default();
        let (skip, limit) = (rows_max(page.skip), rows_max(page.limit));
        let rows = self.query(sql, &[&subscription.key(), &after, &skip, &limit]).await?;
        rows.iter().map(row::group).collect()
    }
}

/// Creates a group, or replaces its location and tags. Returns `true` for a new group.
pub(super) struct PutGroup(pub(super) GroupRecord);

impl Operation for PutGroup {
    type Output = bool;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<bool, PostgresError> {
        let path = &self.0.path;
        lock_subscription(transaction, &path.subscription).await?;
        let definition = write_group(&self.0)?;
        let (subscription_key, group_key) = (path.subscription.key(), path.group.key());
        let update = "UPDATE groups SET definition = $3
             WHERE subscription_key = $1 AND group_key = $2";
        let keys = [&subscription_key, &group_key, &definition];
        if execute(transaction, update, &keys.map(|key| key as _)).await? > 0 {
            return Ok(false);
        }
        insert_group(transaction, path, &definition).await?;
        Ok(true)
    }
}

/// Deletes a group with its collections and their jobs. Returns `false` if there is none.
pub(super) struct DeleteGroup(pub(super) GroupPath);

impl Operation for DeleteGroup {
    type Output = bool;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<bool, PostgresError> {
        let path = &self.0;
        lock_subscription(transaction, &path.subscription).await?;
        let Some(id) = group_id(transaction, path).await? else { return Ok(false) };
        let inside = "SELECT id FROM collections WHERE group_id = $1 ORDER BY id FOR NO KEY UPDATE";
        let inside = query(transaction, inside, &[&id]).await?;
        let inside = inside.iter().map(|row| get(row, "id")).collect::<Result<Vec<i64>, _>>()?;
        delete_collections(transaction, &inside).await?;
        execute(transaction, "DELETE FROM groups WHERE id = $1", &[&id]).await?;
        Ok(true)
    }
}

/// Locks a subscription until the commit: other transactions wait before they create or delete its
/// groups and collections.
pub(super) async fn lock_subscription(
    transaction: &Transaction<'_>,
    subscription: &SubscriptionId,
) -> Result<(), PostgresError> {
    let lock = "INSERT INTO subscriptions (subscription_key) VALUES ($1)
         ON CONFLICT (subscription_key)
         DO UPDATE SET subscription_key = excluded.subscription_key";
    execute(transaction, lock, &[&subscription.key()]).await?;
    Ok(())
}

pub(super) async fn group_id(
    transaction: &Transaction<'_>,
    path: &GroupPath,
) -> Result<Option<i64>, PostgresError> {
    let found = "SELECT id FROM groups WHERE subscription_key = $1 AND group_key = $2";
    let found = query(transaction, found, &[&path.subscription.key(), &path.group.key()]).await?;
    Ok(found.first().map(|row| get(row, "id")).transpose()?)
}

/// Inserts a group and returns its id. The subscription must be locked. Fails if it has no room for
/// another group.
pub(super) async fn insert_group(
    transaction: &Transaction<'_>,
    path: &GroupPath,
    definition: &str,
) -> Result<i64, PostgresError> {
    let count = "SELECT count(*) AS count FROM groups WHERE subscription_key = $1";
    let count = query(transaction, count, &[&path.subscription.key()]).await?;
    let count: i64 = count.first().map(|row| get(row, "count")).transpose()?.unwrap_or_default();
    if count >= rows_max(GROUPS_PER_SUBSCRIPTION_MAX) {
        return Err(StoreError::TooManyGroups.into());
    }
    let insert = "INSERT INTO groups (subscription_key, group_key, subscription, name, definition)
         VALUES ($1, $2, $3, $4, $5) RETURNING id";
    let (subscription, name) = (path.subscription.as_str(), path.group.as_str());
    let (subscription_key, group_key) = (path.subscription.key(), path.group.key());
    let inserted = query(
        transaction,
        insert,
        &[&subscription_key, &group_key, &subscription, &name, &definition],
    )
    .await?;
    let id = inserted.first().map(|row| get(row, "id")).transpose()?;
    id.ok_or_else(|| StoreError::Failed("the insert of a group returned no id".into()).into())
}
