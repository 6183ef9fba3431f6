//! Reading and serialising the action of a job and its error action.

mod authentication;
mod brokered;
mod http;
mod retry;
mod service_bus;
mod storage_queue;

use kalends_domain::{Action, ErrorAction, JobDefinition, MainAction, Target};

use crate::enum_text::EnumText;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node};
use crate::object::ObjectBuilder;
use crate::write_options::{Secrets, WriteOptions};

/// Members that hold the payload of an action, one per target type.
const PAYLOADS: [&str; 4] =
    ["request", "queueMessage", "serviceBusQueueMessage", "serviceBusTopicMessage"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    StorageQueue,
    ServiceBusQueue,
    ServiceBusTopic,
}

const KINDS: &EnumText<Kind> = &[
    ("Http", Kind::Http),
    ("Https", Kind::Https),
    ("StorageQueue", Kind::StorageQueue),
    ("ServiceBusQueue", Kind::ServiceBusQueue),
    ("ServiceBusTopic", Kind::ServiceBusTopic),
];

impl Kind {
    fn payload(self) -> &'static str {
        match self {
            Kind::Http | Kind::Https => "request",
            Kind::StorageQueue => "queueMessage",
            Kind::ServiceBusQueue => "serviceBusQueueMessage",
            Kind::ServiceBusTopic => "serviceBusTopicMessage",
        }
    }
}

/// Returns the payload members that do not belong to this type; none if the type is unknown.
pub(crate) fn foreign_payloads(type_text: &str) -> impl Iterator<Item = &'static str> {
    let kind = KINDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(type_text));
    let own = kind.map(|(_, kind)| kind.payload());
    PAYLOADS.into_iter().filter(move |payload| own.is_some_and(|own| own != *payload))
}

/// Reads `action` of a job. `retryPolicy` is also accepted in `request` and in `properties`, and
/// `errorAction` in `properties`, where examples in the documentation of the retired service place
/// them.
pub(crate) fn read_main(
    node: Node<'_>,
    properties: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<MainAction> {
    if !node.is_object(errors) {
        return None;
    }
    let action = read(node, context, errors);
    let request = node.member("request");
    let retry = node
        .member("retryPolicy")
        .or_else(|| request.as_ref().and_then(|request| request.member("retryPolicy")))
        .or_else(|| properties.member("retryPolicy"))
        .and_then(|node| retry::read(node, context, errors))
        .map(Box::new);
    let error_action = node
        .member("errorAction")
        .or_else(|| properties.member("errorAction"))
        .and_then(|node| read_error_action(node, context, errors));
    Some(MainAction { action: action?, retry, error_action })
}

fn read_error_action(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<Box<ErrorAction>> {
    if !node.is_object(errors) {
        return None;
    }
    if let Some(nested) = node.member("errorAction") {
        nested.reject_any("is not allowed; an error action has no error action", errors);
    }
    let action = read(node, context, errors);
    let request = node.member("request");
    let retry = node
        .member("retryPolicy")
        .or_else(|| request.as_ref().and_then(|request| request.member("retryPolicy")))
        .and_then(|node| retry::read(node, context, errors))
        .map(Box::new);
    Some(Box::new(ErrorAction { action: action?, retry }))
}

fn read(node: Node<'_>, context: Context<'_>, errors: &mut ErrorDetails) -> Option<Action> {
    let Some(type_node) = node.member("type") else {
        let allowed: Vec<_> = KINDS.iter().map(|(word, _)| *word).collect();
        let expected = format!("allowed are {}", allowed.join(", "));
        node.missing("type", ErrorCode::MissingRequiredProperty, expected, errors);
        return None;
    };
    let type_node = type_node.with_code(ErrorCode::InvalidActionType);
    let kind = type_node.enum_value(KINDS.iter().copied(), errors)?;
    let type_as_written = type_node.text(errors)?.to_owned();
    let own = kind.payload();
    let foreign = PAYLOADS.into_iter().filter(|payload| *payload != own);
    let mut has_foreign = false;
    for foreign in foreign.filter_map(|payload| node.member(payload)) {
        has_foreign = true;
        let message = format!("is not allowed with type {type_as_written}, which has {own}");
        foreign.with_code(ErrorCode::ActionMismatch).reject_any(message, errors);
    }
    let Some(payload) = node.member(own) else {
        if !has_foreign {
            let expected = format!("type {type_as_written} requires it");
            node.missing(own, ErrorCode::MissingRequiredProperty, expected, errors);
        }
        return None;
    };
    if !payload.is_object(errors) {
        return None;
    }
    let target = match kind {
        Kind::Http | Kind::Https => {
            let request = http::read(payload, context, errors)?;
            if kind == Kind::Https && !request.uri.is_https() {
                let path = payload.path.member("uri").to_string();
                let message = "must have the scheme https, because the type is Https";
                errors.add(ErrorCode::ActionMismatch, path, message);
            }
            Target::Http(request)
        }
        Kind::StorageQueue => Target::StorageQueue(storage_queue::read(payload, context, errors)?),
        Kind::ServiceBusQueue => {
            Target::ServiceBusQueue(service_bus::read(payload, "queueName", context, errors)?)
        }
        Kind::ServiceBusTopic => {
            Target::ServiceBusTopic(service_bus::read(payload, "topicPath", context, errors)?)
        }
    };
    Some(Action { type_as_written, target })
}

/// Serialises `action` of a job without `signing`.
pub(crate) fn write_main(main: &MainAction, options: WriteOptions) -> ObjectBuilder<'_> {
    let error_action = main.error_action.as_ref().map(|error| {
        let retry = error.retry.as_ref().map(|policy| retry::write(policy, options));
        write(&error.action, options).put_some("retryPolicy", retry)
    });
    let retry = main.retry.as_ref().map(|policy| retry::write(policy, options));
    write(&main.action, options)
        .put_some("retryPolicy", retry)
        .put_some("errorAction", error_action)
}

/// Keeps the stored spelling of `type` where only its case differs. The newest version returns all
/// types in PascalCase: a definition that it returned must not become another one when it is sent
/// back.
pub fn keep_type_spelling(stored: &JobDefinition, edited: &mut JobDefinition) {
    let keep = |stored: &Action, edited: &mut Action| {
        if edited.type_as_written.eq_ignore_ascii_case(&stored.type_as_written) {
            edited.type_as_written.clone_from(&stored.type_as_written);
        }
    };
    keep(&stored.action.action, &mut edited.action.action);
    if let (Some(stored), Some(edited)) =
        (&stored.action.error_action, &mut edited.action.error_action)
    {
        keep(&stored.action, &mut edited.action);
    }
}

fn write(action: &Action, options: WriteOptions) -> ObjectBuilder<'_> {
    let (payload, value): (_, Json<'_>) = match &action.target {
        Target::Http(request) => ("request", http::write(request, options)),
        Target::StorageQueue(message) => ("queueMessage", storage_queue::write(message, options)),
        Target::ServiceBusQueue(message) => {
            ("serviceBusQueueMessage", service_bus::write(message, "queueName", options))
        }
        Target::ServiceBusTopic(message) => {
            ("serviceBusTopicMessage", service_bus::write(message, "topicPath", options))
        }
    };
    let written = action.type_as_written.as_str();
    // The base of a patch keeps the author's casing, or the patch would change it.
    let is_verbatim = options.version.is_old() || options.secrets == Secrets::Include;
    let type_text = match is_verbatim {
        true => written,
        false => {
            let known = KINDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(written));
            known.map_or(written, |(word, _)| word)
        }
    };
    ObjectBuilder::new().put(payload, value).put("type", type_text)
}
