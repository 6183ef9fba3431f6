//! Retry policies. The old versions have no `Exponential` and return `Fixed` instead.

use kalends_domain::{RetryKind, RetryPolicy};

use crate::enum_text::{EnumText, OldCasing, enum_text};
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node};
use crate::object::ObjectBuilder;
use crate::write_options::WriteOptions;

const KINDS: &EnumText<RetryKind> = &[
    ("None", RetryKind::None),
    ("Fixed", RetryKind::Fixed),
    ("Exponential", RetryKind::Exponential),
];

pub(super) fn read(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<RetryPolicy> {
    let node = node.with_code(ErrorCode::InvalidRetryPolicy);
    if !node.is_object(errors) {
        return None;
    }
    let is_old = context.version.is_old();
    let known = KINDS.iter().copied();
    let known = known.filter(|(_, kind)| !is_old || *kind != RetryKind::Exponential);
    let kind = match node.member("retryType") {
        Some(node) => node.enum_value(known, errors),
        None => {
            let allowed: Vec<_> = known.map(|(word, _)| word).collect();
            let expected = format!("allowed are {}", allowed.join(", "));
            node.missing("retryType", ErrorCode::MissingRequiredProperty, expected, errors);
            None
        }
    };
    let interval = node.member("retryInterval").and_then(|node| node.duration(errors));
    let count = node.member("retryCount").and_then(|node| {
        let count = u32::try_from(node.integer(errors)?);
        let max = context.limits.retry_count_max;
        count.map_err(|_| node.reject(format!("must be between 0 and {max}"), errors)).ok()
    });
    let extension = |name| node.member(name).filter(|_| !is_old);
    let interval_max = extension("maxInterval").and_then(|node| node.duration(errors));
    let age_max = extension("maxAge").and_then(|node| node.duration(errors));
    let policy = RetryPolicy { kind: kind?, interval, count, interval_max, age_max };
    if let Err((member, error)) = policy.check(context.limits) {
        errors.add(error.kind.into(), node.path.member(member).to_string(), error.to_string());
    }
    Some(policy)
}

pub(super) fn write(policy: &RetryPolicy, options: WriteOptions) -> Json<'_> {
    let is_old = options.version.is_old();
    let kind = match policy.kind {
        RetryKind::Exponential if is_old => RetryKind::Fixed,
        kind => kind,
    };
    let members = ObjectBuilder::new()
        .put("retryType", enum_text(KINDS, &kind, OldCasing::Lower, options.version))
        .put_some("retryInterval", policy.interval.as_ref().map(|wait| wait.text()))
        .put_some("retryCount", policy.count);
    match is_old {
        true => members.into(),
        false => members
            .put_some("maxInterval", policy.interval_max.as_ref().map(|wait| wait.text()))
            .put_some("maxAge", policy.age_max.as_ref().map(|age| age.text()))
            .into(),
    }
}
