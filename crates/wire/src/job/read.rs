//! Reading the body of a job.

use kalends_domain::{JobDefinition, Lifecycle, Limits, Switch};

use super::extensions;
use crate::action;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Context, Node};
use crate::recurrence::{recurrence, zone_of_times};
use crate::shape;
use crate::unknown_members::reject_unknown_members;
use crate::version::Version;

/// The body of a PUT.
///
/// Members that clients send back from an earlier response are ignored, see
/// `Access::Ignored`. A body with `action` but without `properties` is read as the
/// value of `properties`.
///
/// Callers validate the schedule with [`kalends_recurrence::Rule`] and parse client certificates
/// themselves.
#[derive(Clone, Debug)]
pub struct JobBody {
    /// The definition, except for a final state.
    pub definition: JobDefinition,
    /// A `state` that only the service sets.
    pub final_state: Option<FinalState>,
}

/// A final state in a body. The newest version accepts that of the job itself, because clients send
/// back what they read.
#[derive(Clone, Debug)]
pub struct FinalState {
    state: Lifecycle,
    path: String,
}

impl FinalState {
    /// Returns the switch of a job in this state, which a body that repeats the state leaves as it
    /// is. The job has the state `existing`; `None` is a new job.
    pub fn switch_of(&self, existing: Option<(Lifecycle, Switch)>) -> Result<Switch, ErrorDetails> {
        match existing.filter(|(present, _)| *present == self.state) {
            Some((_, switch)) => Ok(switch),
            None => {
                let message = format!(
                    "must be Enabled or Disabled (found \"{:?}\"); the service sets the others",
                    self.state
                );
                Err(ErrorDetails::one(ErrorCode::InvalidJobState, self.path.as_str(), message))
            }
        }
    }
}

impl JobBody {
    /// Reads a body.
    pub fn read(
        body: &Json<'_>,
        version: Version,
        limits: &Limits,
    ) -> Result<JobBody, ErrorDetails> {
        JobBody::read_with(body, Context::new(version, limits))
    }

    pub(crate) fn read_with(
        body: &Json<'_>,
        context: Context<'_>,
    ) -> Result<JobBody, ErrorDetails> {
        let bytes = body.compact_bytes();
        let max = context.limits.job_bytes_max;
        if bytes > max {
            let message =
                format!("The job must have at most {max} bytes as compact JSON (found {bytes})");
            return Err(ErrorDetails::one(ErrorCode::JobTooLarge, "", message));
        }
        let mut errors = ErrorDetails::default();
        let root = job_node(body, context.version);
        reject_unknown_members(root, &mut errors);
        let job = read_body(root, context, &mut errors);
        job.filter(|_| errors.is_empty()).ok_or(errors)
    }

    /// The definition of a new job.
    pub(crate) fn for_new_job(self) -> Result<JobDefinition, ErrorDetails> {
        match self.final_state {
            Some(state) => {
                state.switch_of(None).map(|switch| JobDefinition { switch, ..self.definition })
            }
            None => Ok(self.definition),
        }
    }
}

/// Reads the body of a new job.
pub fn read_job(
    body: &Json<'_>,
    version: Version,
    limits: &Limits,
) -> Result<JobDefinition, ErrorDetails> {
    JobBody::read(body, version, limits)?.for_new_job()
}

/// The root of a job's body, or of a patch.
pub(crate) fn job_node<'v>(body: &'v Json<'v>, version: Version) -> Node<'v> {
    let root = Node::root(body, &shape::JOB, version);
    match root.member("properties").is_none() && root.member("action").is_some() {
        true => Node::root(body, &shape::JOB_WITHOUT_PROPERTIES, version),
        false => root,
    }
}

fn read_body(root: Node<'_>, context: Context<'_>, errors: &mut ErrorDetails) -> Option<JobBody> {
    if !root.is_object(errors) {
        return None;
    }
    match root.member("properties") {
        Some(properties) => read_properties(properties, context, errors),
        None if root.member("action").is_some() => read_properties(root, context, errors),
        None => {
            root.missing_object("properties", errors);
            None
        }
    }
}

fn read_properties(
    node: Node<'_>,
    context: Context<'_>,
    errors: &mut ErrorDetails,
) -> Option<JobBody> {
    if !node.is_object(errors) {
        return None;
    }
    let zone = zone_of_times(node, context.version);
    let start = node.member("startTime").and_then(|node| node.instant_in(&zone, errors));
    let action_node = node.member("action");
    let action = match action_node {
        Some(action) => action::read_main(action, node, context, errors),
        None => {
            node.missing_object("action", errors);
            None
        }
    };
    let recurrence = node
        .member("recurrence")
        .and_then(|node| recurrence(node, context.version, errors))
        .map(Box::new);
    let state = node.member("state").and_then(|node| read_state(node, errors));
    let (switch, final_state) = match state {
        Some(State::Final(state)) => (Switch::default(), Some(state)),
        Some(State::Switch(switch)) => (switch, None),
        None => (Switch::default(), None),
    };
    let extensions = match context.version.is_old() {
        true => Default::default(),
        false => extensions::read(node, context.limits, errors),
    };
    let definition = JobDefinition { start, action: action?, recurrence, switch, extensions };
    Some(JobBody { definition, final_state })
}

enum State {
    Switch(Switch),
    Final(FinalState),
}

fn read_state(node: Node<'_>, errors: &mut ErrorDetails) -> Option<State> {
    let node = node.with_code(ErrorCode::InvalidJobState);
    let text = match node.value {
        Json::String(text) => text,
        _ => "",
    };
    let known = [("Completed", Lifecycle::Completed), ("Faulted", Lifecycle::Faulted)];
    let known = known.into_iter().find(|(state, _)| state.eq_ignore_ascii_case(text));
    match known {
        Some((_, state)) if !node.version.is_old() => {
            return Some(State::Final(FinalState { state, path: node.path.to_string() }));
        }
        None if !text.eq_ignore_ascii_case("Deleted") => {}
        _ => {
            let hint = Some("the service sets the others".to_owned());
            node.reject_with_hint("must be Enabled or Disabled", hint, errors);
            return None;
        }
    }
    let allowed = [("Enabled", Switch::Enabled), ("Disabled", Switch::Disabled)];
    node.enum_value(allowed.into_iter(), errors).map(State::Switch)
}
