//! Keys derived from the encryption key of a store.
//!
//! A rotation of that key stores those that are in use: the derived ones do not change.

use kalends_store::StoreError;
use kalends_store::encryption::MasterKey;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::sqlite::derived_key;
use zeroize::Zeroizing;

use crate::store_location::{Database, StoreLocation, codec};

/// Purpose of the key from which the signing keys of collections are derived. Part of the stored format:
/// a change invalidates the keys of all receivers.
pub(crate) const SIGNING: &str = "webhook signatures";

/// Purpose of the key of cursors and event ids. A change makes clients start again.
pub(crate) const POSITIONS: &str = "positions";

/// All purposes.
pub(crate) const PURPOSES: [&str; 2] = [SIGNING, POSITIONS];

/// The signing key of a store, for a tool. A store that does not exist yet will derive it from its key.
pub(crate) fn signing_key(location: &StoreLocation) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    let key: MasterKey = location.key()?;
    match location.database()? {
        Database::Sqlite(path) if !path.exists() => Ok(key.derive(SIGNING)),
        Database::Sqlite(path) => Ok(derived_key(path, &codec(key), SIGNING)?),
        Database::Postgres(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let found: Result<_, StoreError> = runtime.block_on(async {
                let settings =
                    PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
                PostgresStore::connect(url, settings, codec(key)).await?.derived_key(SIGNING).await
            });
            Ok(found?)
        }
    }
}
