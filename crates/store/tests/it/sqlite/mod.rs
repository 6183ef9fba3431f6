//! The store in SQLite: the suite, and what only a file can do or suffer.

mod alike;
mod crash;
mod damage;
mod file;
mod folding;
mod secrets;
mod suite;
mod tokens;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kalends_environment::{ManualClock, SeededEntropy};
use kalends_recurrence::Instant;
use kalends_store::StoreError;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::stored_form::DefinitionCodec;

/// The codec of a seed: the same key each time.
fn codec(seed: u64) -> DefinitionCodec {
    let entropy = Arc::new(SeededEntropy::new(seed));
    let (key, _) = MasterKey::generate(&*entropy).unwrap();
    DefinitionCodec::new(Cipher::new(key, vec![], entropy), &[])
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_second(1_770_000_000).unwrap()))
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteSettings::default(), codec(1), clock())
}

/// Instants as seconds from the time that [`clock`] shows.
fn at(seconds: u64) -> Instant {
    let now: Instant = Timestamp::from_second(1_770_000_000).unwrap().into();
    now.saturating_add(Duration::from_secs(seconds))
}
