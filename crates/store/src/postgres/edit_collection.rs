//! Creates, replaces or deletes a collection.

use kalends_domain::{Collection, CollectionPath, CollectionState, NewNote, Plan};
use kalends_recurrence::{Instant, ticks_to_duration};
use tokio_postgres::Row;

use crate::api_store::{CollectionContext, CollectionWrite, DecideCollection, Edited};
use crate::error::StoreError;
use crate::notes::action_on_collection;
use crate::postgres::clock::clock;
use crate::postgres::code::Code;
use crate::postgres::columns::collection_columns;
use crate::postgres::error::PostgresError;
use crate::postgres::groups::{group_id, insert_group, lock_subscription};
use crate::postgres::notes::{SubjectKey, add_note};
use crate::postgres::removal::{delete_collections, exclude_commits};
use crate::postgres::row::{coded, collection, get, path_keys, unsigned, write_group};
use crate::postgres::transaction::{Operation, Transaction, execute, query};
use crate::record::{CollectionFacts, CollectionRecord, GroupRecord, enabled_since};
use crate::stored_form::write_collection;

/// Creates, replaces or deletes a collection as `decide` returns, and adds the note.
pub(super) struct EditCollection {
    pub(super) path: CollectionPath,
    pub(super) decide: DecideCollection,
    pub(super) note: Option<NewNote>,
}

/// A collection whose row is locked until the commit.
pub(super) struct LockedCollection {
    pub(super) id: i64,
    pub(super) jobs: u64,
    pub(super) record: CollectionRecord,
}

impl Operation for EditCollection {
    type Output = Edited<CollectionRecord>;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Edited<CollectionRecord>, PostgresError> {
        lock_subscription(transaction, &self.path.group.subscription).await?;
        let existing = lock_collection(transaction, &self.path).await?;
        let id = existing.as_ref().map(|locked| locked.id);
        let others = count_by_plan(transaction, &self.path, id).await?;
        let facts = facts(transaction, id).await?;
        let now = clock(transaction).await?;
        let before = existing.map(|locked| locked.record);
        let write = self.decide(before.as_ref(), facts, &others, now)?;
        let action = action_on_collection(&write, before.as_ref());
        let (id, after) = match write {
            CollectionWrite::Keep => (id, before.clone()),
            CollectionWrite::Delete => {
                delete_collections(transaction, &Vec::from_iter(id)).await?;
                (id, None)
            }
            CollectionWrite::Put(collection) => {
                let before = id.zip(before.as_ref());
                let (id, after) = self.put(transaction, collection, before, now).await?;
                (Some(id), Some(after))
            }
        };
        if let (Some(note), Some(action), Some(id)) = (&self.note, action, id) {
            add_note(transaction, SubjectKey::collection(id), action, note, now).await?;
        }
        Ok(Edited { before, after })
    }
}

// `&mut self` throughout: `decide` is `Send` but not `Sync`.
impl EditCollection {
    fn decide(
        &mut self,
        existing: Option<&CollectionRecord>,
        facts: CollectionFacts,
        plans: &[(Plan, u64)],
        now: Instant,
    ) -> Result<CollectionWrite, StoreError> {
        let others = |plan: Plan| {
            plans.iter().find(|(other, _)| *other == plan).map_or(0, |(_, number)| *number)
        };
        let context = CollectionContext { existing, facts, others: &others, now };
        (self.decide)(context).map_err(StoreError::Rejected)
    }

