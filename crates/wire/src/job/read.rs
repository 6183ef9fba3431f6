//! Reading the body of a job.

use kalends_domain::{JobDefinition, Limits, Switch};

use super::extensions;
use crate::action;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node, quoted};
use crate::recurrence::{recurrence, zone_of_times};
use crate::version::Version;

/// Reads the body of a PUT. `id`, `name`, `type` and `status`, which clients send back from an
/// earlier response, are ignored like unknown members. A body with `action` but without `properties`
/// is read as the value of `properties`.
///
/// Callers validate the schedule with [`kalends_recurrence::Rule`] and parse client certificates
/// themselves.
pub fn read_job(
    body: &Json<'_>,
    version: Version,
    limits: &Limits,
) -> Result<JobDefinition, ErrorDetails> {
    read_job_with(body, Context::new(version, limits))
}

pub(crate) fn read_job_with(
    body: &Json<'_>,
    context: Context<'_>,
) -> Result<JobDefinition, ErrorDetails> {
    let bytes = body.compact_bytes();
    let max = context.limits.job_bytes_max;
    if bytes > max {
        let message = format!("the job has {bytes} bytes as compact JSON; allowed are {max}");
        return Err(ErrorDetails::one(ErrorCode::JobTooLarge, "", message));
    }
    let mut errors = ErrorDetails::default();
    let job = read_body(Node::root(body), context, &mut errors);
    job.filter(|_| errors.is_empty()).ok_or(errors)
}

fn read_body(
    root: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<JobDefinition> {
    if !root.is_object(errors) {
        return None;
    }
    match root.member("properties") {
        Some(properties) => read_properties(properties, context, errors),
        None if root.member("action").is_some() => read_properties(root, context, errors),
        None => {
            let expected = "expected an object with action, startTime, recurrence and state";
            root.missing("properties", ErrorCode::MissingRequiredProperty, expected, errors);
            None
        }
    }
}

fn read_properties(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<JobDefinition> {
    if !node.is_object(errors) {
        return None;
    }
    let zone = zone_of_times(node, context.version);
    let start = node.member("startTime").and_then(|node| node.instant_in(&zone, errors));
    let action_node = node.member("action");
    let action = match action_node {
        Some(action) => action::read_main(action, node, context, errors),
        None => {
            let expected = "expected an object with type and what it calls";
            node.missing("action", ErrorCode::MissingRequiredProperty, expected, errors);
            None
        }
    };
    let recurrence =
        node.member("recurrence").and_then(|node| recurrence(node, context.version, errors));
    let switch = node.member("state").and_then(|node| read_switch(node, errors));
    let extensions = match context.version.is_old() {
        true => Default::default(),
        false => extensions::read(node, context.limits, errors),
    };
    Some(JobDefinition {
        start,
        action: action?,
        recurrence,
        switch: switch.unwrap_or_default(),
        extensions,
    })
}

fn read_switch(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Switch> {
    let node = node.with_code(ErrorCode::InvalidJobState);
    let text = node.text(errors)?;
    let set_by_service = ["Completed", "Faulted", "Deleted"];
    if set_by_service.iter().any(|state| state.eq_ignore_ascii_case(text)) {
        let message =
            format!("{} is set by the service; allowed are Enabled, Disabled", quoted(text));
        node.reject(message, errors);
        return None;
    }
    let allowed = [("Enabled", Switch::Enabled), ("Disabled", Switch::Disabled)];
    node.enum_value(allowed.into_iter(), errors)
}
