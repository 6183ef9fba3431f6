//! Members that only the newest version has. The old versions neither read nor write them; their
//! edits preserve them.

use std::time::Duration;

use kalends_domain::{
    Action, Extensions, JobDefinition, Limits, MissedPolicy, MissedRuns, Overlap, RetryKind,
    RetryPolicy, Signing, Target, Verbatim,
};
use kalends_recurrence::{Recurrence, RecurrencePattern};

use crate::duration::write_duration;
use crate::enum_text::{EnumText, OldCasing, enum_text};
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::node::Node;
use crate::object::{ObjectBuilder, pairs};
use crate::recurrence::seen_by_old_versions;
use crate::tags::read_tags;
use crate::version::Version;

const POLICIES: &EnumText<MissedPolicy> =
    &[("Skip", MissedPolicy::Skip), ("Last", MissedPolicy::Last), ("All", MissedPolicy::All)];
const OVERLAPS: &EnumText<Overlap> =
    &[("Skip", Overlap::Skip), ("QueueOne", Overlap::QueueOne), ("Allow", Overlap::Allow)];
const SIGNINGS: &EnumText<Signing> = &[("On", Signing::On), ("Off", Signing::Off)];

/// Copies members that the old versions do not have from the stored definition into one edited
/// through an old version: extension members, time zone, first day of the week and message format.
/// An `Exponential` retry policy, which the client sees as `Fixed`, stays `Exponential`.
pub fn keep_extensions(stored: &JobDefinition, edited: &mut JobDefinition) {
    edited.extensions = stored.extensions.clone();
    keep_recurrence_extensions(&stored.recurrence, &mut edited.recurrence);
    keep_message_format(&stored.action.action, &mut edited.action.action);
    keep_retry_extensions(&stored.action.retry, &mut edited.action.retry);
    if let (Some(stored), Some(edited)) =
        (&stored.action.error_action, &mut edited.action.error_action)
    {
        keep_message_format(&stored.action, &mut edited.action);
        keep_retry_extensions(&stored.retry, &mut edited.retry);
    }
}

/// A cron expression is kept if the client did not change what it saw: an equal schedule, or no
/// recurrence if there is no equal one.
fn keep_recurrence_extensions(
    stored: &Option<Box<Recurrence>>,
    edited: &mut Option<Box<Recurrence>>,
) {
    let Some(stored) = stored else { return };
    let seen = seen_by_old_versions(&stored.pattern);
    match (edited, &stored.pattern) {
        (edited @ None, RecurrencePattern::Cron(_)) if seen.is_none() => {
            *edited = Some(stored.clone());
        }
        (None, _) => {}
        (Some(edited), RecurrencePattern::Interval(stored_interval)) => {
            edited.zone = stored.zone.clone();
            if let RecurrencePattern::Interval(interval) = &mut edited.pattern {
                interval.first_day_of_week = stored_interval.first_day_of_week;
            }
        }
        (Some(edited), RecurrencePattern::Cron(_)) => {
            edited.zone = stored.zone.clone();
            if edited.interval() == seen.as_ref() {
                edited.pattern = stored.pattern.clone();
            }
        }
    }
}

fn keep_message_format(stored: &Action, edited: &mut Action) {
    if let (Target::StorageQueue(stored), Target::StorageQueue(edited)) =
        (&stored.target, &mut edited.target)
    {
        edited.format = stored.format;
    }
}

fn keep_retry_extensions(stored: &Option<Box<RetryPolicy>>, edited: &mut Option<Box<RetryPolicy>>) {
    if let (Some(stored), Some(edited)) = (stored, edited) {
        edited.interval_max = stored.interval_max.clone();
        edited.age_max = stored.age_max.clone();
        if stored.kind == RetryKind::Exponential && edited.kind == RetryKind::Fixed {
            edited.kind = RetryKind::Exponential;
        }
    }
}

