//! Messages for Service Bus queues and topics, over AMQP 1.0 or HTTPS as the job's transport says,
//! and what history says of them.
//!
//! Clients of the retired service take the text up to the first colon as the outcome, and queue or
//! topic and namespace out of the apostrophes that follow.

mod amqp;
mod failure;
mod properties;
mod rest;

use std::sync::Arc;

use kalends_domain::{Outcome, Secret, ServiceBusMessage, Transport};
use kalends_environment::{Clock, Entropy};

use self::amqp::AmqpSender;
use self::failure::Failure;
use self::properties::Properties;
use self::rest::RestSender;
use crate::client::Client;
use crate::conceal::conceal;
use crate::endpoints::Services;
use crate::executor::{AttemptReport, AttemptRequest};
use crate::idempotency_key::idempotency_key;
use crate::laps::Laps;

/// What a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntityKind {
    Queue,
    Topic,
}

/// Sends messages to queues and topics.
pub(crate) struct ServiceBus {
    rest: RestSender,
    amqp: AmqpSender,
    clock: Arc<dyn Clock>,
}

/// What is sent, complete.
struct Message<'a> {
    namespace: &'a str,
    entity: &'a str,
    key_name: &'a str,
    key: &'a Secret,
    text: &'a str,
    properties: Properties<'a>,
}

impl ServiceBus {
    pub(crate) fn new(
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        services: &Services,
    ) -> ServiceBus {
        ServiceBus {
            rest: RestSender {
                client: Arc::clone(&client),
                clock: Arc::clone(&clock),
                endpoint: services.service_bus.clone(),
            },
            amqp: AmqpSender::new(client.egress().clone(), Arc::clone(&clock), entropy, services),
            clock,
        }
    }

    pub(crate) async fn execute(
        &self,
        order: &AttemptRequest,
        kind: EntityKind,
        message: &ServiceBusMessage,
        laps: &Laps,
    ) -> AttemptReport {
        let tag = idempotency_key(order);
        let sent = match self.complete(message, &tag) {
            Err(why) => Err(why),
            Ok(complete) => match message.transport {
                Some(Transport::Amqp) => self.amqp.send(order, &complete, laps).await,
                // The protocol of that name is gone; receivers see the same message.
                Some(Transport::NetMessaging | Transport::NotSpecified) | None => {
                    self.rest.send(order, &complete, laps).await
                }
            },
        };
        report(kind, message, sent)
    }

    /// Old clients leave out what cannot be left out.
    fn complete<'a>(
        &self,
        message: &'a ServiceBusMessage,
        tag: &'a str,
    ) -> Result<Message<'a>, Failure> {
        let incomplete = |what| move || Failure::Incomplete(what);
        let authentication = message.authentication.as_ref();
        let key_name = authentication.and_then(|found| found.sas_key_name.as_deref());
        let key = authentication.and_then(|found| found.sas_key.as_ref());
        Ok(Message {
            namespace: message.namespace.as_deref().ok_or_else(incomplete("namespace"))?,
            entity: message.entity.as_deref().ok_or_else(incomplete("queue or topic"))?,
            key_name: key_name.ok_or_else(incomplete("sasKeyName"))?,
            key: key.ok_or_else(incomplete("sasKey"))?,
            text: message.message.as_deref().unwrap_or_default(),
            properties: Properties::of(message, tag, self.clock.now().into())?,
        })
    }
}

fn report(
    kind: EntityKind,
    message: &ServiceBusMessage,
    sent: Result<(), Failure>,
) -> AttemptReport {
    let (action, noun) = match kind {
        EntityKind::Queue => ("ServiceBusQueue", "queue"),
        EntityKind::Topic => ("ServiceBusTopic", "topic"),
    };
    let entity = message.entity.as_deref().unwrap_or_default();
    let namespace = message.namespace.as_deref().unwrap_or_default();
    let place = format!("{noun} '{entity}' namespace '{namespace}'");
    match sent {
        Ok(()) => {
            let message = format!("{action} Action - Send message succeeded: {place}");
            AttemptReport::new(Outcome::Succeeded, message)
        }
        Err(failure) => {
            let key = message.authentication.as_ref().and_then(|found| found.sas_key.as_ref());
            let words = conceal(&failure.to_string(), &key.into_iter().collect::<Vec<_>>());
            let outcome = Outcome::Failed { retry_after: failure.retry_after() };
            AttemptReport::new(
                outcome,
                format!("{action} Action - Send message failed: {place} {words}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::{ServiceBusAuthentication, ServiceBusAuthenticationKind};

    use super::*;

    #[test]
    fn history_has_the_words_that_clients_look_for_and_no_key() {
        let message = ServiceBusMessage {
            entity: Some("orders".into()),
            namespace: Some("contoso-ns".into()),
            transport: None,
            authentication: Some(ServiceBusAuthentication {
                kind: Some(ServiceBusAuthenticationKind::SharedAccessKey),
                sas_key_name: Some("send".into()),
                sas_key: Some(Secret::new("canary-key".into())),
            }),
            message: None,
            brokered: None,
            custom: None,
        };
        let check = |kind, sent, expected: &str| {
            assert_eq!(report(kind, &message, sent).message, expected);
        };
        check(
            EntityKind::Queue,
            Ok(()),
            "ServiceBusQueue Action - Send message succeeded: queue 'orders' namespace 'contoso-ns'",
        );
        check(
            EntityKind::Topic,
            Err(Failure::Unauthorised("your key canary-key is wrong".into())),
            "ServiceBusTopic Action - Send message failed: topic 'orders' namespace 'contoso-ns' \
             Unauthorized your key [secret] is wrong",
        );
    }
}
