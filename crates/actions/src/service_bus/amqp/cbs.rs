//! Claims-based security (CBS) of Service Bus: a token is sent to the node `$cbs` of an open
//! connection, which responds with a status.

use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Body, Message, MessageId, Properties,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};

use super::error::{attach_error, check_outcome, not_sent, receive_error, receiver_attach_error};
use crate::service_bus::error::ServiceBusError;

const NODE: &str = "$cbs";
/// The reply address, which is local to the connection.
const REPLIES: &str = "kalends-cbs";
const TOKEN_TYPE: &str = "servicebus.windows.net:sastoken";
/// Bytes of a response: a status code and a description.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024;
/// Responses to other requests that are skipped before the request fails.
const STRAY_RESPONSES_MAX: usize = 16;

pub(super) struct Cbs {
    sender: Sender,
    receiver: Receiver,
    /// Number of requests, for message ids.
    requests: u64,
}

impl Cbs {
    pub(super) async fn attach(session: &mut SessionHandle<()>) -> Result<Cbs, ServiceBusError> {
        let sender = Sender::attach(session, "kalends-cbs-sender", NODE).await;
        let sender = sender.map_err(attach_error)?;
        let receiver = Receiver::builder()
            .name("kalends-cbs-receiver")
            .source(NODE)
            .target(REPLIES)
            .max_message_size(RESPONSE_BYTES_MAX)
            .attach(session)
            .await
            .map_err(receiver_attach_error)?;
        Ok(Cbs { sender, receiver, requests: 0 })
    }

    /// Authorises the connection for `audience`.
    pub(super) async fn put_token(
        &mut self,
        audience: &str,
        token: String,
    ) -> Result<(), ServiceBusError> {
        self.requests += 1;
        let id = MessageId::String(format!("kalends-{}", self.requests));
        let request = Message::builder()
            .properties(
                Properties::builder().message_id(id.clone()).to(NODE).reply_to(REPLIES).build(),
            )
            .application_properties(
                ApplicationProperties::builder()
                    .insert("operation", "put-token")
                    .insert("type", TOKEN_TYPE)
                    .insert("name", audience)
                    .build(),
            )
            .body(AmqpValue(token))
            .build();
        check_outcome(
            self.sender.send_batchable(request).await.map_err(|error| not_sent(&error))?.await,
        )?;
        for _ in 0..STRAY_RESPONSES_MAX {
            let delivery =
                self.receiver.recv::<Body<Value>>().await.map_err(|error| receive_error(&error))?;
            self.receiver
                .accept(&delivery)
                .await
                .map_err(|error| ServiceBusError::Unreachable(error.to_string()))?;
            let response = delivery.into_message();
            let request_id = response.properties.and_then(|properties| properties.correlation_id);
            if request_id.is_none_or(|request_id| request_id == id) {
                return check_status(&response.application_properties.unwrap_or_default());
            }
        }
        Err(ServiceBusError::Rejected("the broker's token node answers other questions".into()))
    }
}

fn check_status(response: &ApplicationProperties) -> Result<(), ServiceBusError> {
    let status = match response.0.get("status-code") {
        Some(SimpleValue::Int(status)) => i64::from(*status),
        Some(SimpleValue::Uint(status)) => i64::from(*status),
        Some(SimpleValue::Long(status)) => *status,
        _ => 0,
    };
    let message = match response.0.get("status-description") {
        Some(SimpleValue::String(message)) => message.as_str(),
        _ => "",
    };
    match status {
        200..=299 => Ok(()),
        401 | 403 => Err(ServiceBusError::Unauthorized(message.to_owned())),
        404 => Err(ServiceBusError::NotFound(message.to_owned())),
        status => Err(ServiceBusError::Rejected(format!(
            "the token was answered with {status} {message}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_code_decides() {
        let check = |status: Option<SimpleValue>, expected: Result<(), &str>| {
            let mut response = ApplicationProperties::default();
            if let Some(status) = status {
                response.0.insert("status-code".into(), status);
            }
            response.0.insert("status-description".into(), SimpleValue::String("why".into()));
            let result = check_status(&response).map_err(|error| error.to_string());
            assert_eq!(result, expected.map_err(str::to_owned));
        };
        check(Some(SimpleValue::Int(202)), Ok(()));
        check(Some(SimpleValue::Int(200)), Ok(()));
        check(Some(SimpleValue::Long(401)), Err("Unauthorized why"));
        check(Some(SimpleValue::Int(404)), Err("NotFound The queue or topic does not exist: why"));
        check(None, Err("the token was answered with 0 why"));
    }
}
