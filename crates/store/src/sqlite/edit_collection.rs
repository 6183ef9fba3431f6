//! Edits of collections, decided inside the write transaction.

use std::cell::RefCell;

use kalends_domain::{CollectionPath, NewNote};
use kalends_recurrence::Instant;

use crate::api_store::{CollectionContext, CollectionWrite, DecideCollection, Edited};
use crate::error::StoreError;
use crate::notes::action_on_collection;
use crate::record::{CollectionFacts, CollectionRecord, enabled_since};
use crate::sqlite::collections;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::notes::{self, SubjectKey};
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::removal::delete_collection;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::WriteTransaction;

/// Creates, changes or deletes a collection as `decide` returns, and adds the note.
pub(crate) fn edit_collection(
    transaction: &mut WriteTransaction,
    path: &CollectionPath,
    mut decide: DecideCollection,
    note: Option<&NewNote>,
    now: Instant,
) -> SqliteResult<Edited<CollectionRecord>> {
    let connection = transaction.connection();
    let keys = CollectionKeys::new(path);
    let found = collections::find(connection, &keys)?;
    let id = found.as_ref().map(|found| found.id);
    let before = found.map(|found| found.record);
    let facts = match id {
        Some(id) => collections::facts(connection, id)?,
        None => CollectionFacts::default(),
    };
    let failure = RefCell::new(None);
    let others = |plan| {
        let count = collections::count(connection, &path.group.subscription, plan, id);
        count.unwrap_or_else(|error| {
            failure.replace(Some(error));
            0
        })
    };
    let context = CollectionContext { existing: before.as_ref(), facts, others: &others, now };
    let write = decide(context);
    if let Some(error) = failure.take() {
        return Err(error);
    }
    let write = write.map_err(StoreError::Rejected)?;
    let action = action_on_collection(&write, before.as_ref());
    let (id, after) = match (write, id) {
        (CollectionWrite::Keep, id) => (id, before.clone()),
        (CollectionWrite::Delete, id) => {
            id.map(|id| delete_collection(transaction, id)).transpose()?;
            (id, None)
        }
        (CollectionWrite::Put(collection), id) => {
            match id {
                Some(id) => {
                    let since = enabled_since(before.as_ref(), &collection, now);
                    collections::update(connection, id, &collection, since)?;
                }
                None => collections::insert(connection, path, &collection, now)?,
            }
            let found = collections::find(connection, &keys)?;
            transaction.invalidate_collections();
            found.map(|found| (found.id, found.record)).unzip()
        }
    };
    if let (Some(note), Some(action), Some(id)) = (note, action, id) {
        let subject = SubjectKey::collection(id);
        notes::add(transaction.connection(), subject, action, note, now)?;
    }
    Ok(Edited { before, after })
}
