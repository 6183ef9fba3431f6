//! Groups: made, replaced, and deleted with all that is in them.

use deadpool_postgres::Transaction;
use kalends_domain::{GroupPath, SubscriptionId};

use crate::error::StoreError;
use crate::postgres::call::{Length, Work, change, rows};
use crate::postgres::fault::Fault;
use crate::postgres::removal::delete_collections;
use crate::postgres::row::{get, write_group};
use crate::record::GroupRecord;

/// Makes a group, or replaces what is said of it.
pub(super) struct PutGroup(pub(super) GroupRecord);

impl Work for PutGroup {
    type Answer = bool;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<bool, Fault> {
        let GroupRecord { path, .. } = &self.0;
        lock_subscription(transaction, &path.subscription).await?;
        let definition = write_group(&self.0)?;
        let (subscription_key, group_key) = (path.subscription.key(), path.group.key());
        let changed = "UPDATE groups SET definition = $3
             WHERE subscription_key = $1 AND group_key = $2";
        let keys = [&subscription_key, &group_key, &definition];
        if change(transaction, changed, &keys.map(|key| key as _)).await? > 0 {
            return Ok(false);
        }
        make_group(transaction, path, &definition).await?;
        Ok(true)
    }
}

/// Deletes a group with all that is in it.
pub(super) struct DeleteGroup(pub(super) GroupPath);

impl Work for DeleteGroup {
    type Answer = bool;
    const LENGTH: Length = Length::Long;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<bool, Fault> {
        let path = &self.0;
        lock_subscription(transaction, &path.subscription).await?;
        let Some(id) = group_id(transaction, path).await? else { return Ok(false) };
        let inside = "SELECT id FROM collections WHERE group_id = $1 ORDER BY id FOR UPDATE";
        let inside = rows(transaction, inside, &[&id]).await?;
        let inside = inside.iter().map(|row| get(row, "id")).collect::<Result<Vec<i64>, _>>()?;
        delete_collections(transaction, &inside).await?;
        change(transaction, "DELETE FROM groups WHERE id = $1", &[&id]).await?;
        Ok(true)
    }
}

/// Nobody else makes or deletes groups and collections of a subscription until the commit.
pub(super) async fn lock_subscription(
    transaction: &Transaction<'_>,
    subscription: &SubscriptionId,
) -> Result<(), Fault> {
    let lock = "INSERT INTO subscriptions (subscription_key) VALUES ($1)
         ON CONFLICT (subscription_key)
         DO UPDATE SET subscription_key = excluded.subscription_key";
    change(transaction, lock, &[&subscription.key()]).await?;
    Ok(())
}

pub(super) async fn group_id(
    transaction: &Transaction<'_>,
    path: &GroupPath,
) -> Result<Option<i64>, Fault> {
    let found = "SELECT id FROM groups WHERE subscription_key = $1 AND group_key = $2";
    let found = rows(transaction, found, &[&path.subscription.key(), &path.group.key()]).await?;
    Ok(found.first().map(|row| get(row, "id")).transpose()?)
}

pub(super) async fn make_group(
    transaction: &Transaction<'_>,
    path: &GroupPath,
    definition: &str,
) -> Result<i64, Fault> {
    let make = "INSERT INTO groups (subscription_key, group_key, subscription, name, definition)
         VALUES ($1, $2, $3, $4, $5) RETURNING id";
    let (subscription, name) = (path.subscription.as_str(), path.group.as_str());
    let (subscription_key, group_key) = (path.subscription.key(), path.group.key());
    let made = rows(
        transaction,
        make,
        &[&subscription_key, &group_key, &subscription, &name, &definition],
    )
    .await?;
    let id = made.first().map(|row| get(row, "id")).transpose()?;
    id.ok_or_else(|| StoreError::Failed("a group was not made".into()).into())
}
