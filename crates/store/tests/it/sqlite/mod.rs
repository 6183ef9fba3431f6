//! The SQLite driver: the conformance suite, crash recovery, files and flushes.

mod batches;
mod conformance;
mod crash;
mod damage;
mod dump;
mod equivalence;
mod file;
mod flush;
mod secrets;
mod tokens;
mod upgrade;

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

/// A codec whose key depends on the seed only.
fn codec(seed: u64) -> DefinitionCodec {
    let entropy = Arc::new(SeededEntropy::new(seed));
    let (key, _) = MasterKey::generate(&*entropy).unwrap();
    DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default())
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_second(1_770_000_000).unwrap()))
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteSettings::default(), codec(1), clock())
}

/// The given number of seconds after the initial time of [`clock`].
fn at(seconds: u64) -> Instant {
    let now: Instant = Timestamp::from_second(1_770_000_000).unwrap().into();
    now.saturating_add(Duration::from_secs(seconds))
}
