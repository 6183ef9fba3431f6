//! PostgreSQL and Redis, with a database for each measurement.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio_postgres::{Client, NoTls};

use super::processor::parent_of;

/// The PostgreSQL server of `scripts/with-postgres --durable`.
pub struct Postgres {
    client: Client,
    /// URL without the name of a database.
    base: String,
    /// Process id of the server.
    pub process: u32,
    /// Version and durability as the server reports them.
    pub version: String,
    /// Settings of the server that decide about durability.
    pub durability: String,
    databases: usize,
}

impl Postgres {
    /// Connects to the server that `KALENDS_TEST_POSTGRES` names.
    pub async fn connect() -> anyhow::Result<Postgres> {
        let url = std::env::var("KALENDS_TEST_POSTGRES")
            .context("run it by scripts/with-postgres --durable")?;
        let client = connect(&url).await?;
        let show = async |name: &str| -> anyhow::Result<String> {
            Ok(client.query_one(&format!("SHOW {name}"), &[]).await?.try_get(0)?)
        };
        let version = format!("PostgreSQL {}", show("server_version").await?);
        let durability = format!(
            "fsync {}, synchronous_commit {}",
            show("fsync").await?,
            show("synchronous_commit").await?
        );
        let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        let process = parent_of(backend.unsigned_abs()).context("the server has no process")?;
        let (base, _) = url.rsplit_once('/').context("the URL has no database")?;
        let base = base.to_owned();
        Ok(Postgres { client, base, process, version, durability, databases: 0 })
    }

    /// Creates a database and returns its URL.
    pub async fn create(&mut self) -> anyhow::Result<String> {
        self.databases += 1;
        let name = format!("bench_{}_{}", std::process::id(), self.databases);
        self.client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(format!("{}/{name}", self.base))
    }

    /// Collects statistics of a database and writes a checkpoint, so that no measurement pays for the
    /// writes before it.
    pub async fn settle(&self, url: &str) -> anyhow::Result<()> {
        let client = connect(url).await?;
        client.batch_execute("ANALYZE").await?;
        Ok(client.batch_execute("CHECKPOINT").await?)
    }

    /// Drops a database.
    pub async fn drop(&self, url: &str) -> anyhow::Result<()> {
        let name = url.rsplit('/').next().context("the URL has no database")?;
        Ok(self.client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await?)
    }
}

/// Connects to a database.
pub async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends when the client is dropped.
    tokio::spawn(connection);
    Ok(client)
}

/// When Redis writes its log to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appendfsync {
    /// Before it responds: as durable as a commit of the other contenders.
    Always,
    /// Every second: a power failure loses up to a second of work.
    EverySecond,
}

impl Appendfsync {
    /// Value of the setting.
    pub fn value(self) -> &'static str {
        match self {
            Appendfsync::Always => "always",
            Appendfsync::EverySecond => "everysec",
        }
    }
}

/// A Redis server with an append-only file, killed when dropped.
pub struct Redis {
    child: Child,
    /// URL of the server.
    pub url: String,
}

impl Redis {
    /// Starts a server with its files in a directory.
    pub async fn start(folder: &Path, appendfsync: Appendfsync) -> anyhow::Result<Redis> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let child = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", appendfsync.value(), "--dir"])
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server")?;
        let redis = Redis { child, url: format!("redis://127.0.0.1:{port}") };
        for _ in 0..100 {
            if std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok() {
                return Ok(redis);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("redis-server does not listen")
    }

    /// Process id of the server.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
