//! [`PostgresStore`], its connection pool and the parameters of its connections.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::sync::watch;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use crate::error::StoreError;
use crate::postgres::notify::{Listener, listen};
use crate::postgres::{PostgresSettings, migrate};
use crate::stored_form::DefinitionCodec;

/// The server cancels a statement this much before the deadline of the call, so that its error still
/// arrives in time.
pub(super) const SERVER_MARGIN: Duration = Duration::from_millis(200);
/// TCP keep-alive: idle time before the first probe.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pub(super) pool: Pool,
    pub(super) settings: PostgresSettings,
    pub(super) codec: DefinitionCodec,
    pub(super) listener: Listener,
}

impl fmt::Debug for PostgresStore {
    /// Omits the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({:?})", self.settings)
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
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, tls, manager_config))
            .max_size(settings.connections_max)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(settings.deadline))
            .create_timeout(Some(settings.connect_deadline))
            .recycle_timeout(Some(settings.connect_deadline))
            .build()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(PostgresStore { pool, settings, codec, listener })
    }

    /// Changes when any node has committed an edit or requested a run. A notification carries no
    /// data; a lost one delays the reader until its next poll.
    pub fn change_notifications(&self) -> watch::Receiver<()> {
        self.listener.subscribe()
    }
}

/// The parameters of every connection.
fn config(url: &str, settings: &PostgresSettings) -> Result<Config, StoreError> {
    let invalid = |_| StoreError::Failed("the URL of the database is invalid".into());
    let mut config: Config = url.parse().map_err(invalid)?;
    let server_timeout = settings.deadline.saturating_sub(SERVER_MARGIN).as_millis().max(1);
    let options = config.get_options().unwrap_or_default().to_owned();
    config.options(format!(
        "{options} -c statement_timeout={server_timeout} -c lock_timeout={server_timeout} \
         -c idle_in_transaction_session_timeout={server_timeout} -c client_min_messages=warning \
         -c default_transaction_isolation=read\\ committed"
    ));
    config.connect_timeout(settings.connect_deadline);
    config.keepalives_idle(KEEPALIVE);
    config.tcp_user_timeout(settings.deadline);
    if config.get_application_name().is_none() {
        config.application_name("kalends");
    }
    Ok(config)
}
