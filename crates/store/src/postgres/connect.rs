//! The store, its pool and its connections.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::sync::watch;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

use crate::error::StoreError;
use crate::postgres::nudge::{Listener, listen};
use crate::postgres::{PostgresSettings, migrate};
use crate::stored_form::DefinitionCodec;

/// How much earlier than the caller the server gives up, so that its answer still arrives.
pub(super) const SERVER_MARGIN: Duration = Duration::from_millis(200);
/// After this long without a sign of life a connection is asked for one.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A store in PostgreSQL.
pub struct PostgresStore {
    pub(super) pool: Pool,
    pub(super) settings: PostgresSettings,
    pub(super) codec: DefinitionCodec,
    pub(super) listener: Listener,
}

impl fmt::Debug for PostgresStore {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({:?})", self.settings)
    }
}

impl PostgresStore {
    /// Connects to a database, brings its schema up to date and checks the key. Connections are
    /// plain: use it on the loopback or in a network that is trusted, or see
    /// [`PostgresStore::connect_with`].
    pub async fn connect(
        url: &str,
        settings: PostgresSettings,
        codec: DefinitionCodec,
    ) -> Result<PostgresStore, StoreError> {
        PostgresStore::connect_with(url, settings, codec, NoTls).await
    }

    /// The same over what `tls` makes of a connection.
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
        migrate::bring_up_to_date(&config, &settings, tls.clone(), &codec).await?;
        let listener = listen(config.clone(), settings, tls.clone());
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, tls, how))
            .max_size(settings.connections_max)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(settings.deadline))
            .create_timeout(Some(settings.connect_deadline))
            .recycle_timeout(Some(settings.connect_deadline))
            .build()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(PostgresStore { pool, settings, codec, listener })
    }

    /// Changes when somebody, on any node, has edited something or asked for a run. It says that it
    /// is worth looking, and nothing else; one that is lost costs the time until the next look.
    pub fn nudges(&self) -> watch::Receiver<()> {
        self.listener.subscribe()
    }
}

/// What every connection is told when it begins.
fn config(url: &str, settings: &PostgresSettings) -> Result<Config, StoreError> {
    let invalid = |_| StoreError::Failed("the address of the database cannot be read".into());
    let mut config: Config = url.parse().map_err(invalid)?;
    let server = settings.deadline.saturating_sub(SERVER_MARGIN).as_millis().max(1);
    let asked = config.get_options().unwrap_or_default().to_owned();
    config.options(format!(
        "{asked} -c statement_timeout={server} -c lock_timeout={server} \
         -c idle_in_transaction_session_timeout={server} -c client_min_messages=warning \
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
