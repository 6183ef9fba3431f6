//! Sends over AMQP 1.0: to Service Bus, or to another broker that takes a user and a password.
//!
//! Connections are kept, one for each collection, broker and identity. What breaks before a message
//! was handed over is tried once more on a new connection; after that nobody knows whether the
//! broker took it, and the attempt says so.

mod broker;
mod cbs;
mod fault;
mod message;
mod pool;

use std::sync::Arc;

use fe2o3_amqp::link::ErrorRecovery;
use kalends_environment::{Clock, Entropy, Stopwatch};
use ring::digest::{SHA256, digest};
use tokio::sync::watch;

use self::broker::{Broker, Dial, Lease};
use self::fault::{cut_off, judge, unsent};
use self::message::encode;
use self::pool::{Key, Pool};
use super::Message;
use super::failure::Failure;
use crate::egress::Egress;
use crate::endpoints::{AmqpEndpoint, Services};
use crate::executor::AttemptRequest;
use crate::laps::{Lap, Laps};

/// Links that are tried for one message: a kept one, and another that was made meanwhile.
const LINKS_TRIED_MAX: u32 = 3;

pub(super) struct AmqpSender {
    egress: Egress,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    services: Services,
    pool: Pool<Broker>,
}

impl AmqpSender {
    pub(super) fn new(
        egress: Egress,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        services: &Services,
    ) -> AmqpSender {
        let pool = Pool::new(Arc::clone(&clock));
        AmqpSender { egress, clock, entropy, services: services.clone(), pool }
    }

    pub(super) async fn send(
        &self,
        order: &AttemptRequest,
        message: &Message<'_>,
        laps: &Laps,
    ) -> Result<(), Failure> {
        let endpoint = match &self.services.service_bus_amqp {
            Some(endpoint) => Some(endpoint.clone()),
            None => AmqpEndpoint::of(&self.services.service_bus, message.namespace),
        };
        let endpoint = endpoint.ok_or_else(Failure::no_address)?;
        let secret = digest(&SHA256, message.key.reveal().as_bytes());
        let key = Key {
            collection: order.path.collection.clone(),
            broker: endpoint.address.to_string(),
            key_name: message.key_name.to_owned(),
            key: secret.as_ref().to_vec(),
        };
        let dial = Dial {
            egress: &self.egress,
            collection: &order.path.collection,
            clock: &*self.clock,
            entropy: &*self.entropy,
            endpoint: &endpoint,
            key_name: message.key_name,
            key: message.key,
            laps,
        };
        match tokio::time::timeout(order.timeout, self.deliver(&key, &dial, message)).await {
            Ok(sent) => sent,
            Err(_) => {
                // A connection that does not answer is not waited for again.
                self.pool.forget(&key);
                Err(Failure::timed_out())
            }
        }
    }

    async fn deliver(
        &self,
        key: &Key,
        dial: &Dial<'_>,
        message: &Message<'_>,
    ) -> Result<(), Failure> {
        let bytes = encode(message);
        let mut tries = 0;
        loop {
            tries += 1;
            let slot = self.pool.slot(key);
            let lease = slot.link(dial, message.entity).await;
            let Lease { sender, is_new, mut closed } =
                lease.inspect_err(|_| self.pool.forget_if_empty(key, &slot))?;
            let stopwatch = Stopwatch::start();
            let sending = async { sender.lock().await.send_batchable(bytes.clone()).await };
            let forget = || self.pool.forget_slot(key, &slot);
            let pending = unless_closed(&mut closed, sending).await.inspect_err(|_| forget())?;
            match pending {
                Ok(delivery) => {
                    let outcome = unless_closed(&mut closed, delivery).await;
                    let outcome = outcome.inspect_err(|_| forget())?;
                    dial.laps.note(Lap::FirstByte, stopwatch);
                    if outcome.as_ref().is_err_and(|why| why.recovery() != ErrorRecovery::UseLink) {
                        forget();
                    }
                    return judge(outcome);
                }
                Err(why) if why.recovery() == ErrorRecovery::UseLink => return Err(unsent(&why)),
                // The broker closes what is idle; nothing was handed over.
                Err(_) if !is_new && tries < LINKS_TRIED_MAX => forget(),
                Err(why) => {
                    forget();
                    return Err(unsent(&why));
                }
            }
        }
    }
}

/// Waits for something, as long as the connection is open: it may never end by itself after that.
async fn unless_closed<F: IntoFuture>(
    closed: &mut watch::Receiver<()>,
    done: F,
) -> Result<F::Output, Failure> {
    tokio::select! {
        biased;
        done = done.into_future() => Ok(done),
        _ = closed.changed() => Err(cut_off()),
    }
}
