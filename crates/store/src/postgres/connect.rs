//! [`PostgresStore`], its connection pool and the parameters of its connections.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use deadpool::managed::QueueMode;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::sync::watch;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use crate::error::StoreError;
use crate::postgres::commit::RowCache;
use crate::postgres::edit_jobs::EditQueue;
use crate::postgres::lease_floor::LeaseFloor;
use crate::postgres::notify::{Listener, listen};
use crate::postgres::read_queue::ReadQueue;
use crate::postgres::transaction::Database;
use crate::postgres::{PostgresSettings, migrate};
use crate::stored_form::DefinitionCodec;

/// The server cancels a statement this much before the deadline of the call, so that its error still
/// arrives in time.
pub(super) const SERVER_MARGIN: Duration = Duration::from_millis(200);
/// TCP keep-alive: idle time before the first probe.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A store in a PostgreSQL database. Its calls share a pool of connections; the engine's calls go
/// through [`PostgresStore::for_engine`], which has a pool of its own.
pub struct PostgresStore {
    pub(super) database: Database,
    pub(super) codec: Arc<DefinitionCodec>,
    pub(super) listener: Arc<Listener>,
    /// Number of searches for due jobs so far.
    pub(super) due_searches: AtomicU32,
    /// The lower bound of leases; only for the engine.
    pub(super) lease_floor: Option<LeaseFloor>,
    /// Rows that commits need not read again.
    pub(super) row_cache: Arc<RowCache>,
    /// Edits of jobs that wait for a transaction.
    pub(super) edits: Arc<EditQueue>,
    /// Reads of jobs that wait for a statement.
    pub(super) reads: Arc<ReadQueue>,
    engine_pool: Pool,
}

impl fmt::Debug for PostgresStore {
    /// Omits the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({:?})", self.database.settings)
    }
}

impl PostgresStore {
    /// Connects without TLS, migrates the schema and checks the encryption key. Use it over loopback
    /// or a trusted network only; otherwise see [`PostgresStore::connect_with`].
    pub async fn connect(
        url: &str,
        settings: PostgresSettings,
        codec: DefinitionCodec,
    ) -> Result<PostgresStore, StoreError> {
        PostgresStore::connect_with(url, settings, codec, NoTls).await
    }

    /// Connects through `tls`, migrates the schema and checks the encryption key.
    pub async fn connect_with<T>(
        url: &str,
        settings: PostgresSettings,
        codec: DefinitionCodec,
        tls: T,
    ) -> Result<PostgresStore, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let config = config(url, &settings)?;
        migrate::migrate(&config, &settings, tls.clone(), &codec).await?;
        let listener = listen(config.clone(), settings, tls.clone());
        let pool = |config: Config, connections_max| {
            let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            Pool::builder(Manager::from_config(config, tls.clone(), manager_config))
                .max_size(connections_max)
                // As few connections as possible: each of them prepares and plans statements anew.
                .queue_mode(QueueMode::Lifo)
                .runtime(Runtime::Tokio1)
                .wait_timeout(Some(settings.deadline))
                .create_timeout(Some(settings.connect_deadline))
                .recycle_timeout(Some(settings.connect_deadline))
                .build()
                .map_err(|error| StoreError::Failed(error.to_string()))
        };
        let api_config = with_options(&config, API_PLANS);
        let engine_config = with_options(&config, ENGINE_PLANS);
        let engine_pool = pool(engine_config, settings.engine_connections_max)?;
        let database = Database { pool: pool(api_config, settings.connections_max)?, settings };
        let (codec, listener) = (Arc::new(codec), Arc::new(listener));
        let edits = EditQueue::new(database.clone(), Arc::clone(&codec), Arc::clone(&listener));
        let reads = ReadQueue::new(database.clone());
        Ok(PostgresStore {
            database,
            codec,
            listener,
            due_searches: AtomicU32::new(0),
            lease_floor: None,
            row_cache: Arc::default(),
            edits,
            reads,
            engine_pool,
        })
    }

    /// The same store for the engine: its calls have connections of their own, and never wait for
    /// calls of the API. A connection is opened when it is needed.
    #[must_use]
    pub fn for_engine(&self) -> PostgresStore {
        PostgresStore {
            database: Database { pool: self.engine_pool.clone(), settings: self.database.settings },
            codec: Arc::clone(&self.codec),
            listener: Arc::clone(&self.listener),
            due_searches: AtomicU32::new(0),
            lease_floor: Some(LeaseFloor::new()),
            row_cache: Arc::default(),
            edits: Arc::clone(&self.edits),
            reads: Arc::clone(&self.reads),
            engine_pool: self.engine_pool.clone(),
        }
    }

    /// Changes when any node has committed an edit or requested a run. A notification carries no
    /// data; a lost one delays the reader until its next poll.
    pub fn change_notifications(&self) -> watch::Receiver<()> {
        self.listener.subscribe()
    }
}

