//! A collection is made, changed or deleted.

use deadpool_postgres::Transaction;
use kalends_domain::{Collection, CollectionPath, CollectionState, Plan};
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::call::{Length, Work, change, rows};
use crate::postgres::clock::clock;
use crate::postgres::code::{Code, span};
use crate::postgres::columns::collection_columns;
use crate::postgres::fault::Fault;
use crate::postgres::group::{group_id, lock_subscription, make_group};
use crate::postgres::removal::{delete_collections, lock_states_of};
use crate::postgres::row::{collection, get, unsigned, word, write_group};
use crate::record::{CollectionFacts, CollectionRecord, GroupRecord, enabled_since};
use crate::store::{CollectionContext, CollectionWrite, DecideCollection, Edited};
use crate::stored_form::write_collection;

/// Makes, changes or deletes a collection as `decide` says.
pub(super) struct EditCollection {
    pub(super) path: CollectionPath,
    pub(super) decide: DecideCollection,
}

/// A collection that nobody else edits until the commit.
pub(super) struct Locked {
    pub(super) id: i64,
    pub(super) jobs: u64,
    pub(super) record: CollectionRecord,
}

impl Work for EditCollection {
    type Answer = Edited<CollectionRecord>;
    const LENGTH: Length = Length::Long;

    async fn carry_out(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Edited<CollectionRecord>, Fault> {
        lock_subscription(transaction, &self.path.group.subscription).await?;
        let existing = lock_collection(transaction, &self.path).await?;
        let id = existing.as_ref().map(|locked| locked.id);
        let others = plans(transaction, &self.path, id).await?;
        let facts = facts(transaction, id).await?;
        let now = clock(transaction).await?;
        let before = existing.map(|locked| locked.record);
        let after = match self.decide(before.as_ref(), facts, &others)? {
            CollectionWrite::Keep => before.clone(),
            CollectionWrite::Delete => {
                delete_collections(transaction, &Vec::from_iter(id)).await?;
                None
            }
            CollectionWrite::Put(collection) => {
                let before = id.zip(before.as_ref());
                Some(self.put(transaction, collection, before, now).await?)
            }
        };
        Ok(Edited { before, after })
    }
}

// `&mut` throughout: who decides may not be shared between threads.
impl EditCollection {
    fn decide(
        &mut self,
        existing: Option<&CollectionRecord>,
        facts: CollectionFacts,
        plans: &[(Plan, u64)],
    ) -> Result<CollectionWrite, StoreError> {
        let others = |plan: Plan| {
            plans.iter().find(|(other, _)| *other == plan).map_or(0, |(_, number)| *number)
        };
        let context = CollectionContext { existing, facts, others: &others };
        (self.decide)(context).map_err(StoreError::Refused)
    }

    async fn put(
        &mut self,
        transaction: &Transaction<'_>,
        collection: Collection,
        before: Option<(i64, &CollectionRecord)>,
        now: Instant,
    ) -> Result<CollectionRecord, Fault> {
        let definition = write_collection(&collection)?;
        let plan = collection.plan.code();
        let enabled = collection.state == CollectionState::Enabled;
        let since = enabled_since(before.map(|(_, before)| before), &collection, now);
        let Some((id, before)) = before else {
            let group = self.group(transaction).await?;
            let make = "INSERT INTO collections (group_id, collection_key, name, definition, plan,
                    enabled, created, enabled_since, version, jobs)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, 0)";
            let (key, name) = (self.path.collection.key(), self.path.collection.as_str());
            change(
                transaction,
                make,
                &[&group, &key, &name, &definition, &plan, &enabled, &now.ticks(), &since.ticks()],
            )
            .await?;
            let made = lock_collection(transaction, &self.path).await?;
            let made = made.ok_or_else(|| StoreError::Failed("it was not made".into()))?;
            return Ok(made.record);
        };
        let replace = "UPDATE collections
             SET definition = $2, plan = $3, enabled = $4, enabled_since = $5, version = version + 1
             WHERE id = $1";
        let ticks = since.ticks();
        change(transaction, replace, &[&id, &definition, &plan, &enabled, &ticks]).await?;
        if enabled != (before.collection.state == CollectionState::Enabled) {
            lock_states_of(transaction, &[id]).await?;
            let switch = "UPDATE states SET collection_enabled = $2
                 WHERE job IN (SELECT key FROM jobs WHERE collection_id = $1)";
            change(transaction, switch, &[&id, &enabled]).await?;
        }
        let version = before.version + 1;
        Ok(CollectionRecord { collection, enabled_since: since, version, ..before.clone() })
    }

    /// The number of the group, which is made where there is none.
    async fn group(&mut self, transaction: &Transaction<'_>) -> Result<i64, Fault> {
        let path = &self.path.group;
        if let Some(id) = group_id(transaction, path).await? {
            return Ok(id);
        }
        let group = GroupRecord { path: path.clone(), location: None, tags: vec![] };
        make_group(transaction, path, &write_group(&group)?).await
    }
}

/// Locks a collection, where there is one.
pub(super) async fn lock_collection(
    transaction: &Transaction<'_>,
    path: &CollectionPath,
) -> Result<Option<Locked>, Fault> {
    let lock = concat!(
        "SELECT c.id, c.jobs, ",
        collection_columns!(),
        " FROM collections c JOIN groups g ON g.id = c.group_id
          WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
          FOR UPDATE OF c"
    );
    let (subscription, group) = (path.group.subscription.key(), path.group.group.key());
    let found = rows(transaction, lock, &[&subscription, &group, &path.collection.key()]).await?;
    let locked = |row: &Row| {
        let (id, jobs) = (get(row, "id")?, unsigned(row, "jobs")?);
        Ok::<_, StoreError>(Locked { id, jobs, record: collection(row)? })
    };
    Ok(found.first().map(locked).transpose()?)
}

/// How many other collections of the subscription there are of each plan.
async fn plans(
    transaction: &Transaction<'_>,
    path: &CollectionPath,
    id: Option<i64>,
) -> Result<Vec<(Plan, u64)>, Fault> {
    let count = "SELECT c.plan, count(*) AS number
         FROM collections c JOIN groups g ON g.id = c.group_id
         WHERE g.subscription_key = $1 AND c.id IS DISTINCT FROM $2::bigint GROUP BY c.plan";
    let found = rows(transaction, count, &[&path.group.subscription.key(), &id]).await?;
    let plan = |row: &Row| Ok((word(row, "plan")?, unsigned(row, "number")?));
    Ok(found.iter().map(plan).collect::<Result<_, StoreError>>()?)
}

/// What the jobs of a collection have in common.
async fn facts(transaction: &Transaction<'_>, id: Option<i64>) -> Result<CollectionFacts, Fault> {
    let gather = "SELECT count(*) AS jobs, min(shortest_gap) AS shortest_gap,
            count(*) FILTER (WHERE authenticated) AS authenticated,
            min(shortest_retry) AS shortest_retry
         FROM jobs WHERE collection_id = $1";
    let Some(id) = id else { return Ok(CollectionFacts::default()) };
    let found = rows(transaction, gather, &[&id]).await?;
    let facts = |row: &Row| {
        Ok::<_, StoreError>(CollectionFacts {
            jobs: unsigned(row, "jobs")?,
            shortest_gap: get::<Option<i64>>(row, "shortest_gap")?.map(span),
            authenticated: unsigned(row, "authenticated")?,
            shortest_retry: get::<Option<i64>>(row, "shortest_retry")?.map(span),
        })
    };
    Ok(found.first().map(facts).transpose()?.unwrap_or_default())
}
