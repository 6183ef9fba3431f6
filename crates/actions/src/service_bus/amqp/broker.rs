//! A connection to a broker: opened, authorised for a queue or topic, attached to it.

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
use super::fault::{attach_failure, begin_failure, closed_failure, open_failure};
use super::pool::Slot;
use crate::egress::{Destination, Egress, Identity};
use crate::endpoints::{AmqpEndpoint, AmqpLogin};
use crate::laps::Laps;
use crate::service_bus::failure::Failure;
use crate::signature::shared_access_signature;

/// Links to different queues and topics on one connection; then they are attached anew.
const LINKS_MAX: usize = 64;
/// Bytes of a frame from the broker.
const FRAME_BYTES_MAX: u32 = 64 * 1024;
/// A silent broker is given up after so long; one that is there sends empty frames meanwhile.
const SILENCE_MILLISECONDS_MAX: u32 = 60_000;
/// How long opening, authorising and attaching take together at most, however long the attempt may
/// take: others wait for the same connection meanwhile.
const SETUP_MAX: Duration = Duration::from_secs(30);
/// How long a token is good.
const TOKEN_SECONDS: i64 = 3_600;
/// A token is renewed so long before it ends; longer than a connection is kept idle, so that none
/// ends on a connection that is kept.
const RENEW_SECONDS_BEFORE: i64 = 900;

/// What a connection is made with.
pub(super) struct Dial<'a> {
    pub(super) egress: &'a Egress,
    /// On behalf of which collection.
    pub(super) collection: &'a CollectionPath,
    pub(super) clock: &'a dyn Clock,
    pub(super) entropy: &'a dyn Entropy,
    pub(super) endpoint: &'a AmqpEndpoint,
    pub(super) key_name: &'a str,
    pub(super) key: &'a Secret,
    /// How long making it takes.
    pub(super) laps: &'a Laps,
}

/// An open connection with what is attached to it. It is closed when it is dropped.
pub(super) struct Broker {
    links: HashMap<String, Arc<Mutex<Sender>>>,
    /// Until when a token authorises for an address, in Unix seconds.
    authorised: HashMap<String, i64>,
    cbs: Option<Cbs>,
    session: SessionHandle<()>,
    /// Its other side is gone when the connection is.
    closed: watch::Receiver<()>,
    /// Keeps the connection open.
    _open: oneshot::Sender<()>,
}

/// A link that a message can be sent over.
pub(super) struct Lease {
    pub(super) sender: Arc<Mutex<Sender>>,
    /// Whether it was attached just now.
    pub(super) is_new: bool,
    /// Its other side is gone when the connection is.
    pub(super) closed: watch::Receiver<()>,
}

impl Slot<Broker> {
    /// A link to a queue or topic: the kept one, or a new one.
    pub(super) async fn link(&self, dial: &Dial<'_>, entity: &str) -> Result<Lease, Failure> {
        let mut kept = self.kept.lock().await;
        let linking = self.link_held(&mut kept, dial, entity);
        tokio::time::timeout(SETUP_MAX, linking).await.unwrap_or_else(|_| {
            Err(Failure::Unreachable("Timeout The broker does not answer".into()))
        })
    }

    async fn link_held(
        &self,
        kept: &mut Option<Broker>,
        dial: &Dial<'_>,
        entity: &str,
    ) -> Result<Lease, Failure> {
        // Taken out while it is changed: who is interrupted leaves no half-made connection behind.
        if let Some(mut broker) = kept.take()
            && let Some(lease) = broker.link_unless_closed(dial, entity).await
        {
            *kept = Some(broker);
            return lease;
        }
        let mut broker = Broker::open(dial).await?;
        let lease = broker.link_unless_closed(dial, entity).await;
        let lease = lease.unwrap_or_else(|| Err(closed_failure()));
        if !broker.is_closed() {
            *kept = Some(broker);
        }
        lease
    }
}