/// Port of PostgreSQL if the URL has none.
const PORT: u16 = 5432;

/// Hosts and ports that a connection to this URL may use, without Unix sockets. Empty if the URL is
/// invalid.
pub fn endpoints(url: &str) -> Vec<(String, u16)> {
    let Ok(config) = url.parse::<Config>() else { return Vec::new() };
    let ports = config.get_ports();
    // A single port is that of all hosts.
    let port = |place: usize| {
        let port = if ports.len() == 1 { ports.first() } else { ports.get(place) };
        port.copied().unwrap_or(PORT)
    };
    // The driver does not split the parameter `host` of a URL.
    let names = config.get_hosts().iter().flat_map(|host| match host {
        Host::Tcp(names) => names.split(',').map(Some).collect(),
        Host::Unix(_) => vec![None],
    });
    let hosts = names.enumerate().filter_map(|(place, name)| {
        let name = name?.trim_matches(['[', ']']);
        Some((name.to_owned(), port(place)))
    });
    let addresses = config.get_hostaddrs().iter().enumerate();
    let addresses = addresses.map(|(place, address)| (address.to_string(), port(place)));
    hosts.chain(addresses).collect()
}

/// The parameters of every connection.
fn config(url: &str, settings: &PostgresSettings) -> Result<Config, StoreError> {
    let invalid = |_| StoreError::Failed("the URL of the database is invalid".into());
    let config: Config = url.parse().map_err(invalid)?;
    let milliseconds = |time: Duration| time.as_millis().max(1);
    let server_timeout = milliseconds(settings.deadline.saturating_sub(SERVER_MARGIN));
    let lock_timeout = milliseconds(settings.lock_deadline);
    let idle_timeout = milliseconds(settings.idle_deadline);
    let options = format!(
        "-c statement_timeout={server_timeout} -c lock_timeout={lock_timeout} \
         -c idle_in_transaction_session_timeout={idle_timeout} -c client_min_messages=warning \
         -c default_transaction_isolation=read\\ committed"
    );
    let mut config = with_options(&config, &options);
    config.connect_timeout(settings.connect_deadline);
    config.keepalives_idle(KEEPALIVE);
    config.tcp_user_timeout(settings.deadline);
    if config.get_application_name().is_none() {
        config.application_name("kalends");
    }
    Ok(config)
}

/// How the database plans statements of the API. Each of them reads a bounded number of rows by an index,
/// where the statistics of a large table may suggest to read all of it.
const API_PLANS: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off";

/// How the database plans statements of the engine. They read and write rows by arrays of keys, often of
/// tables that were empty when the database last counted their rows. They are planned once, as searches
/// of an index for each key.
///
/// A join of an array with `runs` or `states` is written with `BETWEEN`, which finds the same rows by the
/// same search. For `=`, the database may read the index of a table that was small when it planned the
/// statement from its start to its end, as for a merge join, and compare each row with each key.
const ENGINE_PLANS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off";

/// The parameters with further options of the server.
fn with_options(config: &Config, options: &str) -> Config {
    let mut config = config.clone();
    let others = config.get_options().unwrap_or_default().to_owned();
    config.options(format!("{others} {options}"));
    config
}
