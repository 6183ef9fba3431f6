//! Collections: reads.

use kalends_domain::CollectionPath;

use crate::api_store::{Page, Scope};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::columns::collection_columns;
use crate::postgres::row::{self, path_keys};
use crate::record::CollectionRecord;

impl PostgresStore {
    pub(super) async fn read_collection(
        &self,
        path: CollectionPath,
    ) -> Result<Option<CollectionRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            collection_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3"
        );
        let [subscription, group, collection] = path_keys(&path);
        let rows = self.query(sql, &[&subscription, &group, &collection]).await?;
        rows.first().map(row::collection).transpose()
    }

    pub(super) async fn read_collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Result<Vec<CollectionRecord>, StoreError> {
        let sql = concat!(
            "SELECT ",
            collection_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              WHERE g.subscription_key = $1 AND ($2::text IS NULL OR g.group_key = $2)
                AND (g.subscription_key, g.group_key, c.collection_key) > ($3, $4, $5)
              ORDER BY g.group_key, c.collection_key OFFSET $6 LIMIT $7"
        );
        let (subscription, group) = match scope {
            Scope::Subscription(subscription) => (subscription.key(), None),
            Scope::Group(path) => (path.subscription.key(), Some(path.group.key())),
        };
        // Every name sorts after the empty string.
        let [after_subscription, after_group, after_collection] =
            page.after.as_ref().map(path_keys).unwrap_or_default();
        let (skip, limit) = (rows_max(page.skip), rows_max(page.limit));
        let rows = self
            .query(
                sql,
                &[
                    &subscription,
                    &group,
                    &after_subscription,
                    &after_group,
                    &after_collection,
                    &skip,
                    &limit,
                ],
            )
            .await?;
        rows.iter().map(row::collection).collect()
    }
}
