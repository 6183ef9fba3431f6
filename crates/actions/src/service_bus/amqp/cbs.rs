//! Authorisation inside an open connection, as Service Bus has it: a token is put to the node
//! `$cbs`, which answers with a status.

use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Body, Message, MessageId, Properties,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};

use super::fault::{attach_failure, judge, receive_failure, receiver_attach_failure, unsent};
use crate::service_bus::failure::Failure;

const NODE: &str = "$cbs";
/// The address of answers, for this connection alone.
const ANSWERS: &str = "kalends-cbs";
const TOKEN_TYPE: &str = "servicebus.windows.net:sastoken";
/// Bytes of an answer; it has a number and a sentence.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Answers to other questions that are passed over before one is given up.
const STRAY_ANSWERS_MAX: usize = 16;

pub(super) struct Cbs {
    sender: Sender,
    receiver: Receiver,
    asked: u64,
}

impl Cbs {
    pub(super) async fn attach(session: &mut SessionHandle<()>) -> Result<Cbs, Failure> {
        let sender = Sender::attach(session, "kalends-cbs-sender", NODE).await;
        let sender = sender.map_err(attach_failure)?;
        let receiver = Receiver::builder()
            .name("kalends-cbs-receiver")
            .source(NODE)
            .target(ANSWERS)
            .max_message_size(ANSWER_BYTES_MAX)
            .attach(session)
            .await
            .map_err(receiver_attach_failure)?;
        Ok(Cbs { sender, receiver, asked: 0 })
    }

    /// Shows a token for `audience`.
    pub(super) async fn put_token(&mut self, audience: &str, token: String) -> Result<(), Failure> {
        self.asked += 1;
        let id = MessageId::String(format!("kalends-{}", self.asked));
        let question = Message::builder()
            .properties(
                Properties::builder().message_id(id.clone()).to(NODE).reply_to(ANSWERS).build(),
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
        judge(self.sender.send_batchable(question).await.map_err(|why| unsent(&why))?.await)?;
        for _ in 0..STRAY_ANSWERS_MAX {
            let delivery =
                self.receiver.recv::<Body<Value>>().await.map_err(|why| receive_failure(&why))?;
            self.receiver
                .accept(&delivery)
                .await
                .map_err(|why| Failure::Unreachable(why.to_string()))?;
            let answer = delivery.into_message();
            let answers = answer.properties.and_then(|properties| properties.correlation_id);
            if answers.is_none_or(|answers| answers == id) {
                return read(&answer.application_properties.unwrap_or_default());
            }
        }
        Err(Failure::Refused("the broker's token node answers other questions".into()))
    }
}

fn read(answer: &ApplicationProperties) -> Result<(), Failure> {
    let status = match answer.0.get("status-code") {
        Some(SimpleValue::Int(status)) => i64::from(*status),
        Some(SimpleValue::Uint(status)) => i64::from(*status),
        Some(SimpleValue::Long(status)) => *status,
        _ => 0,
    };
    let said = match answer.0.get("status-description") {
        Some(SimpleValue::String(said)) => said.as_str(),
        _ => "",
    };
    match status {
        200..=299 => Ok(()),
        401 | 403 => Err(Failure::Unauthorised(said.to_owned())),
        404 => Err(Failure::Missing(said.to_owned())),
        status => Err(Failure::Refused(format!("the token was answered with {status} {said}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_decides() {
        let check = |status: Option<SimpleValue>, expected: Result<(), Failure>| {
            let mut answer = ApplicationProperties::default();
            if let Some(status) = status {
                answer.0.insert("status-code".into(), status);
            }
            answer.0.insert("status-description".into(), SimpleValue::String("why".into()));
            assert_eq!(read(&answer), expected);
        };
        check(Some(SimpleValue::Int(202)), Ok(()));
        check(Some(SimpleValue::Int(200)), Ok(()));
        check(Some(SimpleValue::Long(401)), Err(Failure::Unauthorised("why".into())));
        check(Some(SimpleValue::Int(404)), Err(Failure::Missing("why".into())));
        check(None, Err(Failure::Refused("the token was answered with 0 why".into())));
    }
}
