//! Service Bus actions, over AMQP 1.0 or HTTPS depending on the job's `transportType`, and their
//! history messages.
//!
//! Clients of the retired service parse the outcome from the text before the first colon, and queue
//! or topic and namespace from the quotes after it.

mod amqp;
mod error;
mod properties;
mod rest;

use std::sync::Arc;

use kalends_domain::{Outcome, Secret, ServiceBusMessage, Transport};
use kalends_environment::{Clock, Entropy};

use self::amqp::AmqpSender;
use self::error::ServiceBusError;
use self::properties::Properties;
use self::rest::RestSender;
use crate::client::Client;
use crate::endpoints::Services;
use crate::executor::{AttemptReport, AttemptRequest};
use crate::idempotency_key::idempotency_key;
use crate::redaction::Redactor;
use crate::send_fence::AttemptContext;

/// The type of entity that a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntityKind {
    Queue,
    Topic,
}

/// Executes Service Bus actions.
pub(crate) struct ServiceBus {
    rest: RestSender,
    amqp: AmqpSender,
    clock: Arc<dyn Clock>,
}

/// A message with all members that sending requires.
struct CompleteMessage<'a> {
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
        attempt: &AttemptRequest<'_>,
        kind: EntityKind,
        message: &ServiceBusMessage,
        context: AttemptContext<'_>,
    ) -> AttemptReport {
        let key = idempotency_key(attempt);
        let sent = match self.complete(message, &key) {
            Err(error) => Err(error),
            Ok(complete) => match message.transport {
                Some(Transport::Amqp) => self.amqp.send(attempt, &complete, context).await,
                // NetMessaging is a retired protocol; receivers see the same message over HTTPS.
                Some(Transport::NetMessaging | Transport::NotSpecified) | None => {
                    self.rest.send(attempt, &complete, context).await
                }
            },
        };
        report(kind, message, sent)
    }

    /// Fails if a required member is absent: old API versions do not enforce them.
    fn complete<'a>(
        &self,
        message: &'a ServiceBusMessage,
        idempotency_key: &'a str,
    ) -> Result<CompleteMessage<'a>, ServiceBusError> {
        let incomplete = |member| move || ServiceBusError::Incomplete(member);
        let authentication = message.authentication.as_ref();
        let key_name = authentication.and_then(|it| it.sas_key_name.as_deref());
        let key = authentication.and_then(|it| it.sas_key.as_ref());
        Ok(CompleteMessage {
            namespace: message.namespace.as_deref().ok_or_else(incomplete("namespace"))?,
            entity: message.entity.as_deref().ok_or_else(incomplete("queue or topic"))?,
            key_name: key_name.ok_or_else(incomplete("sasKeyName"))?,
            key: key.ok_or_else(incomplete("sasKey"))?,
            text: message.message.as_deref().unwrap_or_default(),
            properties: Properties::of(message, idempotency_key, self.clock.now().into())?,
        })
    }
}

fn report(
    kind: EntityKind,
    message: &ServiceBusMessage,
    sent: Result<(), ServiceBusError>,
) -> AttemptReport {
    let (action, noun) = match kind {
        EntityKind::Queue => ("ServiceBusQueue", "queue"),
        EntityKind::Topic => ("ServiceBusTopic", "topic"),
    };
    let entity = message.entity.as_deref().unwrap_or_default();
    let namespace = message.namespace.as_deref().unwrap_or_default();
    let entity = format!("{noun} '{entity}' namespace '{namespace}'");
    match sent {
        Ok(()) => {
            let message = format!("{action} Action - Send message succeeded: {entity}");
            AttemptReport::new(Outcome::Succeeded, message)
        }
        Err(error) => {
            let key = message.authentication.as_ref().and_then(|it| it.sas_key.as_ref());
            let text = Redactor::for_secrets(key).redact_to_line(error.to_string());
            let outcome = Outcome::Failed { retry_after: error.retry_after() };
            AttemptReport::new(
                outcome,
                format!("{action} Action - Send message failed: {entity} {text}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::{ServiceBusAuthentication, ServiceBusAuthenticationKind};

    use super::*;

    #[test]
    fn history_messages_have_the_wording_that_clients_parse_and_no_key() {
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
            Err(ServiceBusError::Unauthorized("your key canary-key is wrong".into())),
            "ServiceBusTopic Action - Send message failed: topic 'orders' namespace 'contoso-ns' \
             Unauthorized your key [secret] is wrong",
        );
    }
}
