//! From a request to its answer.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::answer::Answer;
use super::failure::Failure;
use super::head::Afterwards;
use super::http1::{self, Http1};
use super::http2::{self, Http2};
use super::pool::{Key, Pool, Target};
use super::request::Request;
use crate::egress::{Destination, Egress, Identity, Located, NoConnection, Protocols, Security};
use crate::laps::Laps;

/// Sends requests.
pub(crate) struct Client {
    egress: Egress,
    pool: Pool,
}

/// Connections that are made at once before they are needed: while some are waited for, others are
/// there already.
const AHEAD_AT_ONCE: usize = 32;

/// Where connections are made before they are needed.
struct Ahead {
    client: Arc<Client>,
    to: Destination,
    located: Located,
    target: Arc<Target>,
}

/// What became of a connection that was made before it is needed.
enum Reached {
    /// It is kept, and takes one request at a time.
    One,
    /// It takes all, or none can be made.
    EnoughOrNone,
}

impl Ahead {
    async fn connect(self: Arc<Ahead>) -> Reached {
        let Ahead { client, to, located, target } = &*self;
        let (identity, laps) = (Identity::none(), Laps::default());
        let dialled = client.egress.dial(to, located, &identity, Protocols::Http, &laps).await;
        let Ok(transport) = dialled else { return Reached::EnoughOrNone };
        if transport.is_http2() {
            if let Ok(connection) = Http2::new(transport).await {
                client.pool.share(target, &connection);
            }
            return Reached::EnoughOrNone;
        }
        client.pool.keep(target, Http1::new(transport));
        Reached::One
    }
}

impl Client {
    /// At most `connections_per_target_max` requests are under way to one target for one
    /// collection.
    pub(crate) fn new(egress: Egress, connections_per_target_max: usize) -> Client {
        Client { egress, pool: Pool::new(connections_per_target_max) }
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Sends a request and gives its answer, of whose body the first `kept_max` bytes are kept. What
    /// was noted before is forgotten.
    pub(crate) async fn send(
        &self,
        request: &Request,
        to: &Destination,
        identity: &Identity,
        kept_max: usize,
        laps: &Laps,
    ) -> Result<Answer, Failure> {
        laps.start_over();
        let located = self.egress.locate(to, laps).await?;
        let target = self.target(to, &located, identity)?;
        let _turn = target.turns.acquire().await.map_err(|_| NoConnection::Refused)?;
        if let Some(answered) = self.send_over_kept(request, &target, kept_max, laps).await {
            return answered;
        }
        // Rarely needed, and large: what is seldom done is not to be part of every request's memory.
        let place = (&located, &*target);
        Box::pin(self.send_over_new(request, to, place, identity, kept_max, laps)).await
    }

    /// Makes connections for so many requests without an identity, as far as there are none that are
    /// kept. Where one cannot be made, whoever needs it will find out why.
    pub(crate) async fn connect_ahead(self: Arc<Client>, to: Destination, count: usize) {
        let Ok(located) = self.egress.locate(&to, &Laps::default()).await else { return };
        let Ok(target) = self.target(&to, &located, &Identity::none()) else { return };
        let room = count.min(target.turns.available_permits());
        let mut missing = room.saturating_sub(self.pool.kept(&target));
        let ahead = Arc::new(Ahead { client: self, to, located, target });
        // The first with TLS tells whether one is enough.
        if ahead.to.security == Security::Tls && missing > 0 {
            missing = match Arc::clone(&ahead).connect().await {
                Reached::One => missing - 1,
                Reached::EnoughOrNone => 0,
            };
        }
        let mut under_way = JoinSet::new();
        for _ in 0..missing {
            if under_way.len() == AHEAD_AT_ONCE
                && !matches!(under_way.join_next().await, Some(Ok(Reached::One)))
            {
                return;
            }
            under_way.spawn(Arc::clone(&ahead).connect());
        }
        while under_way.join_next().await.is_some() {}
    }

    fn target(
        &self,
        to: &Destination,
        located: &Located,
        identity: &Identity,
    ) -> Result<Arc<Target>, NoConnection> {
        Ok(self.pool.target(Key {
            collection: to.collection.clone(),
            address: located.first().ok_or(NoConnection::Refused)?,
            security: to.security,
            server_name: to.server_name(),
            identity: identity.digest(),
        }))
    }

    /// Over a connection that is made for it.
    async fn send_over_new(
        &self,
        request: &Request,
        to: &Destination,
        (located, target): (&Located, &Target),
        identity: &Identity,
        kept_max: usize,
        laps: &Laps,
    ) -> Result<Answer, Failure> {
        let transport = self.egress.dial(to, located, identity, Protocols::Http, laps).await?;
        if transport.is_http2() {
            let mut connection = Http2::new(transport).await?;
            self.pool.share(target, &connection);
            connection.exchange(request, kept_max, laps).await.map_err(|failed| match failed {
                http2::Failed::Unsent => Failure::Receive("the request was not taken".into()),
                http2::Failed::Broken(failure) => failure,
            })
        } else {
            let connection = Http1::new(transport);
            self.exchange(connection, request, target, kept_max, laps).await.map_err(|failed| {
                match failed {
                    http1::Failed::Unsent => Failure::Receive("nothing could be sent".into()),
                    http1::Failed::Unanswered(why) => Failure::Receive(why),
                    http1::Failed::Broken(failure) => failure,
                }
            })
        }
    }

    /// Over a connection that was kept; none where there is none that takes the request.
    async fn send_over_kept(
        &self,
        request: &Request,
        target: &Target,
        kept_max: usize,
        laps: &Laps,
    ) -> Option<Result<Answer, Failure>> {
        if let Some(mut connection) = self.pool.http2(target) {
            match Box::pin(connection.exchange(request, kept_max, laps)).await {
                Ok(answer) => return Some(Ok(answer)),
                Err(http2::Failed::Broken(failure)) => return Some(Err(failure)),
                Err(http2::Failed::Unsent) => {}
            }
        }
        // Each turn takes one away; there is a bound for how many are kept.
        while let Some(connection) = self.pool.take(target) {
            match self.exchange(connection, request, target, kept_max, laps).await {
                Ok(answer) => return Some(Ok(answer)),
                Err(http1::Failed::Unsent) => {}
                Err(http1::Failed::Unanswered(_)) => {
                    return Some(Err(Failure::KeptConnectionClosed));
                }
                Err(http1::Failed::Broken(failure)) => return Some(Err(failure)),
            }
        }
        None
    }

    async fn exchange(
        &self,
        mut connection: Http1,
        request: &Request,
        target: &Target,
        kept_max: usize,
        laps: &Laps,
    ) -> Result<Answer, http1::Failed> {
        let (answer, afterwards) = connection.exchange(request, kept_max, laps).await?;
        if afterwards == Afterwards::Keep {
            self.pool.keep(target, connection);
        }
        Ok(answer)
    }
}
