//! Encodes a message in AMQP 1.0 with the sections and annotations of Service Bus.

use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Data, Header, Message as AmqpMessage, MessageAnnotations, Properties,
};
use fe2o3_amqp::types::primitives::{Binary, Symbol, Timestamp, Value};
use kalends_recurrence::Instant;

use crate::service_bus::CompleteMessage;

/// Ticks of 100 nanoseconds in a millisecond.
const TICKS_PER_MILLISECOND: i64 = 10_000;

pub(super) fn encode(message: &CompleteMessage<'_>) -> AmqpMessage<Data> {
    let properties = &message.properties;
    let own = |text: Option<&str>| text.map(str::to_owned);
    let life = properties.time_to_live;
    let header = Header {
        // Durable unless the job says otherwise: the message survives a restart of the broker.
        durable: properties
            .brokered
            .and_then(|brokered| brokered.force_persistence)
            .unwrap_or(true),
        // The type holds 49 days; absolute_expiry_time covers longer lifetimes.
        ttl: life.map(|life| u32::try_from(life.as_millis()).unwrap_or(u32::MAX)),
        ..Header::default()
    };

    let mut sent = Properties::builder().message_id(properties.message_id.to_owned()).build();
    sent.to = own(properties.text(|brokered| &brokered.to));
    sent.subject = own(properties.text(|brokered| &brokered.label));
    sent.reply_to = own(properties.text(|brokered| &brokered.reply_to));
    sent.correlation_id = own(properties.text(|brokered| &brokered.correlation_id)).map(Into::into);
    sent.content_type = properties.text(|brokered| &brokered.content_type).map(Symbol::from);
    sent.group_id = own(properties.text(|brokered| &brokered.session_id));
    sent.reply_to_group_id = own(properties.text(|brokered| &brokered.reply_to_session_id));
    if let Some(life) = life {
        sent.creation_time = Some(timestamp(properties.sent_at));
        sent.absolute_expiry_time = Some(timestamp(properties.sent_at.saturating_add(life)));
    }

    let at = properties.brokered.and_then(|brokered| brokered.scheduled_enqueue_time_utc);
    let annotations = [
        ("x-opt-scheduled-enqueue-time", at.map(|at| Value::Timestamp(timestamp(at)))),
        (
            "x-opt-partition-key",
            own(properties.text(|brokered| &brokered.partition_key)).map(Value::String),
        ),
        (
            "x-opt-via-partition-key",
            own(properties.text(|brokered| &brokered.via_partition_key)).map(Value::String),
        ),
    ];
    let annotations = annotations.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let annotations = annotations
        .fold(MessageAnnotations::builder(), |map, (name, value)| map.insert(name, value))
        .build();
    let custom = properties
        .custom
        .iter()
        .fold(ApplicationProperties::builder(), |map, (name, value)| {
            map.insert(name.as_str(), value.as_str())
        })
        .build();
    AmqpMessage {
        header: Some(header),
        delivery_annotations: None,
        message_annotations: (!annotations.0.is_empty()).then_some(annotations),
        properties: Some(sent),
        application_properties: (!custom.0.is_empty()).then_some(custom),
        body: Data(Binary::from(message.text.as_bytes())),
        footer: None,
    }
}

fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from(at.ticks().div_euclid(TICKS_PER_MILLISECOND))
}

#[cfg(test)]
mod tests {
    use fe2o3_amqp::types::messaging::MessageId;
    use fe2o3_amqp::types::messaging::annotations::OwnedKey;
    use fe2o3_amqp::types::primitives::SimpleValue;
    use kalends_domain::Secret;

    use super::*;
    use crate::service_bus::properties::Properties as Given;
    use crate::service_bus::properties::tests::{message, two_days};

    #[test]
    fn all_properties_are_encoded() {
        let full = message(two_days());
        let now = "2026-11-15T12:00:00.5Z".parse().unwrap();
        let key = Secret::new("key".into());
        let sent = encode(&CompleteMessage {
            namespace: "contoso-ns",
            entity: "orders",
            key_name: "send",
            key: &key,
            text: "hellö",
            properties: Given::of(&full, "tag", now).unwrap(),
        });
        let header = sent.header.unwrap();
        assert_eq!((header.durable, header.ttl), (true, Some(172_800_000)));
        let properties = sent.properties.unwrap();
        assert_eq!(properties.message_id, Some(MessageId::String("tag".into())));
        assert_eq!(properties.correlation_id, Some(MessageId::String("correlation".into())));
        assert_eq!(properties.content_type, Some(Symbol::from("text/x")));
        assert_eq!(properties.creation_time, Some(Timestamp::from(1_794_744_000_500)));
        assert_eq!(properties.absolute_expiry_time, Some(Timestamp::from(1_794_916_800_500)));
        let texts = [
            (properties.to, "there"),
            (properties.subject, "labül\"\\"),
            (properties.reply_to, "answers"),
            (properties.group_id, "session"),
            (properties.reply_to_group_id, "theirs"),
        ];
        for (text, expected) in texts {
            assert_eq!(text.as_deref(), Some(expected));
        }
        let annotations = sent.message_annotations.unwrap();
        let annotation = |name: &str| annotations.0.get(&OwnedKey::from(name)).cloned();
        let at = Value::Timestamp(Timestamp::from(1_798_859_045_000));
        assert_eq!(annotation("x-opt-scheduled-enqueue-time"), Some(at));
        assert_eq!(annotation("x-opt-partition-key"), Some(Value::String("session".into())));
        assert_eq!(annotation("x-opt-via-partition-key"), Some(Value::String("via".into())));
        let custom = sent.application_properties.unwrap();
        assert_eq!(custom.0.get("color"), Some(&SimpleValue::String("blü \"e".into())));
        assert_eq!(sent.body.0.as_ref(), "hellö".as_bytes());
    }
}
