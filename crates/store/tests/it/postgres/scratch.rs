//! A database for one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kalends_environment::SeededEntropy;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::stored_form::DefinitionCodec;
use tokio_postgres::{Client, NoTls};

/// A database that nobody else uses.
pub(crate) struct Scratch {
    pub(crate) url: String,
}

pub(crate) fn settings() -> PostgresSettings {
    PostgresSettings { connections_max: 4, ..PostgresSettings::default() }
}

pub(crate) fn codec(seed: u64) -> DefinitionCodec {
    let entropy = Arc::new(SeededEntropy::new(seed));
    let (key, _) = MasterKey::generate(&*entropy).unwrap();
    DefinitionCodec::new(Cipher::new(key, vec![], entropy), &[])
}

async fn plain(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Scratch {
    pub(crate) async fn make() -> Scratch {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let server = std::env::var("KALENDS_TEST_POSTGRES").unwrap();
        plain(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (server, _) = server.rsplit_once('/').unwrap();
        Scratch { url: format!("{server}/{name}") }
    }

    pub(crate) async fn connect(&self) -> PostgresStore {
        PostgresStore::connect(&self.url, settings(), codec(1)).await.unwrap()
    }

    /// A connection past the store.
    pub(crate) async fn plain(&self) -> Client {
        plain(&self.url).await
    }

    /// Lets time pass for leases, which are all that the clock of the database decides.
    pub(crate) async fn pass(&self, duration: Duration) {
        let ticks = i64::try_from(duration.as_nanos() / 100).unwrap();
        let sql = "UPDATE runs SET lease_until = lease_until - $1";
        self.plain().await.execute(sql, &[&ticks]).await.unwrap();
    }
}
