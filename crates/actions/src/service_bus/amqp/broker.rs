//! An AMQP connection to a broker, with its authorisations and sender links.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::{Connection, Sender, Session};
use kalends_domain::{CollectionPath, Secret};
use kalends_environment::{Clock, Entropy, new_guid};
use tokio::sync::{Mutex, oneshot, watch};

use super::cbs::Cbs;
use super::error::{attach_error, begin_error, closed_before_send, open_error};
use super::pool::PoolSlot;
use crate::egress::{Destination, Egress, Identity};
use crate::endpoints::{AmqpEndpoint, AmqpLogin};
use crate::service_bus::error::ServiceBusError;
use crate::signature::shared_access_signature;
use crate::timing::AttemptTimer;

/// Sender links of one connection. When there are more, all are detached.
const LINKS_MAX: usize = 64;
/// Bytes of a frame from the broker.
const FRAME_BYTES_MAX: u32 = 64 * 1024;
/// AMQP idle timeout: a connection is closed if the broker sends not even empty frames.
const IDLE_TIMEOUT_MILLISECONDS: u32 = 60_000;
/// Time limit to open, authorise and attach, whatever the timeout of the attempt: other attempts
/// wait for the same connection.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30);
/// Lifetime of a token.
const TOKEN_LIFETIME_SECONDS: i64 = 3_600;
/// A token is renewed this long before it expires. It exceeds the idle time of a pooled connection,
/// so that no token expires on one.
const RENEW_SECONDS_BEFORE: i64 = 900;

/// The parameters of a connection.
pub(super) struct ConnectOptions<'a> {
    pub(super) egress: &'a Egress,
    /// The collection on whose behalf the connection is opened.
    pub(super) collection: &'a CollectionPath,
    pub(super) clock: &'a dyn Clock,
    pub(super) entropy: &'a dyn Entropy,
    pub(super) endpoint: &'a AmqpEndpoint,
    pub(super) key_name: &'a str,
    pub(super) key: &'a Secret,
    /// Records the phases of connecting.
    pub(super) timer: &'a AttemptTimer,
}

/// An open connection. It is closed when it is dropped.
pub(super) struct BrokerConnection {
    /// By queue or topic.
    links: HashMap<String, Arc<Mutex<Sender>>>,
    /// When the token of each queue or topic expires, in Unix seconds.
    authorised: HashMap<String, i64>,
    cbs: Option<Cbs>,
    session: SessionHandle<()>,
    /// Its sender is dropped when the connection closes.
    closed: watch::Receiver<()>,
    /// Dropping it closes the connection.
    _open: oneshot::Sender<()>,
}

/// A sender link to a queue or topic.
pub(super) struct SenderLink {
    pub(super) sender: Arc<Mutex<Sender>>,
    /// Whether it was attached for this attempt.
    pub(super) is_new: bool,
    /// Its sender is dropped when the connection closes.
    pub(super) closed: watch::Receiver<()>,
}

impl PoolSlot<BrokerConnection> {
    /// The existing link to a queue or topic, or a new one.
    pub(super) async fn link(
        &self,
        options: &ConnectOptions<'_>,
        entity: &str,
    ) -> Result<SenderLink, ServiceBusError> {
        let mut connection = self.connection.lock().await;
        let linking = self.link_locked(&mut connection, options, entity);
        tokio::time::timeout(SETUP_TIMEOUT, linking).await.unwrap_or_else(|_| {
            Err(ServiceBusError::Unreachable("Timeout The broker does not answer".into()))
        })
    }

    async fn link_locked(
        &self,
        slot: &mut Option<BrokerConnection>,
        options: &ConnectOptions<'_>,
        entity: &str,
    ) -> Result<SenderLink, ServiceBusError> {
        // Removed while it changes: a cancelled attempt then leaves no half-open connection.
        if let Some(mut connection) = slot.take()
            && let Some(link) = connection.link_unless_closed(options, entity).await
        {
            *slot = Some(connection);
            return link;
        }
        let mut connection = BrokerConnection::open(options).await?;
        let link = connection.link_unless_closed(options, entity).await;
        let link = link.unwrap_or_else(|| Err(closed_before_send()));
        if !connection.is_closed() {
            *slot = Some(connection);
        }
        link
    }
}

