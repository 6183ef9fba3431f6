//! Sends requests over pooled or new connections.

use std::pin::pin;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::error::ClientError;
use super::head::Persistence;
use super::http1::{Http1, Http1Error};
use super::http2::{Http2, Http2Error};
use super::pool::{Pool, PoolKey, TargetPool};
use super::request::Request;
use super::response::Response;
use crate::egress::{
    ConnectError, Destination, Egress, Identity, Protocols, ResolvedAddresses, Security,
};
use crate::send_fence::AttemptContext;
use crate::timing::AttemptTimer;

/// Sends requests.
pub(crate) struct Client {
    egress: Egress,
    pool: Pool,
}

/// Connections to one target that are prewarmed concurrently.
const PREWARM_CONCURRENCY: usize = 32;

/// The target of prewarmed connections.
struct Prewarm {
    client: Arc<Client>,
    to: Destination,
    addresses: ResolvedAddresses,
    target: Arc<TargetPool>,
}

/// Whether more connections are worth opening.
enum Prewarmed {
    /// The connection carries one request at a time.
    OneRequest,
    /// The connection carries all requests, or the target is unreachable.
    Done,
}

impl Prewarm {
    async fn connect(self: Arc<Prewarm>) -> Prewarmed {
        let Prewarm { client, to, addresses, target } = &*self;
        let (identity, timer) = (Identity::none(), AttemptTimer::default());
        let dialled = client.egress.dial(to, addresses, &identity, Protocols::Http, &timer).await;
        let Ok(transport) = dialled else { return Prewarmed::Done };
        if transport.is_http2() {
            if let Ok(connection) = Http2::new(transport).await {
                client.pool.share_http2(target, &connection);
            }
            return Prewarmed::Done;
        }
        client.pool.put_idle(target, Http1::new(transport));
        Prewarmed::OneRequest
    }
}

impl Client {
    /// A client with at most `requests_per_target_max` requests in flight to one target for one
    /// collection.
    pub(crate) fn new(egress: Egress, requests_per_target_max: usize) -> Client {
        Client { egress, pool: Pool::new(requests_per_target_max) }
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Sends a request and returns the response, with at most `body_bytes_max` bytes of its body.
    /// Resets the timer first.
    pub(crate) async fn send(
        &self,
        request: &Request,
        to: &Destination,
        identity: &Identity,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Result<Response, ClientError> {
        context.timer.reset();
        let addresses = self.egress.resolve(to, context.timer).await?;
        let target = self.target(to, &addresses, identity)?;
        let _permit = target.permits.acquire().await.map_err(|_| ConnectError::Refused)?;
        if let Some(result) = self.send_over_pooled(request, &target, body_bytes_max, context).await
        {
            return result;
        }
        // Boxed because it is large and rarely needed: it would add to the size of every attempt.
        let at = (&addresses, &*target);
        Box::pin(self.send_over_new(request, to, at, identity, body_bytes_max, context)).await
    }

    /// Opens connections for `count` requests without a client certificate, minus those in the pool.
    /// Errors are ignored: the request that needs the connection reports them.
    pub(crate) async fn prewarm(self: Arc<Client>, to: Destination, count: usize) {
        let Ok(addresses) = self.egress.resolve(&to, &AttemptTimer::default()).await else {
            return;
        };
        let Ok(target) = self.target(&to, &addresses, &Identity::none()) else { return };
        let wanted = count.min(target.permits.available_permits());
        let mut missing = wanted.saturating_sub(self.pool.capacity(&target));
        let prewarm = Arc::new(Prewarm { client: self, to, addresses, target });
        // With TLS the first connection shows whether the target speaks HTTP/2 and one is enough.
        if prewarm.to.security == Security::Tls && missing > 0 {
            missing = match Arc::clone(&prewarm).connect().await {
                Prewarmed::OneRequest => missing - 1,
                Prewarmed::Done => 0,
            };
        }
        let mut connecting = JoinSet::new();
        for _ in 0..missing {
            if connecting.len() == PREWARM_CONCURRENCY
                && !matches!(connecting.join_next().await, Some(Ok(Prewarmed::OneRequest)))
            {
                return;
            }
            connecting.spawn(Arc::clone(&prewarm).connect());
        }
        while connecting.join_next().await.is_some() {}
    }

    fn target(
        &self,
        to: &Destination,
        addresses: &ResolvedAddresses,
        identity: &Identity,
    ) -> Result<Arc<TargetPool>, ConnectError> {
        Ok(self.pool.target(PoolKey {
            collection: to.collection.clone(),
            address: addresses.first().ok_or(ConnectError::Refused)?,
            security: to.security,
            host: to.host.clone(),
            identity: identity.digest(),
        }))
    }

    /// Sends over a new connection, or over one that becomes idle before the new one is open: a
    /// target that accepts no further connection must not delay a request that does not need one.
    async fn send_over_new(
        &self,
        request: &Request,
        to: &Destination,
        (addresses, target): (&ResolvedAddresses, &TargetPool),
        identity: &Identity,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Result<Response, ClientError> {
        let dial = self.egress.dial(to, addresses, identity, Protocols::Http, context.timer);
        let mut dial = pin!(dial);
        let transport = loop {
            tokio::select! {
                biased;
                transport = &mut dial => break transport?,
                () = target.idle_added.notified() => {}
            }
            let pooled = self.send_over_pooled(request, target, body_bytes_max, context);
            if let Some(result) = pooled.await {
                return result;
            }
        };
        if transport.is_http2() {
            let mut connection = Http2::new(transport).await?;
            self.pool.share_http2(target, &connection);
            let result = connection.exchange(request, body_bytes_max, context).await;
            result.map_err(|error| match error {
                Http2Error::NotSent => ClientError::Closed("the target did not accept the request"),
                Http2Error::Failed(error) => error,
            })
        } else {
            let connection = Http1::new(transport);
            let result = self.exchange(connection, request, target, body_bytes_max, context).await;
            result.map_err(|error| match error {
                Http1Error::NotSent => ClientError::Closed("the request could not be sent"),
                Http1Error::NoResponse(error) | Http1Error::Failed(error) => error,
            })
        }
    }

    /// Sends over a pooled connection; `None` if no pooled connection accepts the request.
    async fn send_over_pooled(
        &self,
        request: &Request,
        target: &TargetPool,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Option<Result<Response, ClientError>> {
        if let Some(mut connection) = self.pool.http2(target) {
            match Box::pin(connection.exchange(request, body_bytes_max, context)).await {
                Ok(response) => return Some(Ok(response)),
                Err(Http2Error::Failed(error)) => return Some(Err(error)),
                Err(Http2Error::NotSent) => {}
            }
        }
        // Terminates: each iteration removes a connection, and the pool is bounded.
        while let Some(connection) = self.pool.take_idle(target) {
            match self.exchange(connection, request, target, body_bytes_max, context).await {
                Ok(response) => return Some(Ok(response)),
                Err(Http1Error::NotSent) => {}
                Err(Http1Error::NoResponse(_)) => return Some(Err(ClientError::KeepAliveClosed)),
                Err(Http1Error::Failed(error)) => return Some(Err(error)),
            }
        }
        None
    }

    async fn exchange(
        &self,
        mut connection: Http1,
        request: &Request,
        target: &TargetPool,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Result<Response, Http1Error> {
        let (response, persistence) = connection.exchange(request, body_bytes_max, context).await?;
        if persistence == Persistence::KeepAlive {
            self.pool.put_idle(target, connection);
        }
        Ok(response)
    }
}