impl Broker {
    async fn open(dial: &Dial<'_>) -> Result<Broker, Failure> {
        let host = dial.endpoint.host();
        let to = Destination::of_url(&dial.endpoint.address, dial.collection)
            .ok_or_else(Failure::no_address)?;
        let connected = dial.egress.connect(&to, &Identity::none(), dial.laps).await;
        let stream = connected.map_err(|why| Failure::Unreachable(why.to_string()))?;
        let profile = match dial.endpoint.login {
            AmqpLogin::Token => SaslProfile::Anonymous,
            AmqpLogin::Plain => SaslProfile::Plain {
                username: dial.key_name.to_owned(),
                password: dial.key.reveal().to_owned(),
            },
        };
        let mut connection = Connection::builder()
            .container_id(format!("kalends-{}", new_guid(dial.entropy)))
            .hostname(host.as_str())
            .max_frame_size(FRAME_BYTES_MAX)
            .idle_time_out(SILENCE_MILLISECONDS_MAX)
            .sasl_profile(profile)
            .open_with_stream(stream)
            .await
            .map_err(open_failure)?;
        let mut session = Session::begin(&mut connection).await.map_err(begin_failure)?;
        let cbs = match dial.endpoint.login {
            AmqpLogin::Token => Some(Cbs::attach(&mut session).await?),
            AmqpLogin::Plain => None,
        };
        let (links, authorised) = (HashMap::new(), HashMap::new());
        let (open, let_go) = oneshot::channel();
        let (alive, closed) = watch::channel(());
        tokio::spawn(watch_over(connection, let_go, alive));
        Ok(Broker { links, authorised, cbs, session, closed, _open: open })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.has_changed().is_err() || self.session.is_ended()
    }

    /// A link, or nothing where the connection is closed or closes meanwhile: what is under way on
    /// it then may never end by itself.
    async fn link_unless_closed(
        &mut self,
        dial: &Dial<'_>,
        entity: &str,
    ) -> Option<Result<Lease, Failure>> {
        if self.is_closed() {
            return None;
        }
        let mut closed = self.closed.clone();
        tokio::select! {
            biased;
            lease = self.link(dial, entity) => Some(lease),
            _ = closed.changed() => None,
        }
    }

    async fn link(&mut self, dial: &Dial<'_>, entity: &str) -> Result<Lease, Failure> {
        self.authorise(dial, entity).await?;
        if let Some(sender) = self.links.get(entity) {
            let (sender, closed) = (Arc::clone(sender), self.closed.clone());
            return Ok(Lease { sender, is_new: false, closed });
        }
        if self.links.len() >= LINKS_MAX {
            self.links.clear();
        }
        let name = format!("kalends-{}", new_guid(dial.entropy));
        let address = format!("{}{entity}", dial.endpoint.prefix);
        let attached = Sender::attach(&mut self.session, name, address).await;
        let sender = Arc::new(Mutex::new(attached.map_err(attach_failure)?));
        self.links.insert(entity.to_owned(), Arc::clone(&sender));
        Ok(Lease { sender, is_new: true, closed: self.closed.clone() })
    }

    async fn authorise(&mut self, dial: &Dial<'_>, entity: &str) -> Result<(), Failure> {
        let Some(cbs) = &mut self.cbs else { return Ok(()) };
        let now = dial.clock.now().as_second();
        if self.authorised.get(entity).is_some_and(|until| now < until - RENEW_SECONDS_BEFORE) {
            return Ok(());
        }
        let audience = format!("sb://{}/{entity}", dial.endpoint.host());
        let expires = now + TOKEN_SECONDS;
        let token = shared_access_signature(&audience, dial.key_name, dial.key.reveal(), expires);
        cbs.put_token(&audience, token).await?;
        if self.authorised.len() >= LINKS_MAX {
            self.authorised.clear();
        }
        self.authorised.insert(entity.to_owned(), expires);
        Ok(())
    }
}

/// Holds a connection until it is let go or the broker closes it, and lets `alive` go with it.
async fn watch_over(
    mut connection: ConnectionHandle<()>,
    let_go: oneshot::Receiver<()>,
    alive: watch::Sender<()>,
) {
    tokio::select! {
        _ = connection.on_close() => {}
        _ = let_go => {}
    }
    drop(alive);
}
