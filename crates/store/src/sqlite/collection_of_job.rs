//! The properties of a collection that are read with each of its jobs. Many jobs share few
//! collections.

use foldhash::HashMap;
use kalends_domain::{CollectionPath, Location};
use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::CollectionKey;
use crate::sqlite::code::{collect, read};
use crate::sqlite::collections::read_collection_path;
use crate::sqlite::error::SqliteResult;
use crate::stored_form::read_collection;

/// The properties of a job's collection.
#[derive(Clone)]
pub(crate) struct CollectionOfJob {
    pub(crate) key: CollectionKey,
    pub(crate) path: CollectionPath,
    /// When it was last enabled.
    pub(crate) enabled_since: Instant,
    /// Location in its definition.
    pub(crate) location: Location,
}

/// Collections read in one snapshot, by id; `None` for a deleted one.
#[derive(Default)]
pub(crate) struct CollectionsOfJobs(HashMap<i64, Option<CollectionOfJob>>);

impl CollectionsOfJobs {
    /// A collection; `None` if it does not exist.
    pub(crate) fn get(
        &mut self,
        connection: &Connection,
        id: i64,
    ) -> SqliteResult<Option<CollectionOfJob>> {
        if let Some(cached) = self.0.get(&id) {
            return Ok(cached.clone());
        }
        let found = find(connection, id)?;
        self.0.insert(id, found.clone());
        Ok(found)
    }
}

fn find(connection: &Connection, id: i64) -> SqliteResult<Option<CollectionOfJob>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.name AS collection_name, c.enabled_since, c.definition, g.subscription,
             g.name AS group_name
         FROM collections c JOIN groups g ON g.id = c.group_id WHERE c.id = ?",
    )?;
    let collection = |row: &rusqlite::Row<'_>| {
        let definition = row.get_ref("definition")?.as_str().map_err(rusqlite::Error::from)?;
        Ok(CollectionOfJob {
            key: CollectionKey(id),
            path: read_collection_path(row)?,
            enabled_since: read(row, "enabled_since")?,
            location: read_collection(definition)?.location,
        })
    };
    Ok(collect(statement.query([id])?, collection)?.pop())
}
