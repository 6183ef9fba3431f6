//! Sends over AMQP 1.0 to Service Bus, or to another broker that accepts SASL PLAIN.
//!
//! Connections are pooled, one for each collection, broker and key. If a pooled connection breaks
//! before the message is sent, the attempt uses another one. After the message was sent, a broken
//! connection makes the outcome indeterminate.

mod broker;
mod cbs;
mod error;
mod message;
mod pool;

use std::sync::Arc;

use fe2o3_amqp::link::ErrorRecovery;
use kalends_environment::{Clock, Entropy, Stopwatch};
use ring::digest::{SHA256, digest};
use tokio::sync::watch;

use self::broker::{BrokerConnection, ConnectOptions, SenderLink};
use self::error::{check_outcome, closed_in_flight, not_sent};
use self::message::encode;
use self::pool::{AmqpPool, AmqpPoolKey};
use super::CompleteMessage;
use super::error::ServiceBusError;
use crate::egress::Egress;
use crate::endpoints::{AmqpEndpoint, Services};
use crate::executor::AttemptRequest;
use crate::send_fence::{AttemptContext, NotSent, SendGuard};
use crate::timing::Phase;

/// Links that are tried for one message: the pooled one, and others that concurrent attempts opened.
const LINKS_TRIED_MAX: u32 = 3;

pub(super) struct AmqpSender {
    egress: Egress,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    services: Services,
    pool: AmqpPool<BrokerConnection>,
}

impl AmqpSender {
    pub(super) fn new(
        egress: Egress,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        services: &Services,
    ) -> AmqpSender {
        let pool = AmqpPool::new(Arc::clone(&clock));
        AmqpSender { egress, clock, entropy, services: services.clone(), pool }
    }

    pub(super) async fn send(
        &self,
        attempt: &AttemptRequest<'_>,
        message: &CompleteMessage<'_>,
        context: AttemptContext<'_>,
    ) -> Result<(), ServiceBusError> {
        let endpoint = match &self.services.service_bus_amqp {
            Some(endpoint) => Some(endpoint.clone()),
            None => AmqpEndpoint::of(&self.services.service_bus, message.namespace),
        };
        let endpoint = endpoint.ok_or(ServiceBusError::InvalidAddress)?;
        let secret = digest(&SHA256, message.key.reveal().as_bytes());
        let key = AmqpPoolKey {
            collection: attempt.path.collection.clone(),
            broker: endpoint.address.to_string(),
            key_name: message.key_name.to_owned(),
            key: secret.as_ref().to_vec(),
        };
        let options = ConnectOptions {
            egress: &self.egress,
            collection: &attempt.path.collection,
            clock: &*self.clock,
            entropy: &*self.entropy,
            endpoint: &endpoint,
            key_name: message.key_name,
            key: message.key,
            timer: context.timer,
        };
        let delivery = self.deliver(&key, &options, message, context.guard);
        match tokio::time::timeout(attempt.timeout, delivery).await {
            Ok(sent) => sent,
            Err(_) => {
                // The connection may hang: the next attempt opens another.
                self.pool.remove(&key);
                Err(ServiceBusError::Timeout)
            }
        }
    }

    async fn deliver(
        &self,
        key: &AmqpPoolKey,
        options: &ConnectOptions<'_>,
        message: &CompleteMessage<'_>,
        guard: &SendGuard,
    ) -> Result<(), ServiceBusError> {
        let encoded = encode(message);
        let mut links_tried = 0;
        loop {
            links_tried += 1;
            let slot = self.pool.slot(key);
            let link = slot.link(options, message.entity).await;
            let SenderLink { sender, is_new, mut closed } =
                link.inspect_err(|_| self.pool.remove_if_empty(key, &slot))?;
            let stopwatch = Stopwatch::start();
            // The message may wait for other messages and for credit of the broker.
            let sending = async {
                let mut sender = sender.lock().await;
                guard.permit()?;
                tokio::select! {
                    biased;
                    sent = sender.send_batchable(encoded.clone()) => Ok(sent),
                    () = guard.closed() => {
                        guard.return_permit();
                        Err(guard.refuse())
                    }
                }
            };
            let remove = || self.pool.remove_slot(key, &slot);
            let pending = unless_closed(&mut closed, sending).await.inspect_err(|_| remove())?;
            // A withdrawn message may leave the link in an unknown state.
            let pending = pending.inspect_err(|NotSent| remove())?;
            match pending {
                Ok(delivery) => {
                    let outcome = unless_closed(&mut closed, delivery).await;
                    let outcome = outcome.inspect_err(|_| remove())?;
                    options.timer.record(Phase::FirstByte, stopwatch);
                    if outcome
                        .as_ref()
                        .is_err_and(|error| error.recovery() != ErrorRecovery::UseLink)
                    {
                        remove();
                    }
                    return check_outcome(outcome);
                }
                Err(error) if error.recovery() == ErrorRecovery::UseLink => {
                    return Err(not_sent(&error));
                }
                // The broker closed an idle connection; nothing was sent.
                Err(_) if !is_new && links_tried < LINKS_TRIED_MAX => {
                    guard.return_permit();
                    remove();
                }
                Err(error) => {
                    remove();
                    return Err(not_sent(&error));
                }
            }
        }
    }
}

/// Awaits `done` unless the connection closes: operations on a closed connection may never complete.
async fn unless_closed<F: IntoFuture>(
    closed: &mut watch::Receiver<()>,
    done: F,
) -> Result<F::Output, ServiceBusError> {
    tokio::select! {
        biased;
        done = done.into_future() => Ok(done),
        _ = closed.changed() => Err(closed_in_flight()),
    }
}
