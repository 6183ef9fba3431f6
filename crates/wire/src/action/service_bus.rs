//! Reading and serialising messages for Service Bus queues and topics.

use kalends_domain::{
    ServiceBusAuthentication, ServiceBusAuthenticationKind, ServiceBusMessage, Transport,
    ValidationError, ValidationErrorKind, check_entity, check_namespace, check_property,
};

use super::brokered;
use crate::enum_text::{EnumText, OldCasing, enum_text};
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node};
use crate::object::{ObjectBuilder, pairs};
use crate::write_options::WriteOptions;

const TRANSPORTS: &EnumText<Transport> = &[
    ("NotSpecified", Transport::NotSpecified),
    ("NetMessaging", Transport::NetMessaging),
    ("AMQP", Transport::Amqp),
];
const KINDS: &EnumText<ServiceBusAuthenticationKind> = &[
    ("NotSpecified", ServiceBusAuthenticationKind::NotSpecified),
    ("SharedAccessKey", ServiceBusAuthenticationKind::SharedAccessKey),
];

/// Reads a message; `entity` is the member that names the queue or topic.
pub(super) fn read(
    node: Node<'_>,
    entity: &str,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<ServiceBusMessage> {
    let node = node.with_code(ErrorCode::InvalidServiceBus);
    node.require(&[entity, "namespace", "authentication", "message"], context, errors);
    Some(ServiceBusMessage {
        entity: node.member(entity).and_then(|node| node.checked(check_entity, errors)),
        namespace: node.member("namespace").and_then(|node| node.checked(check_namespace, errors)),
        transport: node
            .member("transportType")
            .and_then(|node| node.enum_value(TRANSPORTS.iter().copied(), errors)),
        authentication: node
            .member("authentication")
            .and_then(|node| read_authentication(node, context, errors)),
        message: node.member("message").and_then(|node| node.text(errors)).map(str::to_owned),
        brokered: node
            .member("brokeredMessageProperties")
            .and_then(|node| brokered::read(node, errors))
            .map(Box::new),
        custom: node
            .member("customMessageProperties")
            .and_then(|node| read_custom(node, context, errors)),
    })
}

fn read_authentication(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<ServiceBusAuthentication> {
    if !node.is_object(errors) {
        return None;
    }
    let kind = node.member("type").and_then(|node| node.enum_value(KINDS.iter().copied(), errors));
    let is_unspecified = kind == Some(ServiceBusAuthenticationKind::NotSpecified);
    if is_unspecified && node.member("sasKey").is_none() {
        let path = node.path.member("type").to_string();
        let message = "must be SharedAccessKey (found \"NotSpecified\")";
        errors.add(ErrorCode::InvalidServiceBus, path, message);
        return None;
    }
    node.require(&["type", "sasKeyName"], context, errors);
    let sas_key_name =
        node.member("sasKeyName").and_then(|node| node.checked(check_key_name, errors));
    let sas_key = node.required_secret("sasKey", context, errors);
    Some(ServiceBusAuthentication { kind, sas_key_name, sas_key })
}

/// The key name is sent in a header, so it must satisfy the rules of a property.
fn check_key_name(text: &str) -> Result<(), ValidationError> {
    check_property(text)
        .map_err(|error| ValidationError { kind: ValidationErrorKind::InvalidServiceBus, ..error })
}

fn read_custom(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<Vec<(String, String)>> {
    let node = node.with_code(ErrorCode::InvalidBrokeredProperty);
    let custom = node.map(errors)?;
    let max = context.limits.custom_properties_max;
    if custom.len() > max {
        let found = custom.len();
        node.reject_any(format!("must have at most {max} properties (found {found})"), errors);
        return None;
    }
    for (name, value) in &custom {
        let path = node.path.member(name);
        if let Err(error) = check_property(name) {
            let message = error.message.replacen("must have", "must have a name with", 1);
            errors.add(error.kind.into(), path.to_string(), message);
        }
        if value.contains(char::is_control) {
            let message = "must not contain control characters";
            errors.add(ErrorCode::InvalidBrokeredProperty, path.to_string(), message);
        }
    }
    Some(custom)
}

pub(super) fn write<'a>(
    message: &'a ServiceBusMessage,
    entity: &'static str,
    options: WriteOptions,
) -> Json<'a> {
    let camel = OldCasing::Camel;
    let authentication = message.authentication.as_ref().map(|authentication| {
        let kind = authentication.kind.as_ref();
        ObjectBuilder::new()
            .put_some("sasKeyName", authentication.sas_key_name.as_deref())
            .put_some("sasKey", options.secret(&authentication.sas_key))
            .put_some("type", kind.map(|kind| enum_text(KINDS, kind, camel, options.version)))
    });
    let transport = message.transport.as_ref();
    ObjectBuilder::new()
        .put_some(entity, message.entity.as_deref())
        .put_some("namespace", message.namespace.as_deref())
        .put_some(
            "transportType",
            transport.map(|transport| enum_text(TRANSPORTS, transport, camel, options.version)),
        )
        .put_some("authentication", authentication)
        .put_some("message", message.message.as_deref())
        .put_some("brokeredMessageProperties", message.brokered.as_deref().map(brokered::write))
        .put_some("customMessageProperties", message.custom.as_deref().map(pairs))
        .into()
}