    async fn put(
        &mut self,
        transaction: &Transaction<'_>,
        collection: Collection,
        before: Option<(i64, &CollectionRecord)>,
        now: Instant,
    ) -> Result<(i64, CollectionRecord), PostgresError> {
        let definition = write_collection(&collection)?;
        let plan = collection.plan.code();
        let enabled = collection.state == CollectionState::Enabled;
        let since = enabled_since(before.map(|(_, before)| before), &collection, now);
        let Some((id, before)) = before else {
            let group = self.group(transaction).await?;
            let insert =
                "INSERT INTO collections (group_id, collection_key, name, definition, plan,
                    enabled, created, enabled_since, version, jobs)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, 0)";
            let (key, name) = (self.path.collection.key(), self.path.collection.as_str());
            execute(
                transaction,
                insert,
                &[&group, &key, &name, &definition, &plan, &enabled, &now.ticks(), &since.ticks()],
            )
            .await?;
            let inserted = lock_collection(transaction, &self.path).await?;
            let inserted = inserted
                .ok_or_else(|| StoreError::Failed("the inserted collection is missing".into()))?;
            return Ok((inserted.id, inserted.record));
        };
        if enabled != (before.collection.state == CollectionState::Enabled) {
            exclude_commits(transaction, &[id]).await?;
        }
        let update = "UPDATE collections
             SET definition = $2, plan = $3, enabled = $4, enabled_since = $5, version = version + 1
             WHERE id = $1";
        let ticks = since.ticks();
        execute(transaction, update, &[&id, &definition, &plan, &enabled, &ticks]).await?;
        let version = before.version + 1;
        let after =
            CollectionRecord { collection, enabled_since: since, version, ..before.clone() };
        Ok((id, after))
    }

    /// The id of the group, which is created if it does not exist.
    async fn group(&mut self, transaction: &Transaction<'_>) -> Result<i64, PostgresError> {
        let path = &self.path.group;
        if let Some(id) = group_id(transaction, path).await? {
            return Ok(id);
        }
        let group = GroupRecord { path: path.clone(), location: None, tags: vec![] };
        insert_group(transaction, path, &write_group(&group)?).await
    }
}

/// Locks a collection against other edits until the commit; `None` if it does not exist. Commits of
/// the engine go on: see `exclude_commits`.
async fn lock_collection(
    transaction: &Transaction<'_>,
    path: &CollectionPath,
) -> Result<Option<LockedCollection>, PostgresError> {
    let [subscription, group, collection] = path_keys(path);
    let found = query(transaction, LOCK_COLLECTION, &[&subscription, &group, &collection]).await?;
    Ok(locked_collection(&found)?)
}

/// Locks the collection of `lock_collection`.
pub(super) const LOCK_COLLECTION: &str = concat!(
    "SELECT c.id, c.jobs, ",
    collection_columns!(),
    " FROM collections c JOIN groups g ON g.id = c.group_id
      WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
      FOR NO KEY UPDATE OF c"
);

/// The collection in the result of [`LOCK_COLLECTION`].
pub(super) fn locked_collection(rows: &[Row]) -> Result<Option<LockedCollection>, StoreError> {
    let locked = |row: &Row| {
        let (id, jobs) = (get(row, "id")?, unsigned(row, "jobs")?);
        Ok(LockedCollection { id, jobs, record: collection(row)? })
    };
    rows.first().map(locked).transpose()
}

/// The number of collections of each plan in the subscription, without collection `id`.
async fn count_by_plan(
    transaction: &Transaction<'_>,
    path: &CollectionPath,
    id: Option<i64>,
) -> Result<Vec<(Plan, u64)>, PostgresError> {
    let count = "SELECT c.plan, count(*) AS number
         FROM collections c JOIN groups g ON g.id = c.group_id
         WHERE g.subscription_key = $1 AND c.id IS DISTINCT FROM $2::bigint GROUP BY c.plan";
    let found = query(transaction, count, &[&path.group.subscription.key(), &id]).await?;
    let plan = |row: &Row| Ok((coded(row, "plan")?, unsigned(row, "number")?));
    Ok(found.iter().map(plan).collect::<Result<_, StoreError>>()?)
}

/// Aggregates of the jobs of a collection, for plan and quota checks.
async fn facts(
    transaction: &Transaction<'_>,
    id: Option<i64>,
) -> Result<CollectionFacts, PostgresError> {
    let aggregate = "SELECT count(*) AS jobs, min(shortest_gap) AS shortest_gap,
            count(*) FILTER (WHERE authenticated) AS authenticated,
            min(shortest_retry) AS shortest_retry
         FROM jobs WHERE collection_id = $1";
    let Some(id) = id else { return Ok(CollectionFacts::default()) };
    let found = query(transaction, aggregate, &[&id]).await?;
    let facts = |row: &Row| {
        Ok::<_, StoreError>(CollectionFacts {
            jobs: unsigned(row, "jobs")?,
            shortest_gap: get::<Option<i64>>(row, "shortest_gap")?.map(ticks_to_duration),
            authenticated: unsigned(row, "authenticated")?,
            shortest_retry: get::<Option<i64>>(row, "shortest_retry")?.map(ticks_to_duration),
        })
    };
    Ok(found.first().map(facts).transpose()?.unwrap_or_default())
}
