//! A PostgreSQL database for one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kalends_environment::SeededEntropy;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::stored_form::DefinitionCodec;
use tokio_postgres::{Client, NoTls};

/// A new database, used by one test only.
pub(crate) struct TestDatabase {
    pub(crate) url: String,
}

pub(crate) fn settings() -> PostgresSettings {
    PostgresSettings { connections_max: 4, ..PostgresSettings::default() }
}

pub(crate) fn codec(seed: u64) -> DefinitionCodec {
    let entropy = Arc::new(SeededEntropy::new(seed));
    let (key, _) = MasterKey::generate(&*entropy).unwrap();
    DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default())
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl TestDatabase {
    pub(crate) async fn create() -> TestDatabase {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let server = std::env::var("KALENDS_TEST_POSTGRES").unwrap();
        connect(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (server, _) = server.rsplit_once('/').unwrap();
        TestDatabase { url: format!("{server}/{name}") }
    }

    pub(crate) async fn connect(&self) -> PostgresStore {
        PostgresStore::connect(&self.url, settings(), codec(1)).await.unwrap()
    }

    /// A connection that bypasses the store.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url).await
    }

    /// Moves all leases and the pause into the past. Nothing else depends on the clock of the database.
    pub(crate) async fn advance_clock(&self, duration: Duration) {
        let ticks = i64::try_from(duration.as_nanos() / 100).unwrap();
        let sql = "UPDATE runs SET lease_until = lease_until - $1";
        self.client().await.execute(sql, &[&ticks]).await.unwrap();
        let sql = "UPDATE pause SET since = since - $1, until = until - $1";
        self.client().await.execute(sql, &[&ticks]).await.unwrap();
    }
}
