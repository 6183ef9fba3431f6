//! Broker properties of Service Bus messages.

use kalends_domain::{BrokeredProperties, TimeToLive, check_property};

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::Node;
use crate::object::ObjectBuilder;

pub(super) fn read(node: Node<'_>, errors: &mut ErrorDetails) -> Option<BrokeredProperties> {
    let node = node.with_code(ErrorCode::InvalidBrokeredProperty);
    if !node.is_object(errors) {
        return None;
    }
    let mut text = |name| node.member(name)?.checked(check_property, errors);
    Some(BrokeredProperties {
        content_type: text("contentType"),
        correlation_id: text("correlationId"),
        label: text("label"),
        message_id: text("messageId"),
        partition_key: text("partitionKey"),
        reply_to: text("replyTo"),
        reply_to_session_id: text("replyToSessionId"),
        session_id: text("sessionId"),
        to: text("to"),
        via_partition_key: text("viaPartitionKey"),
        force_persistence: node.member("forcePersistence").and_then(|node| node.boolean(errors)),
        scheduled_enqueue_time_utc: node
            .member("scheduledEnqueueTimeUtc")
            .and_then(|node| node.date_time(errors)),
        time_to_live: node.member("timeToLive").and_then(|node| time_to_live(node, errors)),
    })
}

/// Reads a duration, or a date-time as in the two oldest versions. Every version accepts both, so
/// that a job created through one version can be patched through another.
fn time_to_live(node: Node<'_>, errors: &mut ErrorDetails) -> Option<TimeToLive> {
    match node.text(errors)?.parse() {
        Ok(until) => Some(TimeToLive::Until(until)),
        Err(_) => node.duration(errors).map(TimeToLive::For),
    }
}

pub(super) fn write(properties: &BrokeredProperties) -> Json<'_> {
    let time_to_live: Option<Json<'_>> = properties.time_to_live.as_ref().map(|life| match life {
        TimeToLive::For(duration) => duration.text().into(),
        TimeToLive::Until(until) => (*until).into(),
    });
    ObjectBuilder::new()
        .put_some("contentType", properties.content_type.as_deref())
        .put_some("correlationId", properties.correlation_id.as_deref())
        .put_some("forcePersistence", properties.force_persistence)
        .put_some("label", properties.label.as_deref())
        .put_some("messageId", properties.message_id.as_deref())
        .put_some("partitionKey", properties.partition_key.as_deref())
        .put_some("replyTo", properties.reply_to.as_deref())
        .put_some("replyToSessionId", properties.reply_to_session_id.as_deref())
        .put_some("scheduledEnqueueTimeUtc", properties.scheduled_enqueue_time_utc)
        .put_some("sessionId", properties.session_id.as_deref())
        .put_some("timeToLive", time_to_live)
        .put_some("to", properties.to.as_deref())
        .put_some("viaPartitionKey", properties.via_partition_key.as_deref())
        .into()
}