impl BrokerConnection {
    async fn open(options: &ConnectOptions<'_>) -> Result<BrokerConnection, ServiceBusError> {
        let host = options.endpoint.host();
        let to = Destination::of_url(&options.endpoint.address, options.collection)
            .ok_or(ServiceBusError::InvalidAddress)?;
        let stream = options.egress.connect(&to, &Identity::none(), options.timer).await?;
        let profile = match options.endpoint.login {
            AmqpLogin::Token => SaslProfile::Anonymous,
            AmqpLogin::Plain => SaslProfile::Plain {
                username: options.key_name.to_owned(),
                password: options.key.reveal().to_owned(),
            },
        };
        let mut connection = Connection::builder()
            .container_id(format!("kalends-{}", new_guid(options.entropy)))
            .hostname(host.as_str())
            .max_frame_size(FRAME_BYTES_MAX)
            .idle_time_out(IDLE_TIMEOUT_MILLISECONDS)
            .sasl_profile(profile)
            .open_with_stream(stream)
            .await
            .map_err(open_error)?;
        let mut session = Session::begin(&mut connection).await.map_err(begin_error)?;
        let cbs = match options.endpoint.login {
            AmqpLogin::Token => Some(Cbs::attach(&mut session).await?),
            AmqpLogin::Plain => None,
        };
        let (links, authorised) = (HashMap::new(), HashMap::new());
        let (open, dropped) = oneshot::channel();
        let (alive, closed) = watch::channel(());
        tokio::spawn(hold_open(connection, dropped, alive));
        Ok(BrokerConnection { links, authorised, cbs, session, closed, _open: open })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.has_changed().is_err() || self.session.is_ended()
    }

    /// A link, or `None` if the connection is closed or closes meanwhile: operations on a closed
    /// connection may never complete.
    async fn link_unless_closed(
        &mut self,
        options: &ConnectOptions<'_>,
        entity: &str,
    ) -> Option<Result<SenderLink, ServiceBusError>> {
        if self.is_closed() {
            return None;
        }
        let mut closed = self.closed.clone();
        tokio::select! {
            biased;
            link = self.link(options, entity) => Some(link),
            _ = closed.changed() => None,
        }
    }

    async fn link(
        &mut self,
        options: &ConnectOptions<'_>,
        entity: &str,
    ) -> Result<SenderLink, ServiceBusError> {
        self.authorise(options, entity).await?;
        if let Some(sender) = self.links.get(entity) {
            let (sender, closed) = (Arc::clone(sender), self.closed.clone());
            return Ok(SenderLink { sender, is_new: false, closed });
        }
        if self.links.len() >= LINKS_MAX {
            self.links.clear();
        }
        let name = format!("kalends-{}", new_guid(options.entropy));
        let address = format!("{}{entity}", options.endpoint.prefix);
        let attached = Sender::attach(&mut self.session, name, address).await;
        let sender = Arc::new(Mutex::new(attached.map_err(attach_error)?));
        self.links.insert(entity.to_owned(), Arc::clone(&sender));
        Ok(SenderLink { sender, is_new: true, closed: self.closed.clone() })
    }

    async fn authorise(
        &mut self,
        options: &ConnectOptions<'_>,
        entity: &str,
    ) -> Result<(), ServiceBusError> {
        let Some(cbs) = &mut self.cbs else { return Ok(()) };
        let now = options.clock.now().as_second();
        if self.authorised.get(entity).is_some_and(|until| now < until - RENEW_SECONDS_BEFORE) {
            return Ok(());
        }
        let audience = format!("sb://{}/{entity}", options.endpoint.host());
        let expires = now + TOKEN_LIFETIME_SECONDS;
        let token =
            shared_access_signature(&audience, options.key_name, options.key.reveal(), expires);
        cbs.put_token(&audience, token).await?;
        if self.authorised.len() >= LINKS_MAX {
            self.authorised.clear();
        }
        self.authorised.insert(entity.to_owned(), expires);
        Ok(())
    }
}

/// Holds a connection until its owner drops it or the broker closes it, then drops `alive`.
async fn hold_open(
    mut connection: ConnectionHandle<()>,
    dropped: oneshot::Receiver<()>,
    alive: watch::Sender<()>,
) {
    tokio::select! {
        _ = connection.on_close() => {}
        _ = dropped => {}
    }
    drop(alive);
}
