//! The pause of all jobs: the body of `POST /api/pause` and of the responses.

use kalends_domain::{NoteText, PauseRecord};
use kalends_recurrence::Instant;

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::Node;
use crate::object::ObjectBuilder;
use crate::shape;
use crate::unknown_members::reject_unknown_members;
use crate::version::Version;

/// A request to pause all jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRequest {
    /// Why they are paused.
    pub reason: NoteText,
    /// Time at which the pause ends by itself.
    pub until: Option<Instant>,
}

impl PauseRequest {
    /// Reads a body.
    pub fn read(body: &Json<'_>) -> Result<PauseRequest, ErrorDetails> {
        let mut errors = ErrorDetails::default();
        let root = Node::root(body, &shape::PAUSE, Version::NEWEST);
        reject_unknown_members(root, &mut errors);
        let request = match root.is_object(&mut errors) {
            true => read(root, &mut errors),
            false => None,
        };
        request.filter(|_| errors.is_empty()).ok_or(errors)
    }
}

fn read(root: Node<'_>, errors: &mut ErrorDetails) -> Option<PauseRequest> {
    let reason = match root.member("reason") {
        Some(node) => {
            let node = node.with_code(ErrorCode::InvalidRequestContent);
            let text = node.text(errors);
            text.and_then(|text| {
                NoteText::new(text).map_err(|error| node.reject_any(error, errors)).ok()
            })
        }
        None => {
            let expected = "give the reason of the pause in 1 to 500 characters";
            root.missing("reason", ErrorCode::MissingRequiredProperty, expected, errors);
            None
        }
    };
    let until = root.member("until").and_then(|node| node.instant(errors));
    Some(PauseRequest { reason: reason?, until })
}

/// Serialises the pause that holds now, or that none does.
pub fn write_pause(pause: Option<&PauseRecord>) -> Json<'static> {
    let paused = ObjectBuilder::new().put("paused", pause.is_some());
    match pause {
        None => paused,
        Some(record) => paused.append(pause_members(record)),
    }
    .into()
}

/// The members that describe a pause.
pub(crate) fn pause_members(record: &PauseRecord) -> ObjectBuilder<'static> {
    ObjectBuilder::new()
        .put("reason", record.reason.clone())
        .put_some("until", record.pause.until())
        .put("since", record.pause.since)
        .put("by", record.by.clone())
}