pub(super) fn read(node: Node<'_>, limits: &Limits, errors: &mut ErrorDetails) -> Extensions {
    let description = node.member("description").and_then(|node| {
        node.with_code(ErrorCode::InvalidDescription)
            .text_within(limits.description_chars_max, errors)
    });
    let action = node.member("action");
    let signing = action.as_ref().and_then(|action| action.member("signing"));
    Extensions {
        description,
        tags: node.member("tags").and_then(|node| read_tags(node, limits, errors)),
        missed_runs: node.member("missedRuns").and_then(|node| read_missed_runs(node, errors)),
        overlap: node
            .member("overlap")
            .and_then(|node| node.enum_value(OVERLAPS.iter().copied(), errors)),
        jitter: node.member("jitter").and_then(|node| node.duration(errors)),
        timeout: node.member("timeout").and_then(|node| read_timeout(node, limits, errors)),
        signing: signing.and_then(|node| node.enum_value(SIGNINGS.iter().copied(), errors)),
    }
}

fn read_missed_runs(node: Node<'_>, errors: &mut ErrorDetails) -> Option<MissedRuns> {
    if !node.is_object(errors) {
        return None;
    }
    let policy = match node.member("policy") {
        Some(node) => node.enum_value(POLICIES.iter().copied(), errors),
        None => {
            let expected = "allowed are Skip, Last, All";
            node.missing("policy", ErrorCode::MissingRequiredProperty, expected, errors);
            None
        }
    };
    let within = node.member("within").and_then(|node| node.duration(errors));
    Some(MissedRuns { policy: policy?, within })
}

fn read_timeout(
    node: Node<'_>,
    limits: &Limits,
    errors: &mut ErrorDetails,
) -> Option<Verbatim<Duration>> {
    let node = node.with_code(ErrorCode::InvalidTimeout);
    let timeout = node.duration(errors)?;
    let max = limits.timeout_max;
    if timeout.value().is_zero() || *timeout.value() > max {
        let message = format!("must be longer than 0 and at most {}", write_duration(max));
        node.reject(message, errors);
    }
    Some(timeout)
}

/// Serialises the extension members at the start of `properties`.
pub(super) fn write_head(extensions: Option<&Extensions>) -> ObjectBuilder<'_> {
    let description = extensions.and_then(|all| all.description.as_deref());
    let tags = extensions.and_then(|all| all.tags.as_deref());
    ObjectBuilder::new().put_some("description", description).put_some("tags", tags.map(pairs))
}

/// Serialises the extension members after `recurrence`.
pub(super) fn write_tail(extensions: Option<&Extensions>) -> ObjectBuilder<'_> {
    let version = Version::V2026_11_01;
    let pascal = OldCasing::Pascal;
    let Some(all) = extensions else { return ObjectBuilder::new() };
    let missed_runs = all.missed_runs.as_ref().map(|missed| {
        ObjectBuilder::new()
            .put("policy", enum_text(POLICIES, &missed.policy, pascal, version))
            .put_some("within", missed.within.as_ref().map(Verbatim::text))
    });
    let overlap = all.overlap.as_ref().map(|overlap| enum_text(OVERLAPS, overlap, pascal, version));
    ObjectBuilder::new()
        .put_some("missedRuns", missed_runs)
        .put_some("overlap", overlap)
        .put_some("jitter", all.jitter.as_ref().map(Verbatim::text))
        .put_some("timeout", all.timeout.as_ref().map(Verbatim::text))
}

/// Adds `signing`, the extension member of the action.
pub(super) fn write_signing<'a>(
    action: ObjectBuilder<'a>,
    extensions: Option<&'a Extensions>,
) -> ObjectBuilder<'a> {
    let signing = extensions.and_then(|all| all.signing.as_ref());
    let version = Version::V2026_11_01;
    action.put_some(
        "signing",
        signing.map(|signing| enum_text(SIGNINGS, signing, OldCasing::Pascal, version)),
    )
}
